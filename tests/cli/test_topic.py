"""`headrace topic` on a real broker: tables, JSON, what asks before it destroys, and what it refuses."""

from __future__ import annotations

import json

import pytest

from headrace.cli import exits
from headrace.cli.topic_changes import Altered, Trimmed
from headrace.cli.topic_values import Created, Deleted, TopicDetail, TopicRow
from headrace.doors.kafka.names import to_kafka
from headrace.testing import Broker
from tests.cli.running import Ended, Run


def detail(cli: Run, topic: str) -> TopicDetail:
    return cli("topic", "describe", topic, "-o", "json").row(TopicDetail)


def setting(cli: Run, topic: str, name: str) -> str | None:
    return next(found.value for found in detail(cli, topic).config if found.name == name)


def refused(ended: Ended, code: int, *words: str) -> None:
    assert ended.code == code, ended
    assert "Traceback" not in ended.err
    for word in words:
        assert word in ended.err


def test_a_topic_is_made_with_partitions_and_settings_that_have_units(cli: Run) -> None:
    made = cli("topic", "create", "made", "-p", "3", "-c", "retention.ms=1d", "-c", "segment.bytes=64MiB")
    assert (made.code, made.out) == (0, "Created topic made with 3 partitions.\n"), made.err
    found = detail(cli, "made")
    assert [part.partition for part in found.partitions] == [0, 1, 2]
    assert {s.name: s.value for s in found.config if not s.is_default} == {
        "retention.ms": "86400000",
        "segment.bytes": str(64 << 20),
    }


def test_several_topics_are_made_at_once_and_json_tells_of_each(cli: Run) -> None:
    rows = cli("topic", "create", "one", "two", "-o", "json").rows(Created)
    assert [(row.name, row.partitions, row.action) for row in rows] == [("one", 1, "created"), ("two", 1, "created")]


def test_a_name_that_is_taken_is_refused_unless_that_is_fine(cli: Run) -> None:
    cli("topic", "create", "taken")
    refused(cli("topic", "create", "taken"), exits.REFUSED, "taken")
    again = cli("topic", "create", "taken", "--if-not-exists", "-o", "json").rows(Created)
    assert [row.action for row in again] == ["exists"]


def test_a_dry_run_of_create_checks_and_makes_nothing(cli: Run) -> None:
    assert "Would create topic dry" in cli("topic", "create", "dry", "--dry-run").out
    refused(cli("topic", "create", "dry", "--dry-run", "-c", "retention.ms=soon"), exits.USAGE, "soon")
    refused(cli("topic", "create", "dry", "--dry-run", "-c", "no.such=1"), exits.REFUSED, "no.such")
    refused(cli("topic", "describe", "dry"), exits.NOT_FOUND)


@pytest.mark.parametrize("name", ["bad/name", "..", "x" * 300])
def test_a_name_that_no_topic_can_have_is_refused(cli: Run, name: str) -> None:
    refused(cli("topic", "create", name), exits.REFUSED)


def test_the_list_has_a_table_json_and_a_pattern(cli: Run) -> None:
    cli("topic", "create", "list-a", "list-b", "-p", "2")
    table = cli("topic", "list", "list-.*").out.splitlines()
    assert table[0].split() == ["NAME", "PARTITIONS", "REPLICAS", "SIZE"]
    assert [line.split()[:3] for line in table[1:]] == [["list-a", "2", "1"], ["list-b", "2", "1"]]
    rows = cli("topic", "list", "list-a", "-o", "json").rows(TopicRow)
    assert [(row.name, row.partitions, row.internal, row.size_bytes) for row in rows] == [("list-a", 2, False, 0)]
    assert rows[0].topic_id in cli("topic", "list", "list-a", "-o", "wide").out
    assert cli("topic", "list", "list-a", "-o", "csv").out.startswith("name,partitions,replicas,size_bytes,")
    refused(cli("topic", "list", "no-such-.*"), exits.NOT_FOUND, "no topic matches")
    refused(cli("topic", "list", "("), exits.USAGE, "regular expression")


def test_describe_shows_offsets_sizes_and_the_settings_that_differ(cli: Run) -> None:
    cli("topic", "create", "shown", "-p", "2", "-c", "retention.ms=1d")
    cli("produce", "shown", "a", "b", "c", "-P", "1")
    found = detail(cli, "shown")
    assert [(p.partition, p.start, p.end, p.records) for p in found.partitions] == [(0, 0, 0, 0), (1, 0, 3, 3)]
    assert (found.partitions[1].size_bytes or 0) > 0
    assert (found.partitions[0].leader, found.partitions[0].in_sync) == (0, (0,))
    table = cli("topic", "describe", "shown").out
    assert "PARTITION  LEADER  REPLICAS  IN SYNC  START  END  RECORDS" in table
    assert "retention.ms  86400000" in table
    assert "segment.bytes" not in table
    assert "segment.bytes" in cli("topic", "describe", "shown", "-o", "wide").out


def test_a_topic_that_is_not_there_is_not_found_and_not_made(cli: Run) -> None:
    cli("topic", "create", "payments")
    refused(cli("topic", "describe", "paymnets"), exits.NOT_FOUND, "did you mean payments?", "try: ")
    refused(cli("topic", "describe", "paymnets"), exits.NOT_FOUND)
    refused(cli("topic", "alter", "paymnets", "-c", "retention.ms=1d"), exits.NOT_FOUND)
    refused(cli("topic", "delete", "paymnets", "--yes"), exits.NOT_FOUND, "did you mean payments?")


def test_settings_change_and_go_back_to_the_default(cli: Run) -> None:
    cli("topic", "create", "altered")
    row = cli("topic", "alter", "altered", "-c", "retention.ms=30d", "-o", "json").row(Altered)
    assert (row.set, row.applied) == ({"retention.ms": "2592000000"}, True)
    assert setting(cli, "altered", "retention.ms") == "2592000000"
    assert cli("topic", "alter", "altered", "--unset", "retention.ms", "--yes").out == "Changed topic altered.\n"
    assert setting(cli, "altered", "retention.ms") == "604800000"


def test_a_shorter_retention_asks_first(cli: Run) -> None:
    cli("topic", "create", "shorter")
    asked = cli("topic", "alter", "shorter", "-c", "retention.ms=1h")
    refused(asked, exits.REFUSED, "retention.ms 7d → 1h", "--yes")
    assert setting(cli, "shorter", "retention.ms") == "604800000"
    dry = cli("topic", "alter", "shorter", "-c", "retention.bytes=1MiB", "--dry-run", "-o", "json")
    assert dry.row(Altered).applied is False
    assert "for ever → 1.0 MiB" in dry.err
    assert cli("topic", "alter", "shorter", "-c", "retention.ms=1h", "--yes").code == 0
    assert setting(cli, "shorter", "retention.ms") == "3600000"
    assert cli("topic", "alter", "shorter", "-c", "retention.ms=2h").code == 0, "longer asks nobody"


def test_going_back_to_a_shorter_default_asks_first_and_to_a_longer_one_nobody(cli: Run) -> None:
    cli("topic", "create", "back", "-c", "retention.ms=30d")
    refused(cli("topic", "alter", "back", "--unset", "retention.ms"), exits.REFUSED, "retention.ms 30d → 7d", "--yes")
    assert setting(cli, "back", "retention.ms") == "2592000000"
    cli("topic", "alter", "back", "-c", "retention.ms=1h", "--yes")
    assert cli("topic", "alter", "back", "--unset", "retention.ms").code == 0
    assert setting(cli, "back", "retention.ms") == "604800000"


def test_a_setting_that_there_is_not_cannot_be_unset(cli: Run) -> None:
    cli("topic", "create", "strange")
    refused(cli("topic", "alter", "strange", "--unset", "retention.m"), exits.NOT_FOUND, "did you mean retention.ms?")


def test_counts_that_no_request_can_name_are_refused_in_words(cli: Run) -> None:
    for line in (
        ("create", "vast", "-p", "99999999999"),
        ("create", "vast", "-r", "99999"),
        ("alter", "vast", "-p", "99999999999"),
    ):
        refused(cli("topic", *line), exits.REFUSED, "is no number of")
        cli("topic", "create", "vast", "--if-not-exists")


def test_partitions_grow_and_never_shrink(cli: Run) -> None:
    cli("topic", "create", "grown")
    grown = cli("topic", "alter", "grown", "--partitions", "4")
    assert grown.code == 0
    assert "Keys move" in grown.err
    assert len(detail(cli, "grown").partitions) == 4
    refused(cli("topic", "alter", "grown", "--partitions", "2"), exits.REFUSED)
    refused(cli("topic", "alter", "grown"), exits.USAGE, "nothing to change")
    refused(cli("topic", "alter", "grown", "-c", "no.such=1"), exits.REFUSED, "no.such")
    refused(cli("topic", "alter", "grown", "-c", "novalue"), exits.USAGE, "NAME=VALUE")


def test_deleting_asks_first_and_says_what_goes(cli: Run) -> None:
    cli("topic", "create", "gone-1", "gone-2", "kept")
    cli("produce", "gone-1", "x" * 2000)
    asked = cli("topic", "delete", "--regex", "gone-.*")
    refused(asked, exits.REFUSED, "gone-1, gone-2", "KiB", "--yes")
    dry = cli("topic", "delete", "--regex", "gone-.*", "--dry-run", "-o", "json")
    assert dry.rows(Deleted) == []
    assert "Nothing was done" in dry.err
    rows = cli("topic", "delete", "--regex", "gone-.*", "--yes", "-o", "json").rows(Deleted)
    assert rows == [Deleted("gone-1", "deleted"), Deleted("gone-2", "deleted")]
    names = [row.name for row in cli("topic", "list", "-o", "json").rows(TopicRow)]
    assert "kept" in names
    assert "gone-1" not in names
    again = cli("topic", "delete", "gone-1", "kept", "--if-exists", "--yes")
    assert again.out == "There is no topic gone-1.\nDeleted topic kept.\n"


def test_trim_deletes_what_is_before_a_position(cli: Run) -> None:
    cli("topic", "create", "trimmed", "-p", "2")
    for partition in ("0", "1"):
        cli("produce", "trimmed", *"abcdefghij", "-P", partition)
    refused(cli("topic", "trim", "trimmed", "--before", "4"), exits.REFUSED, "8 records", "--yes")
    dry = cli("topic", "trim", "trimmed", "--before", "4", "--dry-run", "-o", "json").rows(Trimmed)
    assert [(row.start_before, row.start, row.applied) for row in dry] == [(0, 4, False), (0, 4, False)]
    assert detail(cli, "trimmed").partitions[0].start == 0
    one = cli("topic", "trim", "trimmed", "--before", "4", "-P", "1", "--yes", "-o", "json").rows(Trimmed)
    assert one == [Trimmed("trimmed", 1, 0, 4, 4, applied=True)]
    assert [part.start for part in detail(cli, "trimmed").partitions] == [0, 4]
    table = cli("topic", "trim", "trimmed", "--before", "-3", "--yes").out
    assert [line.split() for line in table.splitlines()[1:]] == [["0", "0", "7", "7"], ["1", "4", "7", "3"]]
    assert cli("topic", "trim", "trimmed", "--before", "end", "--yes").code == 0
    assert [(p.start, p.end) for p in detail(cli, "trimmed").partitions] == [(10, 10), (10, 10)]
    assert "Nothing to trim" in cli("topic", "trim", "trimmed", "--before", "@now", "--yes").err


def test_trim_by_time_keeps_what_is_younger(cli: Run) -> None:
    cli("topic", "create", "timed")
    cli("produce", "timed", "old", "--timestamp", "@-2h")
    cli("produce", "timed", "new")
    rows = cli("topic", "trim", "timed", "--before", "@-1h", "--yes", "-o", "json").rows(Trimmed)
    assert [row.start for row in rows] == [1]
    assert cli("consume", "timed").out == "new\n"


def test_trim_of_what_is_not_there_is_told(cli: Run) -> None:
    cli("topic", "create", "untrimmed")
    refused(cli("topic", "trim", "untrimmed", "--before", "end", "-P", "7"), exits.NOT_FOUND, "no partition 7")
    refused(cli("topic", "trim", "untrimmed", "--before", "never"), exits.USAGE, "position")
    refused(cli("topic", "trim", "untrimmed"), exits.USAGE, "--before")


def test_a_name_that_kafka_cannot_spell_is_shown_and_taken_as_it_is(headrace_broker: Broker) -> None:
    broker, cli = headrace_broker, Run(headrace_broker.kafka)
    name = "sensors/große halle"
    spelt = to_kafka(name)
    broker.create_topic(name, 1)
    broker.produce(name, "x")
    assert [row.name for row in cli("topic", "list", "sensors/.*", "-o", "json").rows(TopicRow)] == [name]
    for asked in (name, spelt):
        found = cli("topic", "describe", asked, "-o", "json").row(TopicDetail)
        assert (found.name, found.partitions[0].size_bytes is not None) == (name, True)
        (record,) = map(json.loads, cli("consume", asked, "-o", "jsonl").out.splitlines())
        assert (record["topic"], record["value"]) == (name, "x")
    assert cli("group", "seek", "halls", "--to", "end", "--topic", name, "--yes").code == 0
    assert f'"topic":"{name}"' in cli("group", "describe", "halls", "-o", "jsonl").out.replace('": "', '":"')
    assert cli("group", "seek", "halls", "--to", "start", "--topic", name, "--yes").code == 0
    assert cli("topic", "delete", name, "--yes").code == 0
    assert cli("topic", "list", "-o", "json").out.find("sensors") == -1
