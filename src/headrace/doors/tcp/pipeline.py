"""Requests of one connection, taken and answered in their order.

Most may wait for the disk side by side. One that is to be alone, because it must see what those before it did, is taken
when all before it are answered, and nothing behind it is taken until it is answered itself. Meanwhile the connection
is not read: what is kept here is what one read brought.

A door whose requests are small and answers large gives its bytes to `received`: they are read a slice at a time, as far
as requests are taken, and the rest is kept as bytes; and nothing is taken while answers wait for room. Such a door
calls `resume` when there is room.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

from headrace.doors.tcp.answers import Answer, Answers
from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from headrace.doors.tcp.connection import TcpConnection

Request = TypeVar("Request")

FEW_BYTES = 64 << 10
SLICE_BYTES = 32 << 10  # requests of so many bytes are made at once: a small one takes many times its bytes in memory


class Pipeline(Generic[Request]):
    def __init__(
        self,
        connection: TcpConnection,
        take: Callable[[Request, Answer], None],
        is_alone: Callable[[Request], bool],
        count: Callable[[Request], int] = lambda request: 1,
        read: Callable[[memoryview], Sequence[Request]] | None = None,
    ) -> None:
        """`count`: of requests of the client that one of ours stands for. `read`: bytes to requests."""
        self._connection, self._take, self._is_alone, self._count = connection, take, is_alone, count
        self._read = read
        self._answers = Answers(connection)
        self._queue: deque[tuple[Request, Answer]] = deque()
        self._alone: Answer | None = None  # of the request that is alone now
        self._unread = memoryview(b"")
        self._is_working = self._is_due = False

    @property
    def unread_bytes(self) -> int:
        """Counted only when they are many: who waits for an answer with a few more requests sent is not stalled."""
        return len(self._unread) if len(self._unread) > FEW_BYTES else 0

    def put(self, requests: Iterable[Request]) -> None:
        self._add(requests)
        self._work()

    def received(self, data: memoryview) -> None:
        """`data` is not ours to keep."""
        self._unread = data if not self._unread else memoryview(bytes(self._unread) + bytes(data))
        self._work()
        self._unread = memoryview(bytes(self._unread))

    def give(self, answer: Answer, data: bytes) -> None:
        """The answer to a request that was taken."""
        self._answers.give(answer, data)
        if answer is self._alone:
            self._alone = None
        self.resume()

    def resume(self) -> None:
        """What waits may go on."""
        if (self._queue or self._unread) and not self._is_working and not self._is_due:
            self._is_due = True
            self._connection.tcp.loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        """Nobody who reads is above us: what goes wrong ends the connection here, or nobody would."""
        connection = self._connection
        tcp = connection.tcp
        self._is_due = False
        try:
            self._work()
        except HeadraceError as error:
            tcp.end_turn(connection)
            connection.close("malformed", str(error))
            return
        except Exception as error:  # noqa: BLE001  # it is reported, and ends this connection alone
            tcp.end_turn(connection)
            tcp.failed(connection, {"message": "a request could not be taken", "exception": error})
            return
        tcp.end_turn(connection)

    def _add(self, requests: Iterable[Request]) -> None:
        place, count = self._answers.place, self._count
        self._queue.extend([(request, place(count(request))) for request in requests])

    def _work(self) -> None:
        connection = self._connection
        self._is_working = True
        try:
            while self._take_queued() and self._unread and not connection.closed:
                assert self._read is not None
                piece, self._unread = self._unread[:SLICE_BYTES], self._unread[SLICE_BYTES:]
                self._add(self._read(piece))
        finally:
            self._is_working = False
        if connection.closed:
            self._queue.clear()
            self._unread = memoryview(b"")
        elif self._queue or self._unread:
            connection.hold()
        else:
            connection.let_go()

    def _take_queued(self) -> bool:
        """Whether all were taken, and more may come."""
        queue, connection = self._queue, self._connection
        needs_room = self._read is not None
        while queue and self._alone is None and not connection.closed and not (needs_room and connection.is_full):
            request, answer = queue[0]
            if self._is_alone(request):
                if not self._answers.is_first(answer):
                    return False
                self._alone = answer
            queue.popleft()
            self._take(request, answer)
        return not queue and not (needs_room and connection.is_full)
