"""`POST /topics/{topic}/publish`: one record. `POST /topics/{topic}/records`: many, each with its own result."""

from __future__ import annotations

import json
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query, Request, Response
from fastapi.exceptions import RequestValidationError

from headrace.doors.http import publishing
from headrace.doors.http.publishing import ACKS
from headrace.doors.http.refusals import NOT_FOUND, NOT_REPLICATED
from headrace.doors.http.services import Services
from headrace.doors.http.shapes import client, records
from headrace.doors.http.shapes.base import refusals

LEVELS = (
    "When it is answered: 0 received, 1 written, all synced, N as all with at least N replicas. Else the topic says."
)
NDJSON = "application/x-ndjson"
LINES = '{"key": "a", "value": 1}\n{"key": "b", "value": 2}\n'

Acks = Annotated[str | None, Query(description=LEVELS, examples=["all"], pattern=f"^({ACKS.pattern})$")]
Partition = Annotated[int | None, Query(ge=0, lt=1 << 31, description="Else by the key, or in turn.")]
REFUSALS = refusals(
    _404=NOT_FOUND, _413="1200000 bytes are over the topic's max.message.bytes=1048588", _503=NOT_REPLICATED
)


def router(services: Services) -> APIRouter:
    routes = APIRouter(tags=["records"], responses=REFUSALS)

    @routes.post("/topics/{topic:path}/publish", response_model=client.Published)
    async def publish(topic: str, body: client.Publish, acks: Acks = None, partition: Partition = None) -> Response:
        """One record."""
        one = publishing.One(_raw(body.value), body.key, body.headers)
        return await publishing.publish(services, topic, one, partition, acks)

    @routes.post(
        "/topics/{topic:path}/records",
        response_model=records.Results,
        openapi_extra={
            "requestBody": {
                "required": True,
                "content": {
                    "application/json": {"schema": _schema(records.NewRecords)},
                    NDJSON: {"schema": {"type": "string"}, "example": LINES},
                },
            }
        },
    )
    async def publish_many(topic: str, request: Request, acks: Acks = None, partition: Partition = None) -> Response:
        """Many records, in JSON or a record in each line (`application/x-ndjson`). Each has its own result, in the
        order of the request; those of one partition that succeed keep their order."""
        body = await request.body()
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() == NDJSON:
            many = _lines(body)
        else:
            many = _many(body)
        return await publishing.publish_many(services, topic, many, partition, acks)

    return routes


def _schema(model: type[records.NewRecords]) -> dict[str, Any]:
    """All in one place: a shape that no parameter has is not among the document's components."""
    schema = model.model_json_schema()
    record = schema.pop("$defs")["NewRecord"]
    schema["properties"]["records"]["items"] = record
    return schema


def _raw(value: Any) -> msgspec.Raw:
    return msgspec.Raw(json.dumps(value).encode())


def _many(body: bytes) -> list[publishing.OneOfMany]:
    try:
        return publishing.many_decoder.decode(body).records
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _unfit(error, ("body",)) from error


def _lines(body: bytes) -> list[publishing.OneOfMany]:
    found = []
    for number, line in enumerate(body.splitlines()):
        if line.strip():
            try:
                found.append(publishing.line_decoder.decode(line))
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                raise _unfit(error, ("body", number)) from error
    return found


def _unfit(error: Exception, where: tuple[str | int, ...]) -> RequestValidationError:
    kind = "json_invalid" if not isinstance(error, msgspec.ValidationError) else "value_error"
    return RequestValidationError([{"type": kind, "loc": where, "msg": str(error), "input": {}}])
