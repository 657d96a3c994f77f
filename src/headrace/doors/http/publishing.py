"""Publishing: one record, or many with a result each. What FastAPI's routes and the direct way share."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec

from headrace.broker.publishing import Published
from headrace.doors.http.answers import Json
from headrace.doors.http.refusals import BAD, Refused, refused, status_of, words_of
from headrace.doors.http.services import Services
from headrace.doors.http.values import bytes_of, headers_of, json_text
from headrace.errors import HeadraceError
from headrace.records.record import NO_TIMESTAMP, Record

ACKS = re.compile(r"all|-1|[0-9]{1,4}", re.ASCII)
Index = Annotated[int, msgspec.Meta(ge=0, le=(1 << 31) - 1)]
Time = Annotated[int, msgspec.Meta(ge=0, le=(1 << 62))]
MAX_RECORDS = 10_000  # of one request: what a moment of the loop takes


class One(msgspec.Struct):
    value: msgspec.Raw
    key: str | None = None
    headers: dict[str, Any] = {}


class OneOfMany(msgspec.Struct):
    key: str | None = None
    value: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    value_base64: str | None = None
    headers: dict[str, Any] = {}
    partition: Index | None = None
    timestamp_ms: Time | None = None
    id: str | None = None


class Many(msgspec.Struct):
    records: list[OneOfMany]


one_decoder, many_decoder = msgspec.json.Decoder(One), msgspec.json.Decoder(Many)
line_decoder = msgspec.json.Decoder(OneOfMany)


async def publish(services: Services, name: str, body: One, partition: int | None, acks: str | None) -> Json:
    topic = services.topic(name)
    record = Record(_bytes(body.key), json_text(body.value), headers_of(body.headers))
    future: asyncio.Future[Published | HeadraceError] = asyncio.get_running_loop().create_future()
    services.broker.publishing.publish(name, record, _setter(future), partition=partition, acks=acks, create=False)
    found = await future
    if isinstance(found, HeadraceError):
        raise refused(found)
    answer: dict[str, Any] = {
        "topic": name,
        "offset": found.offset,
        "isr": topic.partitions[found.partition].isr,
    }
    if partition is not None or len(topic.partitions) > 1:
        answer["partition"] = found.partition
    if found.duplicate:
        answer["duplicate"] = True
    if acks is not None:
        answer["acks"] = acks
    return Json(answer)


async def publish_many(
    services: Services, name: str, many: Sequence[OneOfMany], partition: int | None, acks: str | None
) -> Json:
    services.topic(name)
    if len(many) > MAX_RECORDS:
        raise Refused(BAD, f"a request has at most {MAX_RECORDS} records")
    outcomes: list[Published | HeadraceError | None] = [None] * len(many)
    left = len(many)
    all_done = asyncio.get_running_loop().create_future()

    def done(place: int, outcome: Published | HeadraceError) -> None:
        nonlocal left
        outcomes[place] = outcome
        left -= 1
        if not left and not all_done.done():
            all_done.set_result(None)

    for place, one in enumerate(many):
        try:
            record = record_of(one)
        except HeadraceError as error:
            done(place, error)
            continue
        services.broker.publishing.publish(
            name,
            record,
            lambda outcome, place=place: done(place, outcome),  # type: ignore[misc]  # of a lambda's default
            partition=partition if one.partition is None else one.partition,
            acks=acks,
            create=False,
            message_id=one.id,
        )
    if left:
        await all_done
    results = [_result(outcome) for outcome in outcomes if outcome is not None]
    failed = sum("status" in result for result in results)
    answer: dict[str, Any] = {
        "topic": name,
        "published": len(results) - failed,
        "failed": failed,
        "results": results,
    }
    if acks is not None:
        answer["acks"] = acks
    return Json(answer)


def record_of(one: OneOfMany) -> Record:
    if one.value_base64 is not None:
        value: bytes | None = bytes_of(one.value_base64)
    else:
        value = None if isinstance(one.value, msgspec.UnsetType) else json_text(one.value)
    time = NO_TIMESTAMP if one.timestamp_ms is None else one.timestamp_ms
    return Record(_bytes(one.key), value, headers_of(one.headers), time)


def _result(outcome: Published | HeadraceError) -> dict[str, Any]:
    if isinstance(outcome, HeadraceError):
        return {"status": status_of(outcome), "detail": words_of(outcome)}
    result: dict[str, Any] = {"partition": outcome.partition, "offset": outcome.offset}
    if outcome.duplicate:
        result["duplicate"] = True
    return result


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def _setter(future: asyncio.Future[Published | HeadraceError]) -> Any:
    def done(outcome: Published | HeadraceError) -> None:
        if not future.done():  # the client may have left
            future.set_result(outcome)

    return done
