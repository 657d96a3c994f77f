"""`headrace group` on ours and on Apache Kafka: members of another client, lag in records and time, deleting."""

from __future__ import annotations

import time
from pathlib import Path

from headrace.cli import exits
from headrace.cli.group import Deleted
from headrace.cli.group_values import GroupDetail, GroupRow
from tests.cli.running import Ended, Run
from tests.client.members import joined
from tests.client.test_transactions import transaction

AGE_S = 600


def refused(ended: Ended, code: int, *words: str) -> None:
    assert ended.code == code, ended
    assert "Traceback" not in ended.err
    for word in words:
        assert word in ended.err, ended.err


def fill(cli: Run, topic: str, count: int = 10, partitions: int = 1) -> None:
    """The oldest record is AGE_S old, each next a minute younger."""
    assert cli("topic", "create", topic, "-p", str(partitions)).code == 0
    now_ms = int(time.time() * 1000)
    for partition in range(partitions):
        lines = "".join(
            f'{{"value": "{number}", "timestamp_ms": {now_ms - (AGE_S - 60 * number) * 1000}}}\n'
            for number in range(count)
        )
        sent = cli("produce", topic, "--format", "jsonl", "-P", str(partition), stdin=lines)
        assert sent.code == 0, sent.err


def stand(cli: Run, group: str, topic: str, *to: str) -> None:
    """Gives a group that is not there yet a position."""
    ended = cli("group", "seek", group, "--topic", topic, "--to", *(to or ("start",)), "--yes")
    assert ended.code == 0, ended.err


def detail(cli: Run, group: str) -> GroupDetail:
    return cli("group", "describe", group, "-o", "json").row(GroupDetail)


def test_a_group_is_described_with_its_members_and_its_lag_in_records_and_seconds(both: Run, name: str) -> None:
    fill(both, name, 10)
    with joined(str(both.server), name, name, client_id="reader", take=4):
        found = detail(both, name)
        table = both("group", "describe", name).out
        wide = both("group", "describe", name, "-o", "wide").out
    assert (found.name, found.state, found.assignor, found.kind) == (name, "Stable", "range", "classic")
    (member,) = found.members
    assert (member.client_id, member.topics, member.partitions) == ("reader", (name,), 1)
    (row,) = found.positions
    assert (row.committed, row.start, row.end, row.lag) == (4, 0, 10, 6)
    assert row.lag_seconds is not None and 355 <= row.lag_seconds < 420  # the fifth record is six minutes old
    assert (found.lag, found.lag_seconds) == (row.lag, row.lag_seconds)
    assert (row.member, row.client_id) == (member.member, "reader")
    assert "BEHIND" in table and "6m" in table and member.member in wide


def test_a_group_that_has_read_everything_does_not_lag(both: Run, name: str) -> None:
    fill(both, name, 3)
    stand(both, name, name, "end")
    found = detail(both, name)
    assert (found.state, found.members, found.lag, found.lag_seconds) == ("Empty", (), 0, 0.0)


def test_a_group_before_which_there_is_only_a_marker_is_not_behind(both: Run, name: str) -> None:
    assert both("topic", "create", name, "-p", "1").code == 0
    with transaction(str(both.server), name, name) as producer:
        producer.commit_transaction(30)
    stand(both, name, name, "2")
    (row,) = detail(both, name).positions
    assert (row.committed, row.end, row.lag, row.lag_seconds) == (2, 3, 1, 0.0)
    stand(both, name, name, "1")
    (row,) = detail(both, name).positions
    assert row.lag == 2 and row.lag_seconds is not None and 0 < row.lag_seconds < 60


def test_what_was_deleted_before_the_group_read_it_is_said(both: Run, name: str) -> None:
    fill(both, name, 5)
    stand(both, name, name)
    both("topic", "trim", name, "--before", "3", "--yes")
    ended = both("group", "describe", name)
    assert "3 offsets of" in ended.err and "were deleted" in ended.err
    (row,) = detail(both, name).positions
    assert (row.committed, row.start, row.lag) == (0, 3, 5)
    assert row.lag_seconds is not None and row.lag_seconds < AGE_S - 170


def test_groups_are_listed_by_pattern_and_state_with_their_lag_where_that_is_asked(both: Run, name: str) -> None:
    fill(both, name, 4, partitions=2)
    for group in ("a", "b"):
        stand(both, f"{name}-{group}", name, "1")
    rows = both("group", "list", f"{name}-.*", "-o", "json").rows(GroupRow)
    assert [(row.name, row.state, row.lag) for row in rows] == [(f"{name}-{g}", "Empty", None) for g in "ab"]
    (lagging,) = both("group", "list", f"{name}-a", "--lag", "-o", "json").rows(GroupRow)
    assert (lagging.members, lagging.lag) == (0, 6)
    assert lagging.lag_seconds is not None and lagging.lag_seconds > 500
    assert f"{name}-a" in both("group", "list", "--state", "empty").out
    refused(both("group", "list", f"{name}-.*", "--state", "stable"), exits.NOT_FOUND, "no group matches")
    refused(both("group", "list", "("), exits.USAGE, "regular expression")
    table = both("group", "list", f"{name}-.*", "--lag").out.splitlines()
    assert table[0].split() == ["GROUP", "STATE", "KIND", "MEMBERS", "LAG", "BEHIND"]


def test_a_group_that_there_is_not_is_missed_with_the_nearest_name(both: Run, name: str) -> None:
    fill(both, name, 1)
    stand(both, name, name)
    refused(both("group", "describe", name + "x"), exits.NOT_FOUND, "did you mean", name)
    refused(both("group", "delete", name + "x", "--yes"), exits.NOT_FOUND, "there is no group")
    refused(both("group", "seek", name + "x", "--to", "start"), exits.NOT_FOUND, "there is no group")
    rows = both("group", "delete", name + "x", "--if-exists", "-o", "json").rows(Deleted)
    assert [row.action for row in rows] == ["missing"]


def test_a_group_is_deleted_only_when_somebody_said_yes(both: Run, name: str) -> None:
    fill(both, name, 1)
    stand(both, name, name)
    dry = both("group", "delete", name, "--dry-run")
    assert dry.code == 0 and "1 position" in dry.err
    refused(both("group", "delete", name), exits.REFUSED, "--yes")
    ended = both("group", "delete", name, "--yes")
    assert ended.out == f"Deleted group {name}.\n", ended.err
    refused(both("group", "describe", name), exits.NOT_FOUND)


def test_a_group_forgets_one_topic(both: Run, name: str) -> None:
    for topic in (f"{name}-a", f"{name}-b"):
        fill(both, topic, 1)
        stand(both, name, topic)
    rows = both("group", "delete", name, "--topic", f"{name}-a", "--yes", "-o", "json").rows(Deleted)
    assert [(row.group, row.topics, row.action) for row in rows] == [(name, (f"{name}-a",), "deleted")]
    assert [row.topic for row in detail(both, name).positions] == [f"{name}-b"]
    refused(both("group", "delete", name, "--topic", f"{name}-a", "--yes"), exits.NOT_FOUND, "no position")


def test_a_group_with_members_is_not_deleted(both: Run, name: str) -> None:
    fill(both, name, 1)
    with joined(str(both.server), name, name, take=1):
        refused(both("group", "delete", name, "--yes"), exits.REFUSED, "1 member", "stop them")
        refused(both("group", "delete", name, "--topic", name, "--yes"), exits.REFUSED, "stop")


def test_a_position_in_a_topic_that_was_deleted_since_is_told_without_an_end(
    both: Run, name: str, tmp_path: Path
) -> None:
    fill(both, f"{name}-stays", 2)
    fill(both, f"{name}-goes", 2)
    with joined(str(both.server), name, f"{name}-stays", take=1):
        pass
    stand(both, name, f"{name}-goes")
    both("topic", "delete", f"{name}-goes", "--yes")
    found = {row.topic: row for row in detail(both, name).positions}
    assert found[f"{name}-stays"].lag == 1
    if f"{name}-goes" in found:  # a broker may drop positions with their topic
        assert found[f"{name}-goes"].end is None and found[f"{name}-goes"].lag is None


def test_a_group_of_kafkas_newer_protocol_is_described_and_moved(kafka_address: str, name: str) -> None:
    cli = Run(kafka_address)
    fill(cli, name, 5)
    with joined(kafka_address, name, name, take=2, protocol="consumer"):
        found = detail(cli, name)
        assert (found.kind, found.lag, len(found.members)) == ("consumer", 3, 1)
        refused(cli("group", "seek", name, "--to", "start", "--yes"), exits.REFUSED, "1 member")
    assert cli("group", "seek", name, "--to", "start", "--yes").code == 0
    assert detail(cli, name).lag == 5
    assert cli("group", "delete", name, "--yes").code == 0
