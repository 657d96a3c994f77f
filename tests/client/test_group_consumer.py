"""Consumers of a group, on both brokers: who gets what, where they begin, what is committed, and what is refused."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable

import pytest

import headrace
import headrace.aio
from headrace import errors
from headrace.client.group_values import Committed
from headrace.client.values import TopicPartition

LIMIT_S = 40.0  # Kafka waits three seconds for company before a group's first generation
QUICK = {"session_timeout": 6.0, "max_wait": 0.1}


async def filled(client: headrace.aio.Client, topic: str, partitions: int, each: int) -> None:
    await client.admin.create_topic(topic, partitions)
    async with client.producer() as producer:
        for partition in range(partitions):
            for number in range(each):
                await producer.put(topic, f"{partition}.{number}", partition=partition)


async def until(true: Callable[[], bool], *turns: Callable[[], Awaitable[object]]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not true():
        assert time.monotonic() < deadline, "it did not come to that"
        await asyncio.gather(*(turn() for turn in turns))


async def positions(client: headrace.aio.Client, group: str) -> dict[int, int]:
    found = await client.admin.group_offsets(group)
    return {where.partition: at.offset for where, at in found.items()}


async def test_a_group_reads_everything_once_and_goes_on_where_it_stood(address: str, topic: str) -> None:
    async with headrace.aio.connect(address) as client:
        await filled(client, topic, 3, 20)
        async with client.consumer(topic, group=topic, follow=False, **QUICK) as consumer:
            values = [record.value async for record in consumer]
        assert sorted(values) == sorted(f"{p}.{n}".encode() for p in range(3) for n in range(20))
        assert await positions(client, topic) == {0: 20, 1: 20, 2: 20}
        async with client.producer() as producer:
            await producer.send(topic, "new", partition=1)
        async with client.consumer(topic, group=topic, follow=False, start="end", **QUICK) as consumer:
            assert [record.value async for record in consumer] == [b"new"]


async def test_start_counts_only_where_the_group_has_no_position(address: str, topic: str) -> None:
    async with headrace.aio.connect(address) as client:
        await filled(client, topic, 2, 5)
        await client.admin.alter_group_offsets(topic, {(topic, 0): 3})
        async with client.consumer(topic, group=topic, start=-1, follow=False, **QUICK) as consumer:
            assert sorted([record.value async for record in consumer]) == [b"0.3", b"0.4", b"1.4"]


async def test_only_what_the_program_came_back_for_is_committed_by_itself(address: str, topic: str) -> None:
    async with headrace.aio.connect(address) as client:
        await filled(client, topic, 1, 10)
        async with client.consumer(topic, group=topic, commit_interval=0.2, **QUICK) as consumer:
            taken = await consumer.take(4, timeout=LIMIT_S)
            await asyncio.sleep(1.0)
            assert len(taken) == 4 and (await positions(client, topic)).get(0, 0) == 0
            assert len(await consumer.take(3)) == 3
            await asyncio.sleep(1.0)
            assert await positions(client, topic) == {0: 4}
            record = await anext(consumer)
            assert record.offset == 7
            await anext(consumer)
        assert await positions(client, topic) == {0: 8}  # the end commits no more than that either


async def test_a_commit_is_of_what_was_handed_out_or_of_what_is_said(address: str, topic: str) -> None:
    async with headrace.aio.connect(address) as client:
        await filled(client, topic, 1, 10)
        async with client.consumer(topic, group=topic, auto_commit=False, **QUICK) as consumer:
            await consumer.take(4, timeout=LIMIT_S)
            await consumer.commit()
            assert await positions(client, topic) == {0: 4}
            await anext(consumer)
            await consumer.commit()
            assert await positions(client, topic) == {0: 5}
            await consumer.commit({(topic, 0): Committed(2, metadata="two")})
            assert (await client.admin.group_offsets(topic))[TopicPartition(topic, 0)].metadata == "two"
            await consumer.rewind()
            assert (await anext(consumer)).offset == 2
        assert await positions(client, topic) == {0: 2}


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
async def test_partitions_move_to_who_joins_and_back_from_who_leaves(address: str, topic: str, assignor: str) -> None:
    told: list[tuple[str, int]] = []
    async with headrace.aio.connect(address) as client:
        await filled(client, topic, 4, 10)
        options = {"group": topic, "assignors": [assignor], **QUICK}
        first = client.consumer(
            topic,
            on_assigned=lambda given: told.append(("assigned", len(given))),
            on_revoked=lambda gone: told.append(("revoked", len(gone))),
            **options,
        )
        async with first:
            await until(lambda: len(first.assignment) == 4, lambda: first.take(1, 0.1))
            async with client.consumer(topic, **options) as second:
                await until(
                    lambda: len(first.assignment) == len(second.assignment) == 2,
                    lambda: first.take(100, 0.1),
                    lambda: second.take(100, 0.1),
                )
                assert not set(first.assignment) & set(second.assignment)
            await until(lambda: len(first.assignment) == 4, lambda: first.take(100, 0.1))
        if assignor == "range":
            assert told[:3] == [("assigned", 4), ("revoked", 4), ("assigned", 2)]
        else:  # it kept two all the time
            assert told[:3] == [("assigned", 4), ("revoked", 2), ("assigned", 2)]
        async with client.consumer(topic, group=topic, follow=False, **QUICK) as rest:
            assert [record async for record in rest] == []  # each position was handed over


async def test_nothing_is_taken_away_that_the_program_is_busy_with(headrace_address: str, topic: str) -> None:
    async with headrace.aio.connect(headrace_address) as client:
        await filled(client, topic, 2, 5)
        options = {"group": topic, **QUICK}
        async with client.consumer(topic, **options) as busy, client.consumer(topic, **options) as idle:
            taken = await busy.take(100, timeout=LIMIT_S)
            for _ in range(20):
                assert await idle.take(100, 0.2) == [] or len(busy.assignment) < 2
            held = {(record.topic, record.partition) for record in taken}
            assert held <= set(busy.assignment)
            await busy.commit()
            await until(
                lambda: len(busy.assignment) == len(idle.assignment) == 1,
                lambda: busy.take(100, 0.1),
                lambda: idle.take(100, 0.1),
            )


async def test_what_came_right_after_a_rebalance_is_not_committed_either(headrace_address: str, topic: str) -> None:
    async with headrace.aio.connect(headrace_address) as client:
        await client.admin.create_topic(topic, 2)
        options = {"group": topic, "commit_interval": 0.2, **QUICK}
        async with client.consumer(topic, **options) as first, client.producer() as producer:
            await until(lambda: len(first.assignment) == 2, lambda: first.take(1, 0.1))
            waiting = asyncio.create_task(first.take(10, LIMIT_S))
            async with client.consumer(topic, **options) as second:
                await until(lambda: len(first.assignment) == 1, lambda: second.take(1, 0.1))
                where = first.assignment[0]
                await producer.send(topic, "one", partition=where.partition)
                assert len(await waiting) == 1
                await asyncio.sleep(1.0)
                assert (await positions(client, topic)).get(where.partition, 0) == 0
                assert await first.take(1, 0.1) == []
                await asyncio.sleep(0.6)
                assert (await positions(client, topic))[where.partition] == 1


async def test_a_refusal_in_a_callback_is_told_once_and_the_rebalance_goes_on(
    headrace_address: str, topic: str
) -> None:
    told: list[int] = []

    def on_revoked(gone: object) -> None:
        told.append(1)
        raise errors.InvalidConfig("no")

    async with headrace.aio.connect(headrace_address) as client:
        await client.admin.create_topic(topic, 2)
        async with client.consumer(topic, group=topic, on_revoked=on_revoked, **QUICK) as first:
            await until(lambda: len(first.assignment) == 2, lambda: first.take(1, 0.1))
            async with client.consumer(topic, group=topic, **QUICK) as second:
                with pytest.raises(errors.InvalidConfig):
                    await until(lambda: False, lambda: first.take(1, 0.1), lambda: second.take(1, 0.1))
                await until(
                    lambda: len(first.assignment) == len(second.assignment) == 1,
                    lambda: first.take(1, 0.1),
                    lambda: second.take(1, 0.1),
                )
                assert told == [1]


async def test_a_program_that_hangs_loses_its_partitions_and_its_commit_is_refused(address: str, topic: str) -> None:
    lost: list[int] = []
    async with headrace.aio.connect(address) as client:
        await filled(client, topic, 2, 5)
        options = {"group": topic, "auto_commit": False, **QUICK}
        hanging = client.consumer(topic, handling_timeout=2.0, on_lost=lambda gone: lost.append(len(gone)), **options)
        async with hanging:
            assert len(await hanging.take(10, timeout=LIMIT_S)) > 0
            await until(lambda: not hanging.assignment, lambda: asyncio.sleep(0.1))
            with pytest.raises(errors.IllegalGeneration, match="went on without this member"):
                await hanging.commit()
            async with client.consumer(topic, follow=False, **options) as other:
                assert len([record async for record in other]) == 10
            assert len(await hanging.take(10, timeout=LIMIT_S)) > 0  # back again, from where the group stands
            assert lost == [2]
            await hanging.commit()


async def test_heartbeats_go_on_while_a_program_is_busy(address: str, topic: str) -> None:
    async with headrace.aio.connect(address) as client:
        await filled(client, topic, 1, 2)
        async with client.consumer(topic, group=topic, auto_commit=False, **QUICK) as consumer:
            await consumer.take(1, timeout=LIMIT_S)
            (before,) = await client.admin.describe_groups([topic])
            await asyncio.sleep(8.0)  # longer than its session
            await consumer.commit()
            (after,) = await client.admin.describe_groups([topic])
            assert before.members == after.members and after.state == "Stable"


async def test_a_static_member_finds_its_partitions_when_it_is_back(address: str, topic: str) -> None:
    async with headrace.aio.connect(address) as client:
        await filled(client, topic, 2, 1)
        options = {"group": topic, "instance": "one", **QUICK}
        async with client.consumer(topic, **options) as consumer:
            await until(lambda: len(consumer.assignment) == 2, lambda: consumer.take(10, 0.1))
        (group,) = await client.admin.describe_groups([topic])
        assert [member.instance_id for member in group.members] == ["one"]  # it did not leave
        async with client.consumer(topic, **options) as again, client.consumer(topic, **options) as third:
            with pytest.raises(errors.FencedMember):
                for _ in range(100):
                    await asyncio.gather(again.take(1, 0.1), third.take(1, 0.1))


async def test_new_partitions_and_topics_of_a_pattern_come_by_themselves(address: str, topic: str) -> None:
    async with headrace.aio.connect(address) as client:
        await filled(client, f"{topic}-a", 1, 1)
        pattern = re.compile(re.escape(topic) + "-[a-z]")
        async with client.consumer(pattern, group=topic, look_interval=0.5, **QUICK) as consumer:
            await until(lambda: len(consumer.assignment) == 1, lambda: consumer.take(10, 0.1))
            await client.admin.add_partitions(f"{topic}-a", 2)
            await client.admin.create_topic(f"{topic}-b", 1)
            await client.admin.create_topic(f"{topic}-other", 1)
            wanted = {(f"{topic}-a", 0), (f"{topic}-a", 1), (f"{topic}-b", 0)}
            await until(lambda: set(consumer.assignment) == wanted, lambda: consumer.take(10, 0.1))


async def test_an_error_of_a_callback_is_raised_where_the_program_reads(headrace_address: str, topic: str) -> None:
    def on_assigned(given: object) -> None:
        raise KeyError("no room")

    async with headrace.aio.connect(headrace_address) as client:
        await filled(client, topic, 1, 1)
        async with client.consumer(topic, group=topic, on_assigned=on_assigned, **QUICK) as consumer:
            with pytest.raises(KeyError, match="no room"):
                await consumer.take(1, LIMIT_S)
            assert len(await consumer.take(1, LIMIT_S)) == 1  # told once


async def test_what_a_group_does_not_allow_is_said_at_once(headrace_address: str, topic: str) -> None:
    async with headrace.aio.connect(headrace_address) as client:
        await client.admin.create_topic(topic, 1)
        for wrong in ({"partitions": [0]}, {"assignors": ["random"]}, {"assignors": "range"}, {"session_timeout": 0}):
            with pytest.raises(ValueError, match=r"partitions|assignors|timeouts"):
                client.consumer(topic, group="g", **wrong)
        with pytest.raises(TypeError, match="no such option"):
            client.consumer(topic, auto_commit=False)
        async with client.consumer(topic, group=topic) as consumer:
            with pytest.raises(ValueError, match="by itself"):
                await consumer.assign([(topic, 0)])
        with pytest.raises(errors.UnknownTopic):
            async with client.consumer("nowhere", group=topic):
                pass
        async with client.consumer(topic, group=topic, session_timeout=0.001) as consumer:
            with pytest.raises(errors.InvalidSessionTimeout):
                await consumer.take(1, LIMIT_S)


def test_the_sync_face_calls_back_in_the_programs_own_thread(address: str, topic: str) -> None:
    import threading

    calls: list[tuple[str, str]] = []

    with headrace.connect(address) as client:
        client.admin.create_topic(topic, 2)
        with client.producer() as producer:
            for number in range(100):
                producer.put(topic, str(number), partition=number % 2)

        def assigned(given: object) -> None:
            calls.append(("assigned", threading.current_thread().name))
            consumer.seek(topic, 0, 40)

        def revoked(gone: object) -> None:
            calls.append(("revoked", threading.current_thread().name))
            consumer.commit()

        options = {"group": topic, "auto_commit": False, "follow": False, **QUICK}
        with client.consumer(topic, on_assigned=assigned, on_revoked=revoked, **options) as consumer:
            assert sum(1 for _ in consumer) == 60
        here = threading.current_thread().name
        assert calls == [("assigned", here), ("revoked", here)]
        assert {at.offset for at in client.admin.group_offsets(topic).values()} == {50}


def test_a_sync_program_may_be_busy_for_longer_than_a_session(headrace_address: str, topic: str) -> None:
    with headrace.connect(headrace_address) as client:
        client.admin.create_topic(topic, 1)
        with client.producer() as producer:
            for number in range(3):
                producer.put(topic, str(number))
        with client.consumer(topic, group=topic, session_timeout=1.5, auto_commit=False) as consumer:
            for record in consumer:
                (before,) = client.admin.describe_groups([topic])
                time.sleep(2.5)
                consumer.commit()
                (after,) = client.admin.describe_groups([topic])
                assert before.members == after.members
                if record.offset == 1:
                    break
        assert client.admin.group_offsets(topic)[TopicPartition(topic, 0)].offset == 2


async def test_a_pattern_that_matches_nothing_yet_waits(headrace_address: str, topic: str) -> None:
    async with headrace.aio.connect(headrace_address) as client:
        pattern = re.compile(re.escape(topic) + "-[a-z]")
        async with client.consumer(pattern, group=topic, look_interval=0.3, **QUICK) as consumer:
            assert await consumer.take(1, 0.5) == []
            await filled(client, f"{topic}-a", 1, 1)
            assert len(await consumer.take(1, LIMIT_S)) == 1


def test_a_sync_iteration_commits_record_by_record(address: str, topic: str) -> None:
    with headrace.connect(address) as client:
        client.admin.create_topic(topic, 1)
        with client.producer() as producer:
            for number in range(50):
                producer.put(topic, str(number))
        where = TopicPartition(topic, 0)
        with client.consumer(topic, group=topic, **QUICK) as consumer:
            for record in consumer:
                if record.offset == 20:
                    break
        assert client.admin.group_offsets(topic)[where].offset == 20  # it never came back for that one
        with headrace.Consumer(address, topic, group=topic, auto_commit=False, **QUICK) as consumer:
            assert [record.offset for record in consumer.take(5, LIMIT_S)] == [20, 21, 22, 23, 24]
            consumer.commit()
            assert next(consumer).offset == 25
            consumer.rewind()
            assert next(consumer).offset == 25
        assert client.admin.group_offsets(topic)[where].offset == 25
