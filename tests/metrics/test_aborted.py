"""How many aborted transactions the fullest partition remembers is on the page, beside the limit."""

from __future__ import annotations

from pathlib import Path

from headrace.broker.broker import NewTopic
from headrace.log.transactions import MAX_ABORTED
from headrace.node.metrics.reading import read
from tests.doors.asking import asking, record


async def test_the_fullest_partition_is_told_beside_the_limit(tmp_path: Path) -> None:
    async with asking(tmp_path) as asker:
        await asker.node.broker.create_topics([NewTopic("t", 2)])
        for partition in range(2):
            await asker.produce("t", partition, [record(1)])
        for partition, count in ((0, 3), (1, 5)):
            log = asker.node.broker.topic("t").partitions[partition].log  # type: ignore[union-attr]
            for number in range(count):
                log.producers.transactions.begin(number, number)
                log.producers.transactions.end(number, number, False, 0)
        log.producers.transactions.begin(9, 9)
        sheet = read(asker.node).values
        assert sheet["headrace_aborted_transactions"] == [((), 6)]
        assert sheet["headrace_aborted_transactions_limit"] == [((), MAX_ABORTED)]
        log.producers.transactions.load(None)
