"""The doors to the world: time, threads and files. Everything below node/ reaches the world only through these,
so that a test can be a disk that loses its unsynced writes and a clock that stands still.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, Protocol, TypeVar

T = TypeVar("T")

Buffer = bytes | bytearray | memoryview


class Unseen:
    """Bytes that are sent without being looked at, from where they are. A plain class, no protocol: every answer is
    asked whether it is one."""

    __slots__ = ()

    def __len__(self) -> int:
        raise NotImplementedError

    def pour(self, pipe: int, done: int) -> int:
        """Into a pipe which does not wait, from the byte after `done`; says how much it took. BlockingIOError: none."""
        raise NotImplementedError

    def rest(self, done: int) -> bytes:
        """What a socket did not take."""
        raise NotImplementedError


Piece = Buffer | Unseen


class Clock(Protocol):
    def now_ms(self) -> int:
        """Wall-clock milliseconds since 1970; may be stepped."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back."""
        ...


class Background(Protocol):
    """Work that would block the loop."""

    def run(self, work: Callable[[], T], done: Callable[[T | None, BaseException | None], None]) -> None:
        """Runs `work` off the loop; later calls `done(result, None)` or `done(None, error)` on the loop."""
        ...


Cancel = Callable[[], None]


class Timers(Protocol):
    """Calls on the loop at a later time."""

    def after(self, seconds: float, call: Callable[[], object]) -> Cancel:
        """Once, at least so many seconds from now; 0: after this turn. What it gives takes it back, while it has not
        happened."""
        ...


class Promise(Protocol[T]):
    """A result to come, which a coroutine can wait for: the loop's own future."""

    def done(self) -> bool: ...

    def set_result(self, result: T, /) -> None: ...

    def set_exception(self, error: BaseException, /) -> None: ...

    def __await__(self) -> Generator[Any, None, T]: ...


class Files(Protocol):
    """All that we ask of a file system. Handles are small integers; paths are absolute text.

    What power loss may take: bytes written since the file's last `datasync`, and names created, renamed or removed
    since the directory's last `sync_directory`.
    """

    def open(self, path: str, *, create: bool = False) -> int:
        """For reading and writing. Without `create` a missing file is FileNotFoundError."""
        ...

    def close(self, handle: int) -> None: ...

    def pwritev(self, handle: int, buffers: Sequence[Buffer], position: int) -> int:
        """May write less than asked; says how much."""
        ...

    def pread(self, handle: int, size: int, position: int) -> bytes: ...

    def pread_nowait(self, handle: int, size: int, position: int) -> Buffer | None:
        """What is in memory already (maybe less than asked); None when the disk would have to be waited for."""
        ...

    def is_resident(self, handle: int, size: int, position: int) -> bool:
        """Whether all of that is in memory now, where the operating system can send it from by itself. False also
        where nobody can tell."""
        ...

    def pour(self, handle: int, pipe: int, size: int, position: int) -> int:
        """Has the operating system put that into a pipe which does not wait, without a copy; says how much it took.
        Only of what is resident."""
        ...

    def datasync(self, handle: int) -> None: ...

    def truncate(self, handle: int, size: int) -> None: ...

    def reserve(self, handle: int, position: int, size: int) -> bool:
        """Asks for room past the end, so that what is written there need not look for it. The file's size stays.
        False: it cannot be had."""
        ...

    def release(self, handle: int, size: int) -> None:
        """Gives back the room past the end, if the file ends at `size`."""
        ...

    def size(self, handle: int) -> int: ...

    def rename(self, old: str, new: str) -> None: ...

    def remove(self, path: str) -> None: ...

    def remove_directory(self, path: str) -> None: ...

    def make_directory(self, path: str) -> None:
        """With its parents; existing is fine."""
        ...

    def sync_directory(self, path: str) -> None: ...

    def list(self, path: str) -> list[str]: ...

    def exists(self, path: str) -> bool: ...

    def lock(self, path: str) -> int:
        """An exclusive lock that dies with the process; BlockingIOError when another holds it."""
        ...

    def holds(self, lock: int, path: str) -> bool:
        """The file that is locked is still the one at its path: nobody has taken it away, nor put another there."""
        ...
