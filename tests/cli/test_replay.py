"""`headrace replay` on ours and on Apache Kafka: a window of time goes to another topic as it was; groups stay."""

from __future__ import annotations

import signal
import time

from headrace.cli import exits
from headrace.cli.group_values import GroupRow
from headrace.cli.record_values import RecordRow
from headrace.cli.replaying import PlanRow, Replayed
from headrace.cli.topic_values import TopicDetail
from tests.cli.running import Run
from tests.cli.test_group import detail, refused, stand
from tests.client.test_transactions import transaction
from tests.support import wait_until

MINUTE_MS = 60_000


def fill(cli: Run, topic: str, partitions: int = 2, count: int = 10, config: str = "retention.ms=1d") -> int:
    """Each partition has `count` records, a minute apart, the last one minute old; the time of the first."""
    assert cli("topic", "create", topic, "-p", str(partitions), "-c", config).code == 0
    first_ms = int(time.time() * 1000) - count * MINUTE_MS
    for partition in range(partitions):
        lines = "".join(
            f'{{"key": "k{n % 3}", "value": "{partition}-{n}", "headers": {{"h": "{n}", "null": null}}, '
            f'"timestamp_ms": {first_ms + n * MINUTE_MS}}}\n'
            for n in range(count)
        )
        sent = cli("produce", topic, "--format", "jsonl", "-P", str(partition), stdin=lines)
        assert sent.code == 0, sent.err
    return first_ms


def records(cli: Run, topic: str) -> list[RecordRow]:
    ended = cli("export", topic)
    return ended.lines(RecordRow)


def content(rows: list[RecordRow]) -> list[tuple[object, ...]]:
    return [(row.partition, row.timestamp_ms, row.key, row.value, row.headers) for row in rows]


def test_a_window_of_time_is_copied_with_keys_headers_times_and_partitions(both: Run, name: str) -> None:
    first_ms = fill(both, name)
    window = ("--from", f"@{first_ms + 3 * MINUTE_MS}", "--to", f"@{first_ms + 6 * MINUTE_MS}")
    ended = both("replay", name, f"{name}-copy", *window, "--create", "-o", "json")
    done = ended.row(Replayed)
    assert done.records == 6
    assert [(part.start, part.next, part.end, part.records) for part in done.partitions] == [(3, 6, 6, 3)] * 2
    wanted = [row for row in records(both, name) if 3 <= row.offset < 6]
    assert content(records(both, f"{name}-copy")) == content(wanted)
    made = both("topic", "describe", f"{name}-copy", "-o", "json").row(TopicDetail)
    assert len(made.partitions) == 2
    assert {one.name: one.value for one in made.config}["retention.ms"] == "86400000"


def test_a_group_that_reads_the_source_is_not_disturbed(both: Run, name: str) -> None:
    fill(both, name)
    stand(both, name, name, "4")
    before = detail(both, name)
    assert both("replay", name, f"{name}-copy", "--from", "@-4m30s", "--create").code == 0
    after = detail(both, name)
    assert [(row.committed, row.lag) for row in after.positions] == [
        (row.committed, row.lag) for row in before.positions
    ]
    names = [row.name for row in both("group", "list", ".*", "-o", "json").rows(GroupRow)]
    assert [group for group in names if name in group] == [name]  # and it made none of its own


def test_a_dry_run_shows_the_window_of_each_partition_and_copies_nothing(both: Run, name: str) -> None:
    first_ms = fill(both, name)
    window = ("--from", f"@{first_ms + 8 * MINUTE_MS}")
    rows = both("replay", name, f"{name}-copy", *window, "--create", "--dry-run", "-o", "json").rows(PlanRow)
    assert [(row.partition, row.start, row.end, row.records) for row in rows] == [(0, 8, 10, 2), (1, 8, 10, 2)]
    refused(both("topic", "describe", f"{name}-copy"), exits.NOT_FOUND)


def test_keys_choose_where_the_counts_of_partitions_differ(both: Run, name: str) -> None:
    fill(both, name, partitions=1)
    both("topic", "create", f"{name}-copy", "-p", "4")
    ended = both("replay", name, f"{name}-copy")
    assert ended.out == f"Copied 10 records of {name} to {name}-copy.\n", ended.err
    assert "Keys choose" in ended.err
    found = records(both, f"{name}-copy")
    assert sorted(str(row.value) for row in found) == sorted(f"0-{n}" for n in range(10))
    assert len({row.key for row in found}) == 3
    assert all(len({row.partition for row in found if row.key == key}) == 1 for key in ("k0", "k1", "k2"))


def test_a_copy_that_stopped_early_says_how_to_go_on_and_nothing_is_missing_then(both: Run, name: str) -> None:
    fill(both, name)
    both("topic", "create", f"{name}-copy", "-p", "2")
    ended = both("replay", name, f"{name}-copy", "--count", "7")
    assert ended.out.startswith("Copied 7 records") and "To go on: headrace replay" in ended.err, ended.err
    hint = ended.err.split("To go on: headrace ")[1].split()
    again = both(*hint)
    assert again.out.startswith("Copied 13 records"), again.err
    assert content(records(both, f"{name}-copy")) == content(records(both, name))


def test_ctrl_c_says_how_to_go_on(both: Run, name: str) -> None:
    fill(both, name)
    both("topic", "create", f"{name}-copy", "-p", "2")
    process = both.start("replay", name, f"{name}-copy", "--rate", "5")
    wait_until(lambda: len(records(both, f"{name}-copy")) >= 3)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == exits.INTERRUPTED
    hint = err.decode().split("To go on: headrace ")[1].split()
    assert both(*hint).code == 0
    assert content(records(both, f"{name}-copy")) == content(records(both, name))


def test_the_rate_is_kept(both: Run, name: str) -> None:
    fill(both, name)
    both("topic", "create", f"{name}-copy", "-p", "2")
    began = time.monotonic()
    assert both("replay", name, f"{name}-copy", "--rate", "20").code == 0
    assert 0.8 < time.monotonic() - began < 10


def test_what_was_aborted_is_not_copied(both: Run, name: str) -> None:
    both("topic", "create", name)
    with transaction(str(both.server), name, name) as producer:
        producer.abort_transaction(30)
    both("produce", name, "kept")
    # Kafka answers before it has marked the end of the transaction, and shows nothing behind it until then.
    wait_until(lambda: "kept" in both("consume", name, "--committed").out, 30.0)
    done = both("replay", name, f"{name}-copy", "--create", "-o", "json").row(Replayed)
    assert done.records == 1
    assert [row.value for row in records(both, f"{name}-copy")] == ["kept"]


def test_what_cannot_be_copied_is_refused(both: Run, name: str) -> None:
    fill(both, name, partitions=1, count=1)
    refused(both("replay", name, name), exits.USAGE, "itself")
    refused(both("replay", name, f"{name}-copy"), exits.NOT_FOUND, "--create")
    refused(both("replay", f"{name}-none", name), exits.NOT_FOUND, "no topic")
    refused(both("replay", name, f"{name}-copy", "--create", "-P", "4"), exits.NOT_FOUND, "no partition 4")
    refused(both("replay", name, f"{name}-copy", "--resume", "0"), exits.USAGE, "--resume")
    refused(both("replay", name, f"{name}-copy", "--from", "soon"), exits.USAGE, "position")
    refused(both("replay", name, f"{name}-copy", "--rate", "0"), exits.USAGE, "--rate")


def test_a_target_that_would_forget_the_records_at_once_is_told_of(both: Run, name: str) -> None:
    fill(both, name)
    both("topic", "create", f"{name}-copy", "-p", "2", "-c", "retention.ms=1m")
    assert "soon be gone" in both("replay", name, f"{name}-copy", "--from", "@-5m", "--dry-run").err


def test_a_record_that_the_target_does_not_take_ends_the_copy_with_what_is_left(both: Run, name: str) -> None:
    both("topic", "create", name)
    for value in ("small", "x" * 5000, "behind"):
        both("produce", name, value)
    both("topic", "create", f"{name}-copy", "-c", "max.message.bytes=1000")
    ended = both("replay", name, f"{name}-copy", "--rate", "5")  # slowly: each goes by itself
    refused(ended, exits.REFUSED, "could not be copied", "--resume 0=1:3")
    assert next(row.value for row in records(both, f"{name}-copy")) == "small"
    both("topic", "alter", f"{name}-copy", "-c", "max.message.bytes=10000")
    assert both(*ended.err.split("To go on: headrace ")[1].splitlines()[0].split()).code == 0
    assert {row.value for row in records(both, f"{name}-copy")} == {"small", "x" * 5000, "behind"}
