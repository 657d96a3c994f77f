"""The JSON documents of a WebSocket.

Out: a record, as everywhere at this door, with its `partition`, and its `place` to go on after; `{"lost": …}`, what
retention has taken; `{"ack": …}` or `{"error": …}`, the answer to what the client sent. In: a record to publish, with a
`ref` of the client's own that its answer carries.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from headrace.broker.publishing import Published
from headrace.doors.http.publishing import OneOfMany, record_of
from headrace.doors.http.refusals import BAD, status_of, words_of
from headrace.doors.http.websocket.framing import text_frame
from headrace.errors import HeadraceError, InvalidRecord
from headrace.records.record import Record

MAX_REF = 255  # characters: it is kept until the answer
Ref = Annotated[str, msgspec.Meta(max_length=MAX_REF)] | int | None
_NO_JSON = (msgspec.DecodeError, UnicodeError, RecursionError)


class Said(OneOfMany):
    ref: Ref = None


class _Referred(msgspec.Struct):
    ref: Ref = None


class Unfit(Exception):
    """What came is no record to publish."""

    def __init__(self, ref: Ref, detail: str) -> None:
        super().__init__(detail)
        self.ref = ref


_encode = msgspec.json.Encoder().encode
_said, _referred = msgspec.json.Decoder(Said), msgspec.json.Decoder(_Referred)


def read(text: bytes) -> tuple[Said, Record]:
    """Unfit when it cannot be published, whatever the topic."""
    try:
        said = _said.decode(text)
        if isinstance(said.value, msgspec.UnsetType) and said.value_base64 is None:
            raise Unfit(said.ref, "a record to publish has a value")
        return said, record_of(said)
    except InvalidRecord as error:
        raise Unfit(_ref(text), str(error)) from error
    except _NO_JSON as error:
        raise Unfit(_ref(text), f"this is no record to publish: {error}") from error


def ack(ref: Ref, published: Published) -> bytes:
    told: dict[str, Any] = {"offset": published.offset, "partition": published.partition}
    if published.duplicate:
        told["duplicate"] = True
    return _answer("ack", told, ref)


def unfit(error: Unfit) -> bytes:
    return _answer("error", {"status": BAD, "detail": str(error)}, error.ref)


def refusal(ref: Ref, error: HeadraceError) -> bytes:
    return _answer("error", {"status": status_of(error), "detail": words_of(error)}, ref)


class Records:
    """Records as frames."""

    names_partition = True
    place_name = "place of a record"

    def record(self, place: bytes, shown: bytes) -> bytes:
        return text_frame(b'{"place":"%s",%s' % (place, shown[1:]))

    def lost(self, partition: int, first: int, end: int) -> bytes:
        return text_frame(b'{"lost":{"partition":%d,"from":%d,"to":%d}}' % (partition, first, end))


def _answer(name: str, told: dict[str, Any], ref: Ref) -> bytes:
    if ref is not None:
        told["ref"] = ref
    return text_frame(_encode({name: told}))


def _ref(text: bytes) -> Ref:
    try:
        return _referred.decode(text).ref
    except _NO_JSON:
        return None
