"""Calls that the loop has for a sync program."""

from __future__ import annotations

import asyncio

import headrace.aio
from headrace.client.callbacks import Callbacks
from headrace.client.portal import Portal
from tests.client.test_group_consumer import LIMIT_S, QUICK, filled


def test_a_last_call_that_is_asked_for_as_the_program_leaves_waits_for_nobody() -> None:
    portal = Portal()
    try:
        for _ in range(30):
            callbacks = Callbacks(portal)
            asked = callbacks.wait(leave(callbacks))
            portal.call(asyncio.wait_for(asked, 5.0))
    finally:
        portal.stop()


async def leave(callbacks: Callbacks) -> asyncio.Task[None]:
    """It asks when this has ended, and the program has not heard of that yet."""
    return asyncio.get_running_loop().create_task(callbacks.ask(lambda: None, is_last=True))


async def test_closing_does_not_wait_for_a_callback_that_never_ends(headrace_address: str, topic: str) -> None:
    async with headrace.aio.connect(headrace_address) as client:
        await filled(client, topic, 1, 1)
        options = {"group": topic, "handling_timeout": 1.0, **QUICK}
        consumer = client.consumer(topic, on_revoked=lambda given: asyncio.sleep(LIMIT_S), **options)
        assert len(await consumer.take(1, LIMIT_S)) == 1
        async with asyncio.timeout(5.0):
            await consumer.close()
