"""A copier by our own client: reads inputs as a static member of a group, transforms them, and writes them with its
positions in one transaction, or aborts on purpose. A process of its own, made to be killed; its journal outlives it."""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

import headrace
from headrace import errors

sys.path.insert(0, str(Path(__file__).parents[2]))  # a process of its own knows no other way
from tests.eos.copier import ABORTS, COPIES, GROUP, INPUTS, MOST_PARTS
from tests.eos.history import Copy, transform


def main(address: str, name: str, journal: str, seed: str) -> None:
    chance, life, count = random.Random(seed), f"{name}.{os.getpid()}", 0
    with open(journal, "a") as told, headrace.connect(address) as client:

        def tell(outcome: str, transaction: str) -> None:
            told.write(f"{outcome} {transaction}\n")
            told.flush()

        producer = client.producer(transactional_id=name, transaction_timeout=15.0)
        consumer = client.consumer(
            INPUTS,
            group=GROUP,
            instance=name,
            session_timeout=6.0,
            assignors=["cooperative-sticky"] if int(seed.partition("/")[0]) % 2 else ["range"],
            auto_commit=False,
            isolation="read_committed",
            max_wait=0.02,
        )
        while True:
            records = consumer.take(chance.randint(1, MOST_PARTS), 0.2)
            if not records:
                continue
            count += 1
            transaction, is_meant = f"{life}.{count}", chance.random() >= ABORTS
            try:
                producer.begin()
                for part, record in enumerate(records):
                    assert record.value is not None
                    copy = Copy(transform(record.value.decode()), transaction, part, len(records), is_meant)
                    producer.put(COPIES, copy.encode(), partition=record.partition)
                producer.send_positions(consumer)
                if is_meant:
                    producer.commit()
                    tell("committed", transaction)
                    continue
                producer.flush()
            except errors.HeadraceError:
                if not producer.is_spoilt:
                    raise  # fenced, or it cannot know
            producer.abort()
            tell("aborted", transaction)
            consumer.rewind()


if __name__ == "__main__":
    main(*sys.argv[1:])
