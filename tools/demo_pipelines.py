"""The demo's last part, where Java is: orders through five doors at once, a rollup over them while they come, which is
stopped and goes on, and an archive of them all. The pipelines are those of examples/, started as a person would; what
came out of them must be what went in, counted here without Spark.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from threading import Thread
from typing import Self

from confluent_kafka import Producer

import headrace
from examples.orders import BEGAN, TOPIC, Order, orders
from headrace.compat.broker_client import BrokerClient
from headrace.compat.http_client import HttpClient
from headrace.compat.line_client import LineClient
from headrace.compat.sync_json_client import SyncProducer
from headrace.testing.served import ServedBroker

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
ROLLUP, ARCHIVE = "rollup.toml", "archive.toml"
WINDOWS, LATE = "orders.per-minute", timedelta(minutes=10)  # as the rollup's file has them
MINUTE = timedelta(minutes=1)
ROUND = 50  # orders; all are acknowledged before the next begin: none is ever so late that its window is closed
ROUND_S = 0.25
ORDERS_LIVE = 10_000  # at the most while the rollup runs, however slow the machine
ROUNDS_AFTER = 20  # while it is stopped
LIMIT_S = 180.0  # of anything that is waited for, on a busy machine
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # what runs a few seconds is not worth Java's best compiler
SHOWN = 6  # rows of windows
SOME = 20  # rows of windows, after which the rollup is stopped once

Say = Callable[[str], None]
Windows = dict[tuple[datetime, str], tuple[int, float]]  # by minute and country: orders, revenue
Send = Callable[[Sequence[Order]], object]


def pipelines(broker: ServedBroker, folder: Path, say: Say) -> int:
    """The exit code. Where Spark cannot be, a sentence says why, and that is no failure."""
    try:
        from headrace.spark.errors import JavaMissing
        from headrace.spark.java import check_java

        check_java()
    except ImportError as error:
        say(f"no pipelines without Spark: {error}")
        return 0
    except JavaMissing as error:
        say(f"no pipelines without Java: {error}")
        return 0
    with headrace.connect(broker.address) as client:
        client.admin.create_topic(TOPIC, 3)
        client.admin.create_topic(WINDOWS)
    for name in (ROLLUP, ARCHIVE):  # what they keep is beside them: the demo's is not left in the examples
        shutil.copy(EXAMPLES / name, folder)
    commands = Commands(broker.address, folder)
    say("orders come in through five doors; a rollup counts them by minute and country meanwhile")
    with Traffic(broker) as traffic:
        code = rolled_up(commands, traffic, say) or archived(commands, traffic.count, say)
    if code:
        say("THIS IS A BUG: please report it")
    return code


def rolled_up(commands: Commands, traffic: Traffic, say: Say) -> int:
    with commands.beside("pipeline", "run", ROLLUP, "--trigger", "2s", "--no-plots") as live:
        deadline = time.monotonic() + LIMIT_S
        while live.poll() is None and counted(commands.address) < SOME and time.monotonic() < deadline:
            traffic.round() if traffic.count < ORDERS_LIVE else time.sleep(ROUND_S)
        commands.run("pipeline", "status", ROLLUP)
        commands.run("pipeline", "stop", ROLLUP, "--timeout", f"{LIMIT_S:.0f}s")
    for _ in range(ROUNDS_AFTER):
        traffic.round()
    say(f"{traffic.count:,} orders so far, a fifth of them through each of {', '.join(traffic.doors)}")
    say("the rollup goes on where it was, until nothing is left:")
    commands.run("pipeline", "run", ROLLUP)
    found, expected = windows(commands.address), closed_windows(traffic.count)
    say(f"minutes that are complete, the first {SHOWN} of {len(found)} rows:")
    say(f"  {'minute':6} {'country':8} {'orders':>6} {'revenue':>9}")
    for (minute, country), (count, revenue) in sorted(found.items())[:SHOWN]:
        say(f"  {minute:%H:%M}  {country:8} {count:6} {revenue:9.2f}")
    is_right = found == expected and counted(commands.address) == len(expected)
    told = sum(count for count, _ in found.values())
    say(f"{told:,} orders in them, each counted once: {'yes' if is_right else 'NO'}")
    return 0 if is_right else 1


def archived(commands: Commands, sent: int, say: Say) -> int:
    import pyarrow.parquet as pq

    say("and all orders to files, by date:")
    commands.run("pipeline", "run", ARCHIVE)
    rows = 0
    for day in sorted((commands.folder / "archive" / "orders").glob("date=*")):
        files = list(day.glob("*.parquet"))
        found = sum(pq.read_metadata(file).num_rows for file in files)
        size = sum(file.stat().st_size for file in files)
        say(f"  {day.name}  {found:5,} rows in {len(files)} file{'s' * (len(files) > 1)}, {size / 1024:.0f} KiB")
        rows += found
    say(f"{rows:,} rows in the archive, {sent:,} orders sent: {'the same' if rows == sent else 'NOT THE SAME'}")
    return 0 if rows == sent else 1


class Commands:
    """`headrace …` in the demo's folder, asking its broker; what a command says is shown as it comes."""

    def __init__(self, address: str, folder: Path) -> None:
        self.address, self.folder = address, folder

    def run(self, *words: str) -> None:
        """One that fails ends the demo."""
        with self._started(words) as process:
            _show(process)
        if process.returncode:
            raise SystemExit(process.returncode)

    @contextmanager
    def beside(self, *words: str) -> Iterator[subprocess.Popen[str]]:
        """While the body runs; at its end it must have been ended, and well."""
        with self._started(words) as process:
            shower = Thread(target=_show, args=(process,))
            shower.start()
            try:
                yield process
                process.wait(LIMIT_S)
            finally:
                if process.poll() is None:
                    process.send_signal(signal.SIGINT)
                shower.join(LIMIT_S)
                process.kill()
        if process.returncode:
            raise SystemExit(process.returncode)

    def _started(self, words: Sequence[str]) -> subprocess.Popen[str]:
        print(f"\n  $ headrace {shlex.join(words)} -s {self.address}", flush=True)
        return subprocess.Popen(
            [sys.executable, "-m", "headrace", *words, "-s", self.address],
            cwd=self.folder,
            env=os.environ | {"JAVA_TOOL_OPTIONS": QUICK},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )


def _show(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        print(f"  {line}", end="", flush=True)


# Traffic


class Traffic:
    """Orders in rounds, a fifth of each through every door at the same time."""

    def __init__(self, broker: ServedBroker) -> None:
        self._opened = ExitStack()
        self._pool = self._opened.enter_context(ThreadPoolExecutor())
        self.doors = _senders(broker, self._opened)
        self._orders, self.count, self._due = orders(ORDERS_LIVE + ROUNDS_AFTER * ROUND), 0, time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def round(self) -> None:
        time.sleep(max(0.0, self._due - time.monotonic()))
        self._due = time.monotonic() + ROUND_S
        share = ROUND // len(self.doors)
        for sent in [self._pool.submit(send, list(islice(self._orders, share))) for send in self.doors.values()]:
            sent.result(LIMIT_S)
        self.count += ROUND


def _senders(broker: ServedBroker, opened: ExitStack) -> Mapping[str, Send]:
    at = {door: (address.split(":")[0], int(address.split(":")[1])) for door, address in broker.addresses.items()}
    kafka = Producer({"bootstrap.servers": broker.address, "acks": "all", "linger.ms": 2})
    binary = opened.enter_context(BrokerClient(*at["binary"]))
    lines = opened.enter_context(LineClient(*at["lines"]))
    web = opened.enter_context(HttpClient(broker.http))
    json_door = SyncProducer(*at["json"])

    def by_kafka(some: Sequence[Order]) -> None:
        for order in some:
            kafka.produce(TOPIC, json.dumps(order), order["country"])
        if kafka.flush(LIMIT_S):
            raise TimeoutError("the Kafka door did not acknowledge all orders")

    def by_binary(some: Sequence[Order]) -> None:
        for order in some:
            binary.publish(TOPIC, json.dumps(order))

    return {
        "kafka": by_kafka,
        "binary": by_binary,
        "lines": lambda some: lines.publish_all(TOPIC, map(json.dumps, some)),
        "json": lambda some: json_door.publish_all(TOPIC, 0, list(some)),
        "http": lambda some: web.publish_many(TOPIC, [{"value": order} for order in some]),
    }


# What must come of it


def closed_windows(sent: int) -> Windows:
    """Those that no order can reach any more: they ended more than ten minutes before the newest order."""
    found: dict[tuple[datetime, str], list[float]] = {}
    newest = BEGAN
    for order in orders(sent):
        at = datetime.fromisoformat(order["at"])
        newest = max(newest, at)
        found.setdefault((at.replace(second=0), order["country"]), []).append(order["amount"])
    return {
        place: (len(amounts), round(sum(amounts), 2))
        for place, amounts in found.items()
        if place[0] + MINUTE <= newest - LATE
    }


def windows(address: str) -> Windows:
    found: Windows = {}
    for value in read(address):
        row = json.loads(value)
        minute = datetime.fromisoformat(row["window_start"]).astimezone(UTC)
        found[minute, row["country"]] = (row["orders"], round(row["revenue"], 2))
    return found


def counted(address: str) -> int:
    return sum(1 for _ in read(address))


def read(address: str) -> Iterator[bytes]:
    with (
        headrace.connect(address) as client,
        client.consumer(WINDOWS, isolation="read_committed", follow=False) as consumer,
    ):
        for record in consumer:
            yield record.value or b""
