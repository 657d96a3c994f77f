"""Transactions of our own producer, on both brokers and in both of Kafka's versions of them."""

from __future__ import annotations

import asyncio
import contextlib
import time

import pytest

import headrace
import headrace.aio
from headrace import errors
from headrace.client import transaction_coordinator
from tests.client.marks import until_marked, wait_until_marked

LIMIT_S = 40.0


@pytest.fixture(params=["first", "second"], autouse=True)
def version(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The first is what is spoken with a broker that does not know the second."""
    if request.param == "first":
        monkeypatch.setattr(transaction_coordinator, "SECOND", 99)
    found: str = request.param
    return found


async def committed(
    client: headrace.aio.Client, topic: str, isolation: str = "read_committed", *, is_open: bool = False
) -> list[str]:
    if not is_open:
        await until_marked(client, topic)
    async with client.consumer(topic, follow=False, isolation=isolation) as consumer:
        return sorted([(record.value or b"").decode() async for record in consumer])


async def stands_at(client: headrace.aio.Client, group: str, offset: int) -> None:
    """A commit is decided before all of its marks are set; so it may take a moment to be seen."""
    deadline = time.monotonic() + LIMIT_S
    while [at.offset for at in (await client.admin.group_offsets(group, stable=True)).values()] != [offset]:
        assert time.monotonic() < deadline, f"the group does not stand at {offset}"
        await asyncio.sleep(0.02)


async def test_a_transaction_is_seen_whole_when_it_is_committed(address: str, topic: str, version: str) -> None:
    async with headrace.aio.connect(address) as client:
        await client.admin.create_topic(topic, 3)
        async with client.producer(transactional_id=topic) as producer:
            assert producer._coordinator.is_second == (version == "second")
            for number in range(3):
                await until_marked(client, topic)
                async with producer.transaction() as transaction:
                    for partition in range(3):
                        await transaction.put(topic, f"{number}.{partition}", partition=partition)
                    await transaction.send(topic, f"{number}.more", partition=0)
                    assert len(await committed(client, topic, is_open=True)) == 4 * number
            wanted = [f"{number}.{part}" for number in range(3) for part in (0, 1, 2, "more")]
            assert await committed(client, topic) == sorted(wanted)


async def test_an_exception_aborts_and_the_producer_goes_on(address: str, topic: str) -> None:
    async with headrace.aio.connect(address) as client:
        await client.admin.create_topic(topic, 2)
        async with client.producer(transactional_id=topic) as producer:
            for number in range(3):
                with pytest.raises(KeyError):
                    async with producer.transaction() as transaction:
                        await transaction.send(topic, "never", partition=0)
                        await transaction.put(topic, "never", partition=1)
                        raise KeyError
                async with producer.transaction() as transaction:
                    await transaction.put(topic, str(number), partition=number % 2)
            assert await committed(client, topic) == ["0", "1", "2"]
            assert "never" in await committed(client, topic, "read_uncommitted")


async def test_an_empty_transaction_asks_nobody(address: str, topic: str) -> None:
    async with headrace.aio.connect(address) as client, client.producer(transactional_id=topic) as producer:
        async with producer.transaction():
            pass
        await producer.begin()
        await producer.abort()


async def test_a_record_that_fails_spoils_its_transaction_and_no_other(address: str, topic: str) -> None:
    async with headrace.aio.connect(address) as client:
        await client.admin.create_topic(topic, 2)
        async with client.producer(transactional_id=topic) as producer:
            with pytest.raises(errors.DeliveryFailed):
                async with producer.transaction() as transaction:
                    await transaction.put(topic, "never", partition=0)
                    await transaction.put(topic, bytes(2 << 20), partition=1)
            await producer.begin()
            with pytest.raises(errors.MessageTooLarge):
                await producer.send(topic, bytes(2 << 20), partition=1)
            assert producer.is_spoilt
            for step in (producer.commit(), producer.send(topic, "no"), producer.begin()):
                with pytest.raises(errors.TransactionAbortable, match="can only be aborted"):
                    await step
            await producer.abort()
            async with producer.transaction() as transaction:
                await transaction.put(topic, "after", partition=0)
                await transaction.put(topic, "after", partition=1)
            assert await committed(client, topic) == ["after", "after"]


async def test_what_does_not_go_with_the_phase_is_said(headrace_address: str, topic: str) -> None:
    async with headrace.aio.connect(headrace_address) as client:
        async with client.producer(transactional_id=topic) as producer:
            for step in (producer.send(topic, "x"), producer.commit(), producer.abort()):
                with pytest.raises(errors.InvalidTransactionState, match="begin one first"):
                    await step
            await producer.begin()
            with pytest.raises(errors.InvalidTransactionState, match="open already"):
                await producer.begin()
        with pytest.raises(errors.ClientClosed):
            await producer.begin()
        for wrong in ({"acks": 1}, {"idempotent": False}, {"transaction_timeout": 0}):
            with pytest.raises(ValueError, match=r"acks|timeout"):
                client.producer(transactional_id="x", **wrong)
        with pytest.raises(ValueError, match="member"):
            client.column_producer(transactional_id="x")
        with pytest.raises(errors.InvalidTransactionTimeout):
            await client.producer(transactional_id="x", transaction_timeout=10**6).start()


async def test_a_zombie_is_fenced_for_good(address: str, topic: str) -> None:
    async with headrace.aio.connect(address) as client:
        await client.admin.create_topic(topic, 1)
        async with client.producer(transactional_id=topic) as zombie:
            await zombie.begin()
            await zombie.send(topic, "left open")
            async with client.producer(transactional_id=topic) as successor:
                with pytest.raises(errors.HeadraceError):
                    await zombie.send(topic, "late")
                    await zombie.commit()
                with pytest.raises(errors.ProducerFenced):
                    await zombie.abort()
                for step in (zombie.begin, zombie.commit, zombie.abort):
                    with pytest.raises(errors.ProducerFenced):
                        await step()
                with pytest.raises(errors.ProducerFenced):
                    await zombie.send(topic, "later")
                async with successor.transaction() as transaction:
                    await transaction.send(topic, "mine")
                assert await committed(client, topic) == ["mine"]


async def test_fenced_inside_of_its_block_a_program_is_told_so(address: str, topic: str) -> None:
    async with headrace.aio.connect(address) as client:
        await client.admin.create_topic(topic, 1)
        async with client.producer(transactional_id=topic) as zombie:
            with pytest.raises(errors.ProducerFenced):
                async with zombie.transaction() as transaction:
                    await transaction.send(topic, "one")
                    async with client.producer(transactional_id=topic):
                        await transaction.send(topic, "two")


async def test_a_successor_ends_what_was_left_open(address: str, topic: str) -> None:
    async with headrace.aio.connect(address) as client:
        await client.admin.create_topic(topic, 1)
        first = client.producer(transactional_id=topic)
        await first.begin()
        await first.send(topic, "left open")
        first.forked()  # as if its process were gone
        async with client.producer(transactional_id=topic) as second:
            async with second.transaction() as transaction:
                await transaction.send(topic, "mine")
            assert await committed(client, topic) == ["mine"]


async def test_closing_aborts_what_is_open(address: str, topic: str) -> None:
    async with headrace.aio.connect(address) as client:
        await client.admin.create_topic(topic, 1)
        async with client.producer(transactional_id=topic) as producer:
            await producer.begin()
            await producer.send(topic, "never")
            await producer.put(topic, "never")
        (found,) = await client.admin.describe_transactions([topic])
        assert found.state in ("CompleteAbort", "Empty", "PrepareAbort")
        assert await committed(client, topic) == []


async def test_a_transaction_that_takes_too_long_is_aborted_by_its_coordinator(
    headrace_address: str, topic: str
) -> None:
    async with headrace.aio.connect(headrace_address) as client:
        await client.admin.create_topic(topic, 1)
        async with client.producer(transactional_id=topic, transaction_timeout=1.0) as producer:
            with pytest.raises(errors.HeadraceError):
                async with producer.transaction() as transaction:
                    await transaction.send(topic, "never")
                    deadline = time.monotonic() + LIMIT_S
                    while (await client.admin.describe_transactions([topic]))[0].state == "Ongoing":
                        assert time.monotonic() < deadline
                        await asyncio.sleep(0.1)
        async with client.producer(transactional_id=topic) as producer, producer.transaction() as transaction:
            await transaction.send(topic, "mine")
        assert await committed(client, topic) == ["mine"]


async def test_positions_count_when_the_transaction_commits_and_not_else(address: str, topic: str) -> None:
    async with headrace.aio.connect(address) as client:
        await client.admin.create_topic(topic, 1)
        await client.admin.create_topic(f"{topic}-out", 1)
        async with client.producer() as producer:
            for number in range(10):
                await producer.put(topic, str(number))
        options = {"group": topic, "auto_commit": False, "session_timeout": 6.0, "isolation": "read_committed"}
        async with (
            client.consumer(topic, **options) as consumer,
            client.producer(transactional_id=topic) as producer,
        ):
            records = await consumer.take(4, LIMIT_S)
            with pytest.raises(KeyError):
                async with producer.transaction() as transaction:
                    await transaction.put(f"{topic}-out", "never")
                    await transaction.send_positions(consumer)
                    raise KeyError
            assert await client.admin.group_offsets(topic, stable=True) == {}
            await consumer.rewind()
            copied = []
            while len(copied) < 10:
                records = await consumer.take(4, LIMIT_S)
                async with producer.transaction() as transaction:
                    for record in records:
                        await transaction.put(f"{topic}-out", record.value)
                    await transaction.send_positions(consumer)
                copied += [(record.value or b"").decode() for record in records]
                await stands_at(client, topic, len(copied))
        assert await committed(client, f"{topic}-out") == sorted(copied) == sorted(map(str, range(10)))


async def test_a_consumer_that_its_group_went_on_without_spoils_the_transaction(address: str, topic: str) -> None:
    async with headrace.aio.connect(address) as client:
        await client.admin.create_topic(topic, 1)
        async with client.producer() as producer:
            await producer.send(topic, "one")
        options = {"group": topic, "auto_commit": False, "session_timeout": 6.0}
        async with (
            client.consumer(topic, handling_timeout=1.0, **options) as hanging,
            client.producer(transactional_id=topic) as producer,
        ):
            assert len(await hanging.take(1, LIMIT_S)) == 1
            await asyncio.sleep(3.0)
            with pytest.raises(errors.IllegalGeneration):
                async with producer.transaction() as transaction:
                    await transaction.put(topic, "never")
                    await transaction.send_positions(hanging)
            assert await committed(client, topic) == ["one"]
        async with client.consumer(topic, group=topic) as hasty, client.producer(transactional_id=topic) as producer:
            await producer.begin()
            with pytest.raises(ValueError, match="auto_commit=False"):
                await producer.send_positions(hasty)


async def test_what_spoilt_one_transaction_does_not_reach_the_next(headrace_address: str, topic: str) -> None:
    """Not even when the next begins in the same breath."""
    async with headrace.aio.connect(headrace_address) as client:
        await client.admin.create_topic(topic, 1)
        options = {"group": topic, "auto_commit": False, "session_timeout": 6.0}
        async with client.producer(transactional_id=topic) as producer, client.consumer(topic, **options) as consumer:
            await consumer.take(1, 2.0)
            consumer._forfeited = True  # as after the group went on without it
            await producer.begin()
            with pytest.raises(errors.IllegalGeneration):
                await producer.send_positions(consumer)
            await producer.abort()
            await producer.begin()
            await producer.put(topic, "mine")
            await producer.commit()
            assert await committed(client, topic) == ["mine"]


async def test_two_commits_at_once_are_one(headrace_address: str, topic: str) -> None:
    async with headrace.aio.connect(headrace_address) as client:
        await client.admin.create_topic(topic, 1)
        async with client.producer(transactional_id=topic) as producer:
            await producer.begin()
            for number in range(100):
                await producer.put(topic, f"{number:02}")
            told = await asyncio.gather(producer.commit(), producer.commit(), return_exceptions=True)
            assert told[0] is None and isinstance(told[1], errors.InvalidTransactionState)
            assert await committed(client, topic) == [f"{number:02}" for number in range(100)]


def test_tables_are_written_in_the_same_transaction(address: str, topic: str, version: str) -> None:
    pa = pytest.importorskip("pyarrow")
    with headrace.connect(address) as client, client.producer(transactional_id=topic) as producer:
        client.admin.create_topic(topic, 2)
        if version == "first":
            with pytest.raises(errors.UnsupportedByBroker), producer.transaction() as transaction:
                assert transaction.member
            return
        for outcome in ("abort", "commit"):
            with contextlib.suppress(KeyError), producer.transaction() as transaction:
                transaction.put(topic, f"{outcome} record", partition=0)
                with client.column_producer(member=transaction.member) as tables:
                    tables.put(topic, pa.table({"value": [f"{outcome} row"], "partition": [1]}))
                if outcome == "abort":
                    raise KeyError
        wait_until_marked(address, topic)
        with client.consumer(topic, follow=False, isolation="read_committed") as reader:
            assert sorted(record.value or b"" for record in reader) == [b"commit record", b"commit row"]


def test_the_sync_face_copies_record_by_record(address: str, topic: str) -> None:
    with headrace.connect(address) as client:
        client.admin.create_topic(topic, 1)
        client.admin.create_topic(f"{topic}-out", 1)
        with client.producer() as producer:
            for number in range(8):
                producer.put(topic, str(number))
        with (
            client.consumer(topic, group=topic, auto_commit=False, follow=False, session_timeout=6.0) as consumer,
            headrace.Producer(address, transactional_id=topic) as producer,
        ):
            assert isinstance(producer, headrace.TransactionalProducer)
            for record in consumer:
                with producer.transaction() as transaction:
                    transaction.put(f"{topic}-out", record.value)
                    transaction.send_positions(consumer)
                if record.offset == 4:
                    break
            producer.begin()
            producer.send(f"{topic}-out", "never")
            producer.abort()
            with pytest.raises(KeyError), producer.transaction() as transaction:
                transaction.send(f"{topic}-out", "never")
                raise KeyError
            assert next(consumer).offset == 5  # it waited for the marks, since it read on from there
            consumer.rewind()
            assert next(consumer).offset == 5
        assert [at.offset for at in client.admin.group_offsets(topic, stable=True).values()] == [5]
        wait_until_marked(address, f"{topic}-out")
        with client.consumer(f"{topic}-out", follow=False, isolation="read_committed") as reader:
            assert [record.value for record in reader] == [b"0", b"1", b"2", b"3", b"4"]


def test_what_is_put_outside_of_a_transaction_is_not_lost_without_a_word(headrace_address: str, topic: str) -> None:
    with headrace.connect(headrace_address) as client:
        client.admin.create_topic(topic, 1)
        producer = client.producer(transactional_id=topic)
        with pytest.raises(errors.DeliveryFailed, match="no transaction is open"), producer:
            producer.put(topic, "lost")
        with client.producer(transactional_id=topic) as producer:  # what an aborted one had is nobody's to be told of
            with contextlib.suppress(KeyError), producer.transaction():
                producer.put(topic, "aborted")
                raise KeyError
            producer.begin()
            producer.put(topic, "aborted by the end")
