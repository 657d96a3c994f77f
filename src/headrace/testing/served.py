"""A real broker in a process of its own, for what only a real process can show: kill -9, ports, start-up.

The address stays the same over restarts, so a client that was connected finds its broker again. Its log is
kept beside the data, and shown when it does not come up.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from headrace.testing.reserved import ReservedPort

START_LIMIT_S = 30.0  # a node with little data needs a fraction of a second; the rest is for busy machines
STOP_LIMIT_S = 30.0
ANY_PORT = "127.0.0.1:0"
DOORS = ("kafka", "binary", "lines", "json", "http", "msgpack")


class DidNotServe(Exception):
    """The process ended, or never said that it serves; the text has the end of its log."""


class ServedBroker:
    """`with ServedBroker(folder) as broker:` serves at `broker.address`, and stops at the end. All doors are open, on
    free ports: `broker.addresses["lines"]`. `flags` come last, and so have the last word."""

    program: tuple[str, ...] = ("-m", "headrace.cli.main")  # what Python runs; a test may have another that serves

    def __init__(self, folder: Path, *flags: str) -> None:
        self.folder = folder
        self.addresses = dict.fromkeys(DOORS, ANY_PORT)
        self._flags = flags
        self._ports: list[ReservedPort] = []
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self.kill() if kind else self.stop()
        while self._ports:
            self._ports.pop().release()

    @property
    def address(self) -> str:
        """Of the Kafka door."""
        return self.addresses["kafka"]

    @property
    def http(self) -> str:
        return self.addresses["http"]

    @property
    def is_running(self) -> bool:
        return self._process is not None

    @property
    def pid(self) -> int:
        assert self._process is not None, "the broker is not running"
        return self._process.pid

    def start(self) -> float:
        """Starts and waits until it serves; how many seconds that took."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._ready_file.unlink(missing_ok=True)
        places = ["--data", str(self.folder / "data"), "--ready-file", str(self._ready_file)]
        command = [sys.executable, *self.program, "serve", *places]
        for door, address in self.addresses.items():
            command += [f"--{door}", self._reserved(door) if address == ANY_PORT else address]
        begin = time.monotonic()
        with open(self._log_file, "ab") as log:
            self._process = subprocess.Popen([*command, *self._flags], stdout=log, stderr=log)
        while (took := time.monotonic() - begin) < START_LIMIT_S and self._process.poll() is None:
            try:
                addresses = json.loads(self._ready_file.read_text())["addresses"]
                self.addresses = {door: addresses.get(door, "off") for door in DOORS}
                return took
            except FileNotFoundError:
                time.sleep(0.005)
        self.kill()
        raise DidNotServe(f"after {took:.1f} s; the end of its log:\n{self.log()[-3000:]}")

    def _reserved(self, door: str) -> str:
        """An address that nobody else gets while the broker is down, unless the flags have the last word."""
        if f"--{door}" in self._flags:
            return ANY_PORT
        host = ANY_PORT.rpartition(":")[0]
        self._ports.append(ReservedPort(host))
        return f"{host}:{self._ports[-1].number}"

    def kill(self) -> None:
        """kill -9: no goodbye, no flush, no chance to tidy up."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        self._process = None

    def stop(self) -> int:
        """Asks it to stop (SIGTERM) and gives its exit code."""
        assert self._process is not None
        self._process.terminate()
        try:
            code = self._process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise DidNotServe(f"it did not stop within {STOP_LIMIT_S} s:\n{self.log()[-3000:]}") from None
        self._process = None
        return code

    def log(self) -> str:
        return self._log_file.read_text(errors="replace")

    @property
    def _ready_file(self) -> Path:
        return self.folder / "ready.json"

    @property
    def _log_file(self) -> Path:
        return self.folder / "broker.log"
