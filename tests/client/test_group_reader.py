"""A member of a group when something goes wrong with it: it is lost, closed or refused while the program waits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

import headrace
import headrace.aio
from headrace import errors
from headrace.client.member_events import AskJoin, Grown, Joined
from headrace.wire.kafka.errors import Code
from tests.client.test_group_consumer import LIMIT_S, QUICK, filled, positions, until

End = Callable[[headrace.aio.Client, headrace.aio.GroupConsumer], Awaitable[None]]


async def commit(client: headrace.aio.Client, consumer: headrace.aio.GroupConsumer) -> None:
    await consumer.commit()


async def commit_to(client: headrace.aio.Client, consumer: headrace.aio.GroupConsumer) -> None:
    await consumer.commit(dict.fromkeys(consumer.assignment, 3))


async def send_positions(client: headrace.aio.Client, consumer: headrace.aio.GroupConsumer) -> None:
    name = consumer.assignment[0].topic
    async with client.producer(transactional_id=name) as producer, producer.transaction() as transaction:
        await transaction.send_positions(consumer)


@pytest.mark.parametrize("end", [commit, commit_to, send_positions])
async def test_what_was_lost_while_a_commit_waited_is_not_committed_by_who_joined_anew(
    headrace_address: str, topic: str, monkeypatch: pytest.MonkeyPatch, end: End
) -> None:
    async with headrace.aio.connect(headrace_address) as client:
        await filled(client, topic, 1, 5)
        async with client.consumer(
            topic, group=topic, assignors=["cooperative-sticky"], auto_commit=False, **QUICK
        ) as consumer:
            assert len(await consumer.take(5, LIMIT_S)) == 5
            attendance, is_lost = consumer._attendance, asyncio.Event()
            plain = attendance._ask_join

            async def lose(asked: AskJoin) -> Joined:
                await is_lost.wait()
                monkeypatch.setattr(attendance, "_ask_join", plain)
                return Joined(asked.turn, Code.ILLEGAL_GENERATION, "", -1, "", "", [])

            monkeypatch.setattr(attendance, "_ask_join", lose)
            attendance.post(Grown({topic: 2}))  # it joins again, with what it has
            ending = asyncio.create_task(end(client, consumer))
            await asyncio.sleep(0.2)
            assert not ending.done()
            is_lost.set()
            with pytest.raises(errors.IllegalGeneration):
                await asyncio.wait_for(ending, LIMIT_S)
            assert consumer.membership.generation > 0
            assert await positions(client, topic) == {}


def test_a_sync_iteration_hands_out_nothing_again_after_an_error(headrace_address: str, topic: str) -> None:
    with headrace.connect(headrace_address) as client, client.producer() as producer:
        client.admin.create_topic(topic, 1)
        for number in range(10):
            producer.put(topic, str(number))
        producer.flush()
        with client.consumer(topic, group=topic, **QUICK) as consumer:
            assert [next(consumer).offset for _ in range(10)] == list(range(10))
            consumer._core._error = ValueError("of a callback")
            with pytest.raises(ValueError, match="of a callback"):
                next(consumer)
            producer.send(topic, "new")
            assert next(consumer).offset == 10


async def test_nothing_is_taken_of_a_consumer_that_is_closed_with_work_of_the_group_undone(
    headrace_address: str, topic: str
) -> None:
    async with headrace.aio.connect(headrace_address) as client:
        await filled(client, topic, 1, 5)
        consumer = await client.consumer(topic, group=topic, on_assigned=lambda given: None, **QUICK).start()
        await until(lambda: consumer.is_wanted, lambda: asyncio.sleep(0.05))
        closing = asyncio.create_task(consumer.close())
        await asyncio.sleep(0)
        for _ in ("while it is closed", "and then"):
            for call in (consumer.take(10, 1.0), anext(consumer), consumer.settle()):
                with pytest.raises(errors.ClientClosed, match="the consumer is closed"):
                    await call
            await closing


async def test_closing_under_a_take_that_does_work_of_the_group_is_told_as_such(
    headrace_address: str, topic: str
) -> None:
    async with headrace.aio.connect(headrace_address) as client:
        await filled(client, topic, 1, 5)
        is_called = asyncio.Event()

        async def on_assigned(given: object) -> None:
            is_called.set()
            await asyncio.sleep(LIMIT_S)

        consumer = client.consumer(topic, group=topic, on_assigned=on_assigned, **QUICK)
        taking = asyncio.create_task(consumer.take(10, None))
        await asyncio.wait_for(is_called.wait(), LIMIT_S)
        await consumer.close()
        with pytest.raises(errors.ClientClosed):
            await asyncio.wait_for(taking, LIMIT_S)


@pytest.mark.parametrize("start", ["end", -1, "start"])
async def test_rewinding_without_a_position_goes_back_to_where_reading_began(
    headrace_address: str, topic: str, start: str | int
) -> None:
    async with headrace.aio.connect(headrace_address) as client:
        await filled(client, topic, 1, 5)
        options = {"group": topic, "start": start, "auto_commit": False}
        async with client.consumer(topic, **options, **QUICK) as consumer, client.producer() as producer:
            await until(lambda: bool(consumer.assignment), lambda: asyncio.sleep(0.05))
            for number in range(3):
                await producer.send(topic, str(number))
            wanted = list(range({"end": 5, -1: 4, "start": 0}[start], 8))
            for _ in ("read", "and again"):
                got: list[int] = []
                while len(got) < len(wanted):
                    got += [record.offset for record in await consumer.take(10, 5.0)]
                assert got == wanted
                await consumer.rewind()


@pytest.mark.parametrize("error", [errors.UnsupportedByBroker("no groups here"), KeyError("a fault of ours")])
async def test_a_commit_after_joining_failed_says_why(
    headrace_address: str, topic: str, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    async def ask_join(asked: AskJoin) -> Joined:
        raise error

    async with headrace.aio.connect(headrace_address) as client:
        await client.admin.create_topic(topic, 1)
        consumer = client.consumer(topic, group=topic, **QUICK)
        monkeypatch.setattr(consumer._attendance, "_ask_join", ask_join)
        for call in (consumer.take(1, 5.0), consumer.commit({(topic, 0): 1})):
            with pytest.raises((errors.UnsupportedByBroker, errors.ClientClosed), match=error.args[0]):
                await asyncio.wait_for(call, 5.0)
