"""Bytes from standard input and files, cut into records, without ever holding up the loop or holding more than a
little.

A pipe, a terminal and a file are all read the same way: by a thread that reads what is there and waits until that was
taken. It is a daemon thread, because a read from a terminal cannot be called off: Ctrl-C must not wait for Enter.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncIterator
from io import UnsupportedOperation
from typing import BinaryIO, cast

from headrace.cli.exits import usage

CHUNK_BYTES = 256 << 10
MAX_RECORD_BYTES = 64 << 20  # what is longer was never a record: a delimiter is missing


def standard_input() -> BinaryIO:
    """Below Python's own buffer, whose lock a thread that reads would hold: Python cannot end while it is held."""
    try:
        return cast(BinaryIO, open(sys.stdin.fileno(), "rb", buffering=0, closefd=False))
    except UnsupportedOperation:  # no file of the system's: something that was put in its place
        return sys.stdin.buffer


async def chunks(file: BinaryIO) -> AsyncIterator[bytes]:
    """What the file has, as it comes; one chunk is read ahead while another is worked on."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Queue[bytes | OSError] = asyncio.Queue()
    room = threading.Semaphore(2)
    read = getattr(file, "read1", file.read)

    def run() -> None:
        found: bytes | OSError = b"?"
        while found and not isinstance(found, OSError):
            room.acquire()
            try:
                found = read(CHUNK_BYTES)
            except OSError as error:
                found = error
            except ValueError:  # closed while we read: whoever wanted it has gone
                return
            try:
                loop.call_soon_threadsafe(ready.put_nowait, found)
            except RuntimeError:  # the loop has ended: nobody wants it any more
                return

    threading.Thread(target=run, name="reading", daemon=True).start()
    while found := await ready.get():
        if isinstance(found, OSError):
            raise found
        room.release()
        yield found


async def pieces(file: BinaryIO, delimiter: bytes) -> AsyncIterator[list[bytes]]:
    """The pieces between delimiters, as many at once as a chunk had. A last piece needs no delimiter."""
    rest = bytearray()
    async for chunk in chunks(file):
        seen = max(0, len(rest) - len(delimiter) + 1)
        rest += chunk
        if rest.find(delimiter, seen) < 0:
            if len(rest) > MAX_RECORD_BYTES:
                raise usage(f"no delimiter in {MAX_RECORD_BYTES >> 20} MiB of input", "-D names the delimiter")
            continue
        found = bytes(rest).split(delimiter)
        rest = bytearray(found.pop())
        yield found
    if rest:
        yield [bytes(rest)]


async def whole(file: BinaryIO) -> bytes:
    """All of it, as one record."""
    found = bytearray()
    async for chunk in chunks(file):
        found += chunk
        if len(found) > MAX_RECORD_BYTES:
            raise usage(f"a record of more than {MAX_RECORD_BYTES >> 20} MiB is not sent")
    return bytes(found)
