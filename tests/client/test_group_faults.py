"""Administration of groups and transactions over connections that end: what only reads, and what may be said twice, is
asked again; what may not is told as unknown, once."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import headrace.aio
from headrace import errors
from headrace.client.apis import (
    DELETE_GROUPS,
    DESCRIBE_GROUPS,
    FIND_COORDINATOR,
    INIT_PRODUCER_ID,
    LIST_GROUPS,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    WRITE_TXN_MARKERS,
)
from tests.client.proxy import LOSE, PASS, REFUSE, Proxy, behind_proxy
from tests.client.test_transactions import transaction

TOPIC, GROUP = "orders", "billing"


@pytest.fixture
async def proxied(tmp_path: Path) -> AsyncIterator[tuple[Proxy, headrace.aio.Client]]:
    async with behind_proxy(tmp_path) as (proxy, _), headrace.aio.connect(proxy.address, timeout=10.0) as client:
        await client.admin.create_topic(TOPIC)
        await client.admin.alter_group_offsets(GROUP, {(TOPIC, 0): 1})
        yield proxy, client


def first(key: int, order: str, proxy: Proxy) -> None:
    """The next of these requests is harmed, those behind it pass."""
    seen = proxy.seen[key]
    proxy.rule = lambda asked, number: order if asked == key and number == seen else PASS


@pytest.mark.parametrize("order", [LOSE, REFUSE])
async def test_what_reads_is_asked_again(proxied: tuple[Proxy, headrace.aio.Client], order: str) -> None:
    proxy, client = proxied
    for api in (FIND_COORDINATOR, OFFSET_FETCH):
        first(api.key, order, proxy)
        assert [one.offset for one in (await client.admin.group_offsets(GROUP)).values()] == [1]
    first(DESCRIBE_GROUPS.key, order, proxy)
    assert (await client.admin.describe_groups([GROUP]))[0].state == "Empty"
    first(LIST_GROUPS.key, order, proxy)
    assert [one.name for one in await client.admin.list_groups()] == [GROUP]


@pytest.mark.parametrize("order", [LOSE, REFUSE])
async def test_a_position_is_set_again_since_twice_is_once(
    proxied: tuple[Proxy, headrace.aio.Client], order: str
) -> None:
    proxy, client = proxied
    first(OFFSET_COMMIT.key, order, proxy)
    await client.admin.alter_group_offsets(GROUP, {(TOPIC, 0): 0})
    assert [one.offset for one in (await client.admin.group_offsets(GROUP)).values()] == [0]


async def test_a_deletion_without_an_answer_is_told_as_unknown(proxied: tuple[Proxy, headrace.aio.Client]) -> None:
    proxy, client = proxied
    first(DELETE_GROUPS.key, LOSE, proxy)
    with pytest.raises(errors.ConnectionFailed, match="is not known"):
        await client.admin.delete_group(GROUP)
    assert await client.admin.list_groups() == []  # it was done, this time


async def test_an_abort_is_asked_again_and_a_marker_is_not(proxied: tuple[Proxy, headrace.aio.Client]) -> None:
    proxy, client = proxied
    with contextlib.ExitStack() as stack:  # in a thread: the proxy needs this loop
        await asyncio.to_thread(stack.enter_context, transaction(proxy.address, "one", TOPIC))
        first(WRITE_TXN_MARKERS.key, LOSE, proxy)
        with pytest.raises(errors.ConnectionFailed):
            await client.admin.abort_hanging(TOPIC, 0, 0)
        assert proxy.seen[WRITE_TXN_MARKERS.key] == 1
        first(INIT_PRODUCER_ID.key, LOSE, proxy)
        assert (await client.admin.abort_transaction("one")).state == "Ongoing"
    (found,) = await client.admin.describe_transactions(["one"])
    assert found.state in ("Empty", "CompleteAbort")
