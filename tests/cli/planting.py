"""Real faults for the doctor to find: file systems that are full or read-only, brokers with a wrong clock, servers that
speak something else. Nothing is imitated that can be had."""

from __future__ import annotations

import contextlib
import os
import pty
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Self

import msgspec
import pytest

from headrace.cli.doctor.cluster import NEEDED
from headrace.cli.doctor.finding import Finding
from headrace.wire.kafka import api_versions, header, messages
from headrace.wire.kafka.api_versions import ApiRange
from tests.cli.running import Ended, checked

SKEWED = """\
import time

_ahead_s = {ahead_s}
_time, _time_ns = time.time, time.time_ns
time.time = lambda: _time() + _ahead_s
time.time_ns = lambda: _time_ns() + _ahead_s * 1_000_000_000
"""


def findings(ended: Ended) -> list[Finding]:
    """What `doctor -o json` printed, held against its schema; the exit code must fit it."""
    found = [checked(item, Finding) for item in msgspec.json.decode(ended.out)]
    assert ended.code == (8 if any(one.result == "failed" for one in found) else 0), ended
    return found


def failures(ended: Ended) -> dict[str, Finding]:
    assert "Traceback" not in ended.err, ended.err
    return {one.condition: one for one in findings(ended) if one.result == "failed"}


@cache
def can_mount() -> bool:
    if shutil.which("unshare") is None:
        return False
    trial = subprocess.run(["unshare", "-Urm", "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True)
    return trial.returncode == 0


def mounted(folder: Path, mount: str, *arguments: str) -> Ended:
    """Runs a command line in a name space of its own, where `mount` (a shell script; $1 is the folder) has been done.
    What is in the folder afterwards is told on standard error, after LEFT."""
    if not can_mount():
        pytest.skip("this machine lets nobody mount file systems in a name space of its own")
    script = f'set -e; {mount}; in="$1"; shift; set +e; "$@"; code=$?; echo LEFT $(ls -A "$in") >&2; exit $code'
    command = ["unshare", "-Urm", "sh", "-c", script, "sh", str(folder), sys.executable, "-m", "headrace", *arguments]
    done = subprocess.run(command, capture_output=True)
    return Ended(done.returncode, done.stdout.decode(), done.stderr.decode())


def mounted_doctor(folder: Path, mount: str, *arguments: str) -> Ended:
    return mounted(folder, mount, "doctor", "-o", "json", "--data", str(folder), *arguments)


def skewed_path(folder: Path, ahead_s: int) -> str:
    """A PYTHONPATH under which every process is so many seconds ahead."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(SKEWED.format(ahead_s=ahead_s))
    return str(folder)


def closed_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


@contextlib.contextmanager
def full_backlog() -> Iterator[str]:
    """A port whose queue of connections is full: what comes now waits, as behind a firewall."""
    with contextlib.ExitStack() as stack:
        listening = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        address = listening.getsockname()
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                waiting.connect(address)
        yield f"127.0.0.1:{address[1]}"


def answering(answer: Callable[[bytes], bytes]) -> contextlib.AbstractContextManager[str]:
    """A server that gives each piece of bytes this answer; after an empty one it closes."""

    def talk(connection: socket.socket) -> None:
        while (question := connection.recv(1 << 16)) and (answered := answer(question)):
            connection.sendall(answered)

    return listening(talk)


@contextlib.contextmanager
def listening(talk: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server that talks so, to one after the other."""
    port = socket.create_server(("127.0.0.1", 0))
    port.settimeout(0.05)
    ended = threading.Event()

    def serve() -> None:
        while not ended.is_set():
            with contextlib.suppress(TimeoutError, ConnectionError):
                connection, _ = port.accept()
                with connection:
                    connection.settimeout(5)
                    talk(connection)

    thread = threading.Thread(target=serve, name="listening")
    thread.start()
    try:
        yield f"127.0.0.1:{port.getsockname()[1]}"
    finally:
        ended.set()
        thread.join()
        port.close()


def old_broker(question: bytes) -> bytes:
    """ApiVersions as Kafka 0.10 answered it: before today's record batches."""
    (correlation_id,) = struct.unpack_from(">i", question, 8)
    ranges = [ApiRange(key, 0, 2) for key in (header.PRODUCE, header.FETCH, header.METADATA)]
    return api_versions.encode_response(0, correlation_id, 0, ranges)


def broker_that_advertises(host: str) -> Callable[[bytes], bytes]:
    """A foreign broker, as far as the doctor asks one: ApiVersions and Metadata."""

    def answer(question: bytes) -> bytes:
        key, version, correlation_id = struct.unpack_from(">hhi", question, 4)
        if key == header.API_VERSIONS:
            ranges = [ApiRange(key, oldest, newest) for key, oldest, newest in NEEDED.values()]
            return api_versions.encode_response(version, correlation_id, 0, ranges)
        kinds = messages.schema("response", key, version)
        node = kinds.MetadataResponseBroker(node_id=1, host=host, port=9092, rack=None)
        told = kinds.MetadataResponse(
            throttle_time=messages.NO_TIME, brokers=(node,), cluster_id="theirs", controller_id=1, topics=()
        )
        return messages.encode(told, correlation_id)

    return answer


class Terminal:
    """A command line on a terminal of its own; `seen` is what it drew."""

    def __init__(self, *arguments: str) -> None:
        self.seen = bytearray()
        self.pid, self._terminal = pty.fork()
        if self.pid == 0:
            os.environ |= {"TERM": "xterm", "COLUMNS": "120", "LINES": "30"}
            os.execv(sys.executable, [sys.executable, "-m", "headrace", *arguments])
        self._code: int | None = None
        self._reader = threading.Thread(target=self._read, name="terminal")
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if self._code is None:
            os.kill(self.pid, signal.SIGKILL)
            self.wait()
        os.close(self._terminal)

    def interrupt(self) -> None:
        os.kill(self.pid, signal.SIGINT)

    def enter(self, line: str) -> None:
        os.write(self._terminal, f"{line}\n".encode())

    def wait(self) -> int:
        _, status = os.waitpid(self.pid, 0)
        self._reader.join()
        self._code = os.waitstatus_to_exitcode(status)
        return self._code

    def _read(self) -> None:
        with contextlib.suppress(OSError):  # so a terminal says that nobody is there any more
            while piece := os.read(self._terminal, 4096):
                self.seen += piece


def environment(**changes: str) -> dict[str, str]:
    return {**os.environ, **changes}
