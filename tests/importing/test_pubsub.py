"""`headrace import pubsub DIR`: a SQLite store becomes records and positions that the http door answers as before."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest
from cryptography.fernet import Fernet

from headrace.cli import exits
from headrace.cli.importing.command import ImportedPartition
from headrace.cli.importing.pubsub import PubsubSource
from headrace.testing import Broker
from tests.cli.running import Run
from tests.importing.planted import pubsub_folder

LIMIT_S = 30.0
RECORDS = [
    ("k1", {"n": 1, "text": "ü"}, {"source": "shop"}),
    (None, "plain", {}),
    ("", [1, 2.5, None], {"attempt": 3, "nested": {"a": [True]}}),
    ("k2", None, {"empty": ""}),
]


def poll(broker: Broker, topic: str, **asked: str) -> dict[str, object]:
    given = {"topic": topic, "timeout_ms": "0", **asked}
    found: dict[str, object] = httpx.get(f"http://{broker.http}/poll", params=given, timeout=LIMIT_S).json()
    return found


def test_records_come_back_through_the_http_door_as_they_were(broker: Broker, cli: Run, tmp_path: Path) -> None:
    pubsub_folder(tmp_path, {"demo": RECORDS})
    (row,) = cli("import", "pubsub", str(tmp_path), "-o", "json").rows(ImportedPartition)
    assert (row.topic, row.records, row.result) == ("demo", 4, "verified")
    shown = poll(broker, "demo", from_offset="0")["records"]
    assert isinstance(shown, list)
    for offset, ((key, value, headers), record) in enumerate(zip(RECORDS, shown, strict=True)):
        assert record == {
            "offset": offset,
            "ts_ms": 1758865780040 + offset,
            "key": key,
            "value": value,
            "headers": headers,
        }


def test_groups_and_consumers_go_on_where_they_were(broker: Broker, cli: Run, tmp_path: Path) -> None:
    values = [(None, number, {}) for number in range(20)]
    commits = {"places|group:g1": 9, "places|consumer:c1": 4, "places|consumer:_anon": 0, "places|group:new": -1}
    pubsub_folder(tmp_path, {"places": values}, commits)
    ended = cli("import", "pubsub", str(tmp_path))
    assert ended.code == 0 and "3 positions" in ended.err
    assert poll(broker, "places", consumer_id="c1")["committed"] == 4
    assert poll(broker, "places")["committed"] == 0
    broker.clock.advance("11 s")  # the import's own lease of the group
    asked = poll(broker, "places", group_id="g1", consumer_id="mine", max_records="1")
    assert (asked["committed"], asked["next_offset"]) == (9, 11)
    assert poll(broker, "places", group_id="new", consumer_id="mine")["committed"] == -1


def test_positions_count_records_where_offsets_had_gaps(broker: Broker, cli: Run, tmp_path: Path) -> None:
    gap = "DELETE FROM records WHERE topic = 'gaps' AND offset < 5"
    pubsub_folder(tmp_path, {"gaps": [(None, n, {}) for n in range(10)]}, {"gaps|consumer:c1": 7}, prepare=[gap])
    assert cli("import", "pubsub", str(tmp_path)).code == 0
    found = poll(broker, "gaps", consumer_id="c1", max_records="1")
    assert found["committed"] == 2
    records = found["records"]
    assert isinstance(records, list) and records[0]["value"] == 8


def test_what_the_write_ahead_log_still_holds_is_imported_and_the_folder_stays_as_it_is(
    broker: Broker, cli: Run, tmp_path: Path
) -> None:
    pubsub_folder(tmp_path, {"ahead": RECORDS}, keep_write_ahead=True)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert len(before["pubsub.sqlite-wal"]) > 1000
    assert cli("import", "pubsub", str(tmp_path)).code == 0
    assert len(broker.values("ahead")) == len(RECORDS)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_topics_without_records_are_made(broker: Broker, cli: Run, tmp_path: Path) -> None:
    pubsub_folder(tmp_path, {"quiet": []})
    placement = {"topics": {"placed": {"followers": [2], "isr": [1, 2], "owner": 1}}, "version": 3}
    (tmp_path / "topics.json").write_text(json.dumps(placement))
    assert cli("import", "pubsub", str(tmp_path)).code == 0
    assert {"quiet", "placed"} <= set(broker.topics())


def test_a_value_larger_than_a_topic_usually_takes_is_imported(broker: Broker, cli: Run, tmp_path: Path) -> None:
    pubsub_folder(tmp_path, {"large": [(None, "x" * 3_000_000, {})]})
    assert cli("import", "pubsub", str(tmp_path)).code == 0
    assert len(broker.values("large")[0]) == 3_000_002


def test_encrypted_values_without_their_key_are_refused_and_nothing_is_sent(
    broker: Broker, cli: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "UPDATE records SET value_json = 'ENC::FERNET::gAAAAABl' WHERE offset = 1"
    pubsub_folder(tmp_path, {"secret": RECORDS}, prepare=[secret])
    ended = cli("import", "pubsub", str(tmp_path))
    assert ended.code == exits.REFUSED
    assert "stored encrypted" in ended.err and "--key-file" in ended.err
    assert "secret" not in broker.topics()


def test_encrypted_values_are_read_with_their_key(broker: Broker, cli: Run, tmp_path: Path) -> None:
    key = Fernet.generate_key()
    token = Fernet(key).encrypt(b'{"secret":1}').decode()
    hidden = f"UPDATE records SET value_json = 'ENC::FERNET::{token}' WHERE offset = 0"
    pubsub_folder(tmp_path / "data", {"opened": RECORDS}, prepare=[hidden])
    (tmp_path / "key").write_bytes(key)
    assert cli("import", "pubsub", str(tmp_path / "data"), "--key-file", str(tmp_path / "key")).code == 0
    assert broker.values("opened")[0] == b'{"secret":1}'
    (tmp_path / "key").write_bytes(Fernet.generate_key())
    other = cli("import", "pubsub", str(tmp_path / "data"), "--key-file", str(tmp_path / "key"))
    assert other.code == exits.REFUSED and "another key" in other.err


def test_a_key_that_is_none_or_cannot_be_used_is_told(cli: Run, tmp_path: Path) -> None:
    pubsub_folder(tmp_path / "data", {"keyed": RECORDS})
    (tmp_path / "key").write_text("short\n")
    ended = cli("import", "pubsub", str(tmp_path / "data"), "--key-file", str(tmp_path / "key"))
    assert ended.code == exits.REFUSED
    assert "no Fernet key" in ended.err
    assert cli("import", "pubsub", str(tmp_path / "data"), "--key-file", str(tmp_path / "none")).code == exits.STORAGE


def test_a_value_that_is_no_json_is_damage(broker: Broker, cli: Run, tmp_path: Path) -> None:
    hurt = [
        "UPDATE records SET value_json = '{' WHERE offset = 1",
        "UPDATE records SET headers_json = '[]' WHERE offset = 2",
    ]
    pubsub_folder(tmp_path, {"broken": RECORDS}, prepare=hurt)
    ended = cli("import", "pubsub", str(tmp_path))
    assert ended.code == exits.REFUSED
    assert "topic 'broken' offset 1" in ended.err and "2 stored entries do not read" in ended.err
    assert cli("import", "pubsub", str(tmp_path), "--skip-damaged").code == 0
    assert len(broker.values("broken")) == 2


def test_a_position_does_not_count_what_was_left_out(broker: Broker, cli: Run, tmp_path: Path) -> None:
    hurt = ["UPDATE records SET value_json = '{' WHERE offset IN (1, 8)"]
    values = [(None, n, {}) for n in range(10)]
    pubsub_folder(tmp_path, {"hurt": values}, {"hurt|consumer:c1": 4}, prepare=hurt)
    assert cli("import", "pubsub", str(tmp_path), "--skip-damaged").code == 0
    records = poll(broker, "hurt", consumer_id="c1", max_records="1")["records"]
    assert isinstance(records, list) and records[0]["value"] == 5


@pytest.mark.parametrize("content", [b"", b"not a database" * 100])
def test_a_file_that_is_no_such_database_is_told(cli: Run, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "pubsub.sqlite").write_bytes(content)
    ended = cli("import", "pubsub", str(tmp_path))
    assert ended.code == exits.REFUSED
    assert "is another program's" in ended.err or "does not read as a database" in ended.err


def test_a_folder_of_several_brokers_is_told_which_to_choose_from(cli: Run, tmp_path: Path) -> None:
    for name in ("data1", "data2"):
        pubsub_folder(tmp_path / name, {"t": []})
    ended = cli("import", "pubsub", str(tmp_path))
    assert ended.code == exits.NOT_FOUND
    assert str(tmp_path / "data1") in ended.err and str(tmp_path / "data2") in ended.err


def test_positions_are_found_whatever_bars_the_names_of_topics_and_groups_have(
    broker: Broker, cli: Run, tmp_path: Path
) -> None:
    values = [(None, number, {}) for number in range(20)]
    commits = {
        "bar|group:g|1": 9,
        "bar|consumer:c|group:x": 4,
        "bar|red|consumer:c|1": 2,
        "bar|red|group:g": 6,
        "gone|group:g": 3,  # of a topic that is no more
    }
    pubsub_folder(tmp_path, {"bar": values, "bar|red": values}, commits)
    ended = cli("import", "pubsub", str(tmp_path))
    assert ended.code == 0 and "4 positions" in ended.err
    assert poll(broker, "bar", consumer_id="c|group:x")["committed"] == 4
    assert poll(broker, "bar|red", consumer_id="c|1")["committed"] == 2
    broker.clock.advance("11 s")  # the import's own lease of the groups
    assert poll(broker, "bar", group_id="g|1", consumer_id="mine")["committed"] == 9
    assert poll(broker, "bar|red", group_id="g", consumer_id="mine")["committed"] == 6


def test_what_is_no_text_or_nested_without_end_is_damage(broker: Broker, cli: Run, tmp_path: Path) -> None:
    deep = "[" * 100_000
    hurt = [
        "UPDATE records SET value_json = CAST(X'22ff22' AS TEXT) WHERE offset = 0",
        "UPDATE records SET key = CAST(X'ff' AS TEXT) WHERE offset = 1",
        "UPDATE records SET headers_json = CAST(X'7b2261223a2022ff227d' AS TEXT) WHERE offset = 2",
        f"UPDATE records SET headers_json = '{deep}' WHERE offset = 3",
        f"UPDATE records SET value_json = '{deep}' WHERE offset = 4",
        "UPDATE records SET key = X'00ff' WHERE offset = 5",
    ]
    values = [("k", n, {}) for n in range(7)]
    pubsub_folder(tmp_path, {"odd": values}, {"odd|consumer:c1": 6}, prepare=hurt)
    ended = cli("import", "pubsub", str(tmp_path))
    assert ended.code == exits.REFUSED and "6 stored entries do not read" in ended.err
    assert ended.err.count("it is not UTF-8 text") == 3 and "nested too deeply" in ended.err
    assert "Traceback" not in ended.err
    assert cli("import", "pubsub", str(tmp_path), "--skip-damaged").code == 0
    assert broker.values("odd") == [b"6"]
    assert poll(broker, "odd", consumer_id="c1")["committed"] == 0


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        ("INSERT INTO topic_seq VALUES(CAST(X'ff' AS TEXT), 0)", "a topic whose name is not UTF-8 text"),
        ("INSERT INTO commits VALUES(CAST(X'747c67726f75703aff' AS TEXT), 1)", "is not UTF-8 text"),
        ("INSERT INTO commits VALUES('t|group:g', 'many')", "is no offset"),
        ("ALTER TABLE records RENAME COLUMN ts_ms TO at", "does not read"),
    ],
)
def test_a_database_that_cannot_be_imported_is_told_in_a_sentence(
    broker: Broker, cli: Run, tmp_path: Path, spoil: str, says: str
) -> None:
    pubsub_folder(tmp_path, {"t": RECORDS}, prepare=[spoil])
    ended = cli("import", "pubsub", str(tmp_path))
    assert ended.code == exits.REFUSED and says in ended.err and "Traceback" not in ended.err


def test_a_damaged_page_and_a_placement_nested_without_end_are_told(cli: Run, tmp_path: Path) -> None:
    pubsub_folder(tmp_path, {"t": [(None, "x" * 1000, {}) for _ in range(100)]})
    whole = (tmp_path / "pubsub.sqlite").read_bytes()
    (tmp_path / "topics.json").write_text("[" * 100_000)
    ended = cli("import", "pubsub", str(tmp_path))
    assert ended.code == exits.REFUSED and "nested too deeply" in ended.err
    (tmp_path / "topics.json").unlink()
    (tmp_path / "pubsub.sqlite").write_bytes(whole[: 4096 * 6] + b"\xff" * (len(whole) - 4096 * 6))
    ended = cli("import", "pubsub", str(tmp_path))
    assert ended.code == exits.REFUSED and "does not read" in ended.err and "Traceback" not in ended.err


def test_the_copy_of_a_write_ahead_log_goes_when_the_import_ends(
    broker: Broker, cli: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr("tempfile.tempdir", None)
    ended, close = list[PubsubSource](), PubsubSource.close

    def closed(source: PubsubSource) -> None:
        ended.append(source)
        close(source)

    monkeypatch.setattr(PubsubSource, "close", closed)
    pubsub_folder(tmp_path / "data", {"ahead": RECORDS}, keep_write_ahead=True)
    for more in (["--dry-run"], [], ["--only", "none"]):
        cli("import", "pubsub", str(tmp_path / "data"), *more)
    assert len(ended) == 3 and not list((tmp_path / "tmp").iterdir())
