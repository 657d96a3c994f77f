"""Groups and transactions over a kill -9: what was moved is still there, and commands wait while it is read back."""

from __future__ import annotations

from pathlib import Path

from headrace.cli.group_values import GroupRow
from headrace.cli.txn_values import Aborted, TransactionRow
from headrace.testing.served import ServedBroker
from tests.cli.running import Run
from tests.cli.test_group import detail, fill, stand
from tests.client.test_transactions import transaction


def test_positions_outlive_the_server_and_are_told_right_after_it_is_back(tmp_path: Path) -> None:
    with ServedBroker(tmp_path) as broker:
        cli = Run(broker.address)
        fill(cli, "orders", 10)
        for number in range(5):
            stand(cli, f"group-{number}", "orders", str(number))
        cli("group", "delete", "group-4", "--yes")
        broker.kill()
        broker.start()
        rows = cli("group", "list", "-o", "json").rows(GroupRow)
        assert [(row.name, row.state) for row in rows] == [(f"group-{number}", "Empty") for number in range(4)]
        assert [detail(cli, f"group-{number}").lag for number in range(4)] == [10, 9, 8, 7]


def test_an_open_transaction_is_aborted_after_the_server_came_back(tmp_path: Path) -> None:
    with ServedBroker(tmp_path) as broker:
        cli = Run(broker.address)
        cli("topic", "create", "orders")
        with transaction(broker.address, "billing", "orders"):
            broker.kill()
            broker.start()
            rows = cli("txn", "list", "--state", "ongoing", "-o", "json").rows(TransactionRow)
            assert [row.id for row in rows] == ["billing"]
            assert cli("txn", "abort", "billing", "--yes", "-o", "json").row(Aborted).applied
        cli("produce", "orders", "after")
        read = cli("consume", "orders", "--committed", "-f", "%s\\n")
        assert (read.code, read.out) == (0, "after\n"), read.err
