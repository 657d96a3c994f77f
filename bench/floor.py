"""What the machine itself asks for moving a benchmark's bytes, with no broker in between: `python -m bench.floor DIR`.

Loops of system calls, each with a process of its own at the other end of a loopback connection: receive and write to a
file (what producing cannot do without); read from a file and send, which lets a broker look at what it sends; or have
the kernel send it unseen, with sendfile or through a large pipe (consuming). Who consumes asks for each piece when it
has the one before, as a consumer does. CPU seconds per GiB, as JSON. No broker gets below it, so a row's distance from
it is what there is left to win.
"""

from __future__ import annotations

import json
import os
import resource
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO, Literal

from headrace.doors.kafka.pipe import Pipe
from headrace.doors.listening import stop_pacing
from headrace.ports import Unseen

SIZE_BYTES = 1 << 30
CHUNK_BYTES = 1 << 20  # as large as a busy client's requests
GIB = 1 << 30

Way = Literal["in", "out", "sendfile", "pipe"]
WAYS: tuple[Way, ...] = ("in", "out", "sendfile", "pipe")


class Stretch(Unseen):
    """Of a file, to be sent by the kernel."""

    def __init__(self, handle: int, position: int, size: int) -> None:
        self._handle, self._position, self._size = handle, position, size

    def __len__(self) -> int:
        return self._size

    def pour(self, pipe: int, done: int) -> int:
        return os.splice(self._handle, pipe, self._size - done, self._position + done)


def measure(folder: Path) -> dict[str, float]:
    """In a process of its own, so that its CPU is nobody else's."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.floor", str(folder)], check=True, capture_output=True, text=True, timeout=120
    )
    seen: dict[str, float] = json.loads(done.stdout)
    return seen


def cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def moved(file: IO[bytes], way: Way) -> float:
    """CPU seconds of this end for moving the whole file."""
    handle = file.fileno()
    chunk, pipe = memoryview(bytearray(CHUNK_BYTES)), Pipe()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        stop_pacing(listener)
        port = listener.getsockname()[1]
        other = subprocess.Popen([sys.executable, "-m", "bench.floor", way, str(port)])
        connection, _ = listener.accept()
        with connection:
            begin = cpu_s()
            for position in range(0, SIZE_BYTES, CHUNK_BYTES):
                if way == "in":
                    filled = 0
                    while filled < CHUNK_BYTES:
                        filled += connection.recv_into(chunk[filled:])
                    os.pwrite(handle, chunk, position)
                    continue
                connection.recv(1)
                if way == "pipe":
                    if pipe.send(connection.fileno(), [Stretch(handle, position, CHUNK_BYTES)]) != CHUNK_BYTES:
                        raise RuntimeError("a socket that waits did not take all of it")
                elif way == "sendfile":
                    done = 0
                    while done < CHUNK_BYTES:
                        done += os.sendfile(connection.fileno(), handle, position + done, CHUNK_BYTES - done)
                else:
                    os.preadv(handle, (chunk,), position)
                    connection.sendall(chunk)
            took = cpu_s() - begin
        if other.wait(60):
            raise RuntimeError("the other end failed")
    return took


def other_end(way: Way, port: int) -> None:
    chunk = bytearray(CHUNK_BYTES)
    with socket.create_connection(("127.0.0.1", port)) as connection:
        for _ in range(0, SIZE_BYTES, CHUNK_BYTES):
            if way == "in":
                connection.sendall(chunk)
                continue
            connection.sendall(b"?")
            left = CHUNK_BYTES
            while left > 0 and (count := connection.recv_into(chunk, left)):
                left -= count
        if way == "in":
            connection.recv(1)  # until the other end has taken all of it


def main() -> None:
    if sys.argv[1] in WAYS:
        other_end(WAYS[WAYS.index(sys.argv[1])], int(sys.argv[2]))
        return
    with tempfile.TemporaryFile(dir=sys.argv[1]) as file:
        handle = file.fileno()
        for position in range(0, SIZE_BYTES, CHUNK_BYTES):  # the first touch of memory is not what is measured
            os.pwrite(handle, bytes(CHUNK_BYTES), position)
        os.ftruncate(handle, 0)
        took = {way: moved(file, way) for way in WAYS}
    print(json.dumps({way: seconds * GIB / SIZE_BYTES for way, seconds in took.items()}))


if __name__ == "__main__":
    main()
