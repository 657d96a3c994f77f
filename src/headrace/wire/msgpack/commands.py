"""Commands of clients: bytes in, in any pieces; runs of Publish commands and the other commands out, in their order."""

from __future__ import annotations

from headrace.errors import HeadraceError
from headrace.ports import Buffer
from headrace.wire.msgpack.kernel import commands
from headrace.wire.msgpack.parsing import PUBLISH, SUBSCRIBE, UNSUBSCRIBE
from headrace.wire.msgpack.twin import Event, State

__all__ = ["PUBLISH", "SUBSCRIBE", "UNSUBSCRIBE", "CommandReader", "Event", "MalformedCommand"]

BATCH_BYTES = 512 << 10  # of one run: half of what a topic takes by default, and an ordinary read does not fill it


class MalformedCommand(HeadraceError):
    """What a client sent is not a command."""


class CommandReader:
    __slots__ = ("_left", "_max_bytes", "_state", "fault")

    def __init__(self, max_bytes: int) -> None:
        """`max_bytes`: of one command."""
        self._max_bytes = max_bytes
        self._left = bytearray()
        self._state: State = ()
        self.fault: str | None = None  # why nothing is read any more

    def __len__(self) -> int:
        """Bytes of a command whose rest has not come."""
        return len(self._left)

    def receive(self, data: Buffer, now_ms: int) -> list[Event]:
        """What the bytes complete; records get `now_ms` as their time."""
        if self.fault is not None:
            return []
        left = self._left
        if not left:
            events, taken, _, fault = self._read(data, now_ms)
            if taken < len(data):
                left += data[taken:]
        else:
            left += data
            events, taken, _, fault = self._read(left, now_ms)
            if taken:
                self._left = left[taken:]
        if fault is not None:
            self.fault, self._left = fault, bytearray()
        return events

    def _read(self, data: Buffer, now_ms: int) -> tuple[list[Event], int, State, str | None]:
        found = commands(data, self._state, now_ms, self._max_bytes, BATCH_BYTES)
        self._state = found[2]
        return found
