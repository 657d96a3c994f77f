"""Producers that leave the machine nothing to spare: a process for each core, with a partition of its own.

One librdkafka producer is a core's work, so with one of them every broker that needs less than the other cores is as
fast as the next. With one on every core, a broker takes its time from theirs, and what it saves is theirs to use.

They take tickets from one pipe, each for so many messages, until there are none: whoever shares its core with the
broker sends less, and all end together. With a fixed share each, the slower one would end alone, beside an idle core.

As a program (`python -m bench.producers ADDRESS TOPIC PARTITION BYTES CORE`) it is one of them: it says when it is
connected, and takes its tickets from the standard input.
"""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from bench.rdkafka import LoadError, Producer

ROOT = Path(__file__).resolve().parent.parent
ERROR_BYTES = 500
LIMIT_S = 300.0
ANY_CORE = -1
TICKET = struct.Struct("<I")
TICKET_MESSAGES = 10_000  # a few milliseconds of work


def cores() -> list[int]:
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [ANY_CORE] * (os.cpu_count() or 1)


def tickets(messages: int) -> bytes:
    whole, rest = divmod(messages, TICKET_MESSAGES)
    return TICKET.pack(TICKET_MESSAGES) * whole + (TICKET.pack(rest) if rest else b"")


class Producers:
    """`messages` of them together, when `run` is called."""

    def __init__(self, address: str, topic: str, message_bytes: int, messages: int) -> None:
        self._tickets = tickets(messages)
        self._started: list[subprocess.Popen[str]] = []
        read_end, write_end = os.pipe()
        self._pipe = open(write_end, "wb", buffering=0)  # noqa: SIM115  # until all tickets are in it
        try:
            with open(read_end, "rb") as shared:
                for partition, core in enumerate(cores()):
                    self._start(shared, [address, topic, str(partition), str(message_bytes), str(core)])
            for process in self._started:
                assert process.stdout is not None
                if not process.stdout.readline():
                    raise self._failed(process)
        except BaseException:
            self.close()
            raise

    def _start(self, shared: BinaryIO, words: list[str]) -> None:
        process = subprocess.Popen(
            [sys.executable, "-m", "bench.producers", *words],
            cwd=ROOT,
            text=True,
            stdin=shared,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._started.append(process)

    def run(self) -> None:
        with self._pipe as pipe:
            left = memoryview(self._tickets)
            while left:
                left = left[pipe.write(left) :]
        for process in self._started:
            try:
                code = process.wait(LIMIT_S)
            except subprocess.TimeoutExpired:
                raise LoadError(f"a producer is not done after {LIMIT_S:g} s") from None
            if code:
                raise self._failed(process)

    def close(self) -> None:
        self._pipe.close()
        for process in self._started:
            process.kill()
            process.communicate()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @staticmethod
    def _failed(process: subprocess.Popen[str]) -> LoadError:
        assert process.stderr is not None
        return LoadError(f"a producer ended early: {process.stderr.read().strip()[-ERROR_BYTES:]}")


def main() -> None:
    address, topic, *numbers = sys.argv[1:]
    partition, message_bytes, core = map(int, numbers)
    if core != ANY_CORE:
        os.sched_setaffinity(0, {core})
    producer = Producer(address, topic, message_bytes)
    try:
        producer.produce(1, partition)  # connections and metadata are not what is measured
        producer.flush()
        print("ready", flush=True)
        while ticket := os.read(sys.stdin.fileno(), TICKET.size):
            (messages,) = TICKET.unpack(ticket)
            producer.produce(messages, partition)
        producer.flush()
    finally:
        producer.close()


if __name__ == "__main__":
    main()
