"""Producers that leave the machine nothing to spare: a process for each core, with a partition of its own.

One librdkafka producer is a core's work, so with one of them every broker that needs less than the other cores is as
fast as the next. With one on every core, a broker takes its time from theirs, and what it saves is theirs to use.

As a program (`python -m bench.producers ADDRESS TOPIC PARTITION BYTES MESSAGES CORE`) it is one of them: it says when
it is connected, and begins when it is told to.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

from bench.rdkafka import LoadError, Producer

ROOT = Path(__file__).resolve().parent.parent
ERROR_BYTES = 500
LIMIT_S = 300.0
ANY_CORE = -1


def cores() -> list[int]:
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [ANY_CORE] * (os.cpu_count() or 1)


class Producers:
    """`messages` of them each, all at once, when `run` is called."""

    def __init__(self, address: str, topic: str, message_bytes: int, messages: int) -> None:
        self._started: list[subprocess.Popen[str]] = []
        try:
            for partition, core in enumerate(cores()):
                words = [address, topic, str(partition), str(message_bytes), str(messages), str(core)]
                self._started.append(
                    subprocess.Popen(
                        [sys.executable, "-m", "bench.producers", *words],
                        cwd=ROOT,
                        text=True,
                        stdin=subprocess.PIPE,
                        stdout=subprocess.PIPE,
                        stderr=subprocess.PIPE,
                    )
                )
            for process in self._started:
                assert process.stdout is not None
                if not process.stdout.readline():
                    raise self._failed(process)
        except BaseException:
            self.close()
            raise

    def run(self) -> None:
        for process in self._started:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        for process in self._started:
            try:
                code = process.wait(LIMIT_S)
            except subprocess.TimeoutExpired:
                raise LoadError(f"a producer is not done after {LIMIT_S:g} s") from None
            if code:
                raise self._failed(process)

    def close(self) -> None:
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
    partition, message_bytes, messages, core = map(int, numbers)
    if core != ANY_CORE:
        os.sched_setaffinity(0, {core})
    producer = Producer(address, topic, message_bytes)
    try:
        producer.produce(1, partition)  # connections and metadata are not what is measured
        producer.flush()
        print("ready", flush=True)
        sys.stdin.readline()
        producer.produce(messages, partition)
        producer.flush()
    finally:
        producer.close()


if __name__ == "__main__":
    main()
