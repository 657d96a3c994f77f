"""One TCP connection of the simulated network: two pipes, and a transport at each end.

Bytes inside a pipe are never lost, repeated or reordered. They are late, they come in pieces cut at seeded
places, and they stop coming when the path is cut: then they wait for the path, or the connection dies after
RETRANSMIT_S, as TCP's does.

Like uvloop, a transport keeps the buffers that it was given until they leave, at the end of the loop's turn
or when the window opens: a program that changes a buffer after writing it sends the change, here as there.

A closed end answers data with a reset; an end whose machine is gone answers nothing at all (half-open).
"""

from __future__ import annotations

import asyncio
import zlib
from collections import deque
from collections.abc import Callable, Iterable
from contextvars import Context
from typing import TYPE_CHECKING, Any, TypeVarTuple

from headrace.testing.process import Process

if TYPE_CHECKING:
    from headrace.testing.network import Network, SimulatedServer

# What the two kernels hold of one direction: sent, but not yet read by the program at the other end.
WINDOW_BYTES = 256 * 1024
# asyncio's own default water marks of a transport's buffer.
HIGH_WATER_BYTES = 64 * 1024
# How long unacknowledged bytes are sent again before the sender gives up. Linux: about 15 minutes; here
# shorter, so that runs see it.
RETRANSMIT_S = 60.0
# A read hands over at most this much: uvloop's and asyncio's own read size.
READ_BYTES = 256 * 1024

FIN = b""

Ts = TypeVarTuple("Ts")


class Pipe:
    """One direction: from the program that writes to the one that reads."""

    def __init__(self, network: Network, name: str, choppy: bool) -> None:
        self.network = network
        self.name = name
        self.choppy = choppy
        self.source: End
        self.target: End
        self.unsent: deque[memoryview] = deque()
        self.unsent_bytes = 0
        self.in_flight_bytes = 0  # left the source, not yet read by the target's program
        self.waiting: deque[bytes] = deque()  # stopped by a cut path, in order
        self.unacknowledged_bytes = 0  # read, but the way back is cut, so that the source does not know
        self.last_arrival = 0.0
        self.pumping = False
        self.giving_up: asyncio.TimerHandle | None = None
        self.given_up = False

    def send(self, data: bytes | bytearray | memoryview) -> None:
        view = memoryview(data).cast("B")
        if len(view):
            self.unsent.append(view)
            self.unsent_bytes += len(view)
            self.pump_soon()

    def pump_soon(self) -> None:
        if not self.pumping:
            self.pumping = True
            self.network.soon(self.pump)

    def pump(self) -> None:
        """Moves what fits the window out of the program's buffers onto the wire."""
        self.pumping = False
        if self.source.gone:
            return
        room = WINDOW_BYTES - self.in_flight_bytes
        leaving = bytearray()
        while self.unsent and len(leaving) < room:
            view = self.unsent[0]
            take = min(len(view), room - len(leaving))
            leaving += view[:take]
            if take == len(view):
                self.unsent.popleft()
            else:
                self.unsent[0] = view[take:]
        self.unsent_bytes -= len(leaving)
        self.in_flight_bytes += len(leaving)
        for piece in self._pieces(bytes(leaving)):
            self._travel(piece)
        self.source.drained()

    def _pieces(self, data: bytes) -> Iterable[bytes]:
        start, rng = 0, self.network.random
        while start < len(data):
            size = rng.choice((1, 3, 4, 7, 61, 500)) if self.choppy else rng.choice((1460, 4096, 65536, 1 << 20))
            yield data[start : start + size]
            start += size

    def finish(self) -> None:
        self._travel(FIN)

    def _travel(self, piece: bytes) -> None:
        self.last_arrival = self.network.arrival(self.source.host, self.target.host, len(piece), self.last_arrival)
        self.network.at(self.last_arrival, self.arrive, piece)

    def arrive(self, piece: bytes) -> None:
        if self.given_up:
            return
        if self.waiting or not self.network.passes(self.source.host, self.target.host):
            self.waiting.append(piece)
            self._expect_an_answer()
            return
        self.target.receive(piece)

    def resume(self) -> None:
        """Paths were mended, maybe ours."""
        if self.waiting and self.network.passes(self.source.host, self.target.host):
            again = self.network.arrival(self.source.host, self.target.host, 0, 0.0)
            self.network.at(again, self._arrive_again)
        if self.unacknowledged_bytes and self.network.passes(self.target.host, self.source.host):
            count, self.unacknowledged_bytes = self.unacknowledged_bytes, 0
            self.read(count)
        self._stop_the_clock()

    def _arrive_again(self) -> None:
        """What was stopped, before whatever was on its way behind it: that waits too as long as this does."""
        if self.network.passes(self.source.host, self.target.host):
            pieces, self.waiting = self.waiting, deque()
            for piece in pieces:
                self.target.receive(piece)
            self._stop_the_clock()

    def _stop_the_clock(self) -> None:
        if self.giving_up is not None and not self.waiting and not self.unacknowledged_bytes:
            self.giving_up.cancel()
            self.giving_up = None

    def _expect_an_answer(self) -> None:
        if self.giving_up is None:
            self.giving_up = self.network.after(RETRANSMIT_S, self.give_up)

    def give_up(self) -> None:
        self.giving_up, self.given_up = None, True
        self.waiting.clear()
        self.source.lose(TimeoutError(f"{self.name}: nothing was acknowledged for {RETRANSMIT_S:.0f} s"))

    def read(self, count: int) -> None:
        """The target's program took bytes. Acknowledgements need the way back, and take no time: that
        changes speed, not order."""
        if not self.network.passes(self.target.host, self.source.host):
            self.unacknowledged_bytes += count
            self._expect_an_answer()
            return
        self.in_flight_bytes -= count
        if self.unsent:
            self.pump_soon()

    def drop_unsent(self) -> None:
        self.unsent.clear()
        self.unsent_bytes = 0


class End(asyncio.Transport):
    """A transport. `gone`: the program has no part in it any more; what comes is answered by the kernel, or
    by nobody."""

    def __init__(
        self,
        network: Network,
        process: Process,
        context: Context,
        out: Pipe,
        into: Pipe,
        names: dict[str, Any],
    ) -> None:
        super().__init__(extra=names)
        self.network, self.process, self.host, self.context = network, process, process.host, context
        self.out, self.into = out, into
        out.source = into.target = self
        self.server: SimulatedServer | None = None  # the one that accepted it
        self.gone = False
        self._protocol: asyncio.BaseProtocol | None = None  # until the connection stands
        self._closing = False
        self._paused = False
        self._reading_soon = False
        self._arrived: deque[bytes] = deque()
        self._eof_written = False
        self._fin_sent = False
        self._writing_paused = False
        self._high, self._low = HIGH_WATER_BYTES, HIGH_WATER_BYTES // 4

    # The life of a connection

    def connect(self, protocol: asyncio.BaseProtocol) -> None:
        """In the program's own context."""
        self._protocol = protocol
        protocol.connection_made(self)
        self._read_soon()

    def lose(self, error: Exception | None) -> None:
        """The program hears of the end, once."""
        if self.gone:
            return
        self.gone = self._closing = True
        self.out.drop_unsent()
        self._arrived.clear()
        self.network.forget(self)
        if self._protocol is not None:
            self._call(self._lost, error)

    def _lost(self, error: Exception | None) -> None:
        self.network.note(f"lost {self.out.name} {type(error).__name__ if error else 'closed'}")
        self.get_protocol().connection_lost(error)

    def _call(self, callback: Callable[[*Ts], object], *args: *Ts) -> None:
        self.network.loop.call_soon(callback, *args, context=self.context)

    def _send_fin(self) -> None:
        if not self._fin_sent:
            self._fin_sent = True
            self.out.finish()

    def vanish(self, *, silently: bool) -> None:
        """The process died. A living kernel closes its sockets; a machine without power says nothing."""
        if self.gone:
            return
        self.gone = self._closing = True
        self.out.drop_unsent()
        self.network.forget(self)
        if not silently:
            if self._arrived:
                self.network.send_reset(self)
            else:
                self._send_fin()
        self._arrived.clear()

    def abort(self) -> None:
        if not self.gone:
            self.network.send_reset(self)
            self.lose(None)

    def close(self) -> None:
        if self._closing:
            return
        self._closing = True
        if not self.out.unsent:
            self._call(self._finish_closing)

    def _finish_closing(self) -> None:
        if self.gone:
            return
        if self._arrived:  # bytes that nobody will read: Linux resets instead of closing
            self.network.send_reset(self)
        else:
            self._send_fin()
        self.lose(None)

    # Reading

    def receive(self, piece: bytes) -> None:
        """The kernel has bytes for the program."""
        if self.gone:
            if piece:
                self.network.send_reset(self)
            return
        self._arrived.append(piece)
        self._read_soon()

    def _read_soon(self) -> None:
        if self._arrived and self._protocol and not (self._reading_soon or self._paused or self._closing):
            self._reading_soon = True
            self._call(self._read)

    def _read(self) -> None:
        self._reading_soon = False
        if self._paused or self._closing or not self._arrived:
            return
        piece = self._arrived.popleft()
        if piece == FIN:
            self.network.note(f"eof {self.into.name}")
            if not self._as_protocol().eof_received():
                self.close()
            return
        while self._arrived and self._arrived[0] != FIN and len(piece) < READ_BYTES and not self.into.choppy:
            piece += self._arrived.popleft()
        self.network.note(f"deliver {self.into.name} {len(piece)} {zlib.crc32(piece):08x}")
        self._hand_over(piece)
        self._read_soon()

    def _hand_over(self, piece: bytes) -> None:
        protocol = self.get_protocol()
        if isinstance(protocol, asyncio.BufferedProtocol):
            buffer = memoryview(protocol.get_buffer(len(piece))).cast("B")
            if not len(buffer):
                raise RuntimeError("get_buffer() returned an empty buffer")
            count = min(len(buffer), len(piece))
            buffer[:count] = piece[:count]
            if count < len(piece):
                self._arrived.appendleft(piece[count:])
            self.into.read(count)
            buffer.release()
            protocol.buffer_updated(count)
        else:
            self.into.read(len(piece))
            self._as_protocol().data_received(piece)

    def _as_protocol(self) -> asyncio.Protocol:
        return self.get_protocol()  # type: ignore[return-value]  # eof_received is the same in both kinds

    def pause_reading(self) -> None:
        self._paused = True

    def resume_reading(self) -> None:
        self._paused = False
        self._read_soon()

    def is_reading(self) -> bool:
        return not (self._paused or self._closing)

    # Writing

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.writelines((data,))

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        if self._eof_written:
            raise RuntimeError("Cannot call write() after write_eof()")
        if self._closing or not self.process.alive:
            return
        for data in list_of_data:
            self.out.send(data)
        if self.out.unsent_bytes > self._high and not self._writing_paused:
            self._writing_paused = True
            self.get_protocol().pause_writing()

    def drained(self) -> None:
        """The pipe took bytes out of our buffer."""
        if self._writing_paused and self.out.unsent_bytes <= self._low:
            self._writing_paused = False
            self._call(self.get_protocol().resume_writing)
        if not self.out.unsent:
            if self._closing:
                self._call(self._finish_closing)
            elif self._eof_written:
                self._send_fin()

    def write_eof(self) -> None:
        if self._closing or self._eof_written:
            return
        self._eof_written = True
        if not self.out.unsent:
            self._send_fin()

    def can_write_eof(self) -> bool:
        return True

    def get_write_buffer_size(self) -> int:
        return self.out.unsent_bytes

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low, self._high

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = HIGH_WATER_BYTES if high is None else high
        self._low = self._high // 4 if low is None else low

    def is_closing(self) -> bool:
        return self._closing

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        assert self._protocol is not None, "the connection does not stand yet"
        return self._protocol
