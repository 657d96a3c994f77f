"""`headrace group seek` on ours and on Apache Kafka: every way to say where, the plan first, files that bring back."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.cli import exits
from headrace.cli.group_seek import Sought
from tests.cli.planting import Terminal
from tests.cli.running import Run
from tests.cli.test_group import detail, fill, refused, stand
from tests.client.members import joined
from tests.support import wait_until


def positions(cli: Run, group: str) -> dict[int, int | None]:
    return {row.partition: row.committed for row in detail(cli, group).positions}


@pytest.mark.parametrize(
    ("to", "wanted"),
    [
        (("--to", "start"), 0),
        (("--to", "end"), 10),
        (("--to", "7"), 7),
        (("--to", "-3"), 7),
        (("--to", "@-5m30s"), 5),
        (("--to", "@-1d"), 0),
        (("--to", "@now"), 10),
        (("--by", "+2"), 6),
        (("--by", "-3"), 1),
        (("--by", "-100"), 0),
        (("--to", "99"), 10),
    ],
)
def test_every_way_to_say_where_goes_there(both: Run, name: str, to: tuple[str, str], wanted: int) -> None:
    fill(both, name, 10)
    stand(both, name, name, "4")
    (plan,) = both("group", "seek", name, *to, "--dry-run", "-o", "json").rows(Sought)
    assert (plan.before, plan.after, plan.change, plan.applied) == (4, wanted, wanted - 4, False)
    assert positions(both, name) == {0: 4}
    (row,) = both("group", "seek", name, *to, "--yes", "-o", "json").rows(Sought)
    assert (row.topic, row.partition, row.after, row.applied) == (name, 0, wanted, True)
    assert positions(both, name) == {0: wanted}


def test_nothing_is_moved_without_a_yes_and_a_dry_run_shows_the_plan(both: Run, name: str) -> None:
    fill(both, name, 10, partitions=2)
    stand(both, name, name, "4")
    refused(both("group", "seek", name, "--to", "start"), exits.REFUSED, "2 partitions (8 offsets back)", "--yes")
    dry = both("group", "seek", name, "--to", "start", "--dry-run")
    assert dry.out.splitlines()[0].split() == ["TOPIC", "PARTITION", "WAS", "IS", "CHANGE"]
    assert [line.split()[1:] for line in dry.out.splitlines()[1:]] == [["0", "4", "0", "-4"], ["1", "4", "0", "-4"]]
    assert positions(both, name) == {0: 4, 1: 4}


def test_one_partition_is_moved_and_the_others_stay(both: Run, name: str) -> None:
    fill(both, name, 10, partitions=3)
    stand(both, name, name, "4")
    assert both("group", "seek", name, "--to", "end", "-P", "0,2", "--yes").code == 0
    assert positions(both, name) == {0: 10, 1: 4, 2: 10}
    refused(both("group", "seek", name, "--to", "end", "-P", "7", "--yes"), exits.NOT_FOUND, "no position")


def test_a_group_with_members_is_not_moved_and_its_plan_can_be_seen(both: Run, name: str) -> None:
    fill(both, name, 5)
    with joined(str(both.server), name, name, take=2):
        refused(both("group", "seek", name, "--to", "start", "--yes"), exits.REFUSED, "1 member", "stop them")
        dry = both("group", "seek", name, "--to", "start", "--dry-run", "-o", "json")
        assert [row.after for row in dry.rows(Sought)] == [0] and "stop them" in dry.err
    assert positions(both, name) == {0: 2}


def test_a_consumer_goes_on_where_the_group_was_put(both: Run, name: str) -> None:
    fill(both, name, 5)
    stand(both, name, name, "3")
    with joined(str(both.server), name, name, take=1):
        pass
    assert positions(both, name) == {0: 4}


def test_positions_are_written_to_a_file_and_brought_back(both: Run, name: str, tmp_path: Path) -> None:
    fill(both, name, 10, partitions=2)
    stand(both, name, name, "4")
    file = tmp_path / "before.csv"
    assert both("group", "seek", name, "--to", "end", "--to-file", str(file), "--yes").code == 0
    assert file.read_text() == f"{name},0,4\n{name},1,4\n"
    assert positions(both, name) == {0: 10, 1: 10}
    rows = both("group", "seek", name, "--from-file", str(file), "--yes", "-o", "json").rows(Sought)
    assert [(row.before, row.after) for row in rows] == [(10, 4), (10, 4)]
    assert positions(both, name) == {0: 4, 1: 4}
    again = both("group", "seek", name, "--to-file", str(file))
    refused(again, exits.STORAGE, "exists")  # what was saved is not lost by saving again
    other = tmp_path / "now.csv"
    assert both("group", "seek", name, "--to-file", str(other)).code == 0
    assert other.read_text() == file.read_text()


@pytest.mark.parametrize("text", ["", "orders,0\n", "orders,zero,1\n", "orders,0,-1\n"])
def test_a_file_that_has_no_positions_is_refused(cli: Run, tmp_path: Path, text: str) -> None:
    file = tmp_path / "positions.csv"
    file.write_text(text)
    refused(cli("group", "seek", "any", "--from-file", str(file)), exits.USAGE, "topic,partition,offset")


def test_where_to_is_said_once(cli: Run, tmp_path: Path) -> None:
    refused(cli("group", "seek", "any"), exits.USAGE, "where to")
    refused(cli("group", "seek", "any", "--to", "start", "--by", "1"), exits.USAGE, "--to and --by")
    refused(cli("group", "seek", "any", "--to", "soon"), exits.USAGE, "position")
    refused(cli("group", "seek", "any", "--by", "many"), exits.USAGE, "--by")
    refused(cli("group", "seek", "any", "--from-file", str(tmp_path / "none")), exits.STORAGE)


def test_a_terminal_shows_the_plan_before_it_asks(both: Run, name: str) -> None:
    fill(both, name, 10)
    stand(both, name, name, "4")
    with Terminal(*both.line("group", "seek", name, "--to", "start", "--no-color")) as terminal:
        wait_until(lambda: b"Type yes" in terminal.seen)
        assert b"-4" in terminal.seen and positions(both, name) == {0: 4}
        terminal.enter("yes")
        assert terminal.wait() == 0
    assert positions(both, name) == {0: 0}
