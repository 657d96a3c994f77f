"""The two brokers, and the server that is none (`bench.nothing`): how each is started, watched and stopped. Brokers get
loopback, one partition per topic and their own defaults; Apache Kafka gets the JVM flags of its own start script, 1 GiB
of heap, and deletes at once what is to be deleted.

A server is a process group of its own, so that nothing survives a benchmark that was interrupted.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from bench import raw
from bench.cache import kept
from headrace.testing.served import DOORS

ROOT = Path(__file__).resolve().parent.parent
KAFKA_VERSION = "4.3.1"
HEAP = ["-Xms1G", "-Xmx1G"]
# From kafka-run-class.sh, so that Kafka runs as its own people run it.
JVM = ["-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35"]
JVM += ["-XX:+ExplicitGCInvokesConcurrent", "-Djava.awt.headless=true"]
START_LIMIT_S = 60.0
STOP_LIMIT_S = 20.0
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")

# Deleted topics leave memory before the next round begins (a minute is Kafka's default). What they still held made the
# next server write into memory that the host of a virtual machine had taken back, which is several times as dear.
DELETE_DELAY_MS = 1000
DELETE_LIMIT_S = 30.0
KAFKA_PROPERTIES = """\
process.roles=broker,controller
node.id=0
controller.quorum.voters=0@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={data}
auto.create.topics.enable=true
num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
log.segment.delete.delay.ms={delete}
"""


class ServerError(Exception):
    """A server that could not be fetched or did not come up; the text says what to do."""


@dataclass
class Server:
    keeps = True  # what it acknowledges is there to be read

    name: str
    folder: Path
    address: str = ""
    process: subprocess.Popen[bytes] | None = None
    first_ack_s: float = 0.0
    _output: IO[bytes] | None = field(default=None, repr=False)

    def command(self) -> list[str]:
        raise NotImplementedError

    def prepare(self) -> None:
        """What comes once, before the first start, and is not part of starting."""

    def find_address(self) -> str:
        """The address, or nothing while it is not known yet."""
        try:
            return self.address or self.address_of("kafka")
        except (FileNotFoundError, ValueError):
            return ""

    def address_of(self, door: str) -> str:
        return str(json.loads(self._ready_file.read_text())["addresses"][door])

    @property
    def _ready_file(self) -> Path:
        return self.folder / "ready.json"

    def is_up(self, address: str) -> bool:
        """Whether it acknowledges a record."""
        return raw.first_ack(address, "first")

    def start(self) -> None:
        """Starts and waits for the first acknowledged record, which is what `first_ack_s` measures."""
        self._output = open(self.folder / "output.log", "ab")  # noqa: SIM115 (closed by stop)
        # An installed program has its bytecode beside it; one that may not write it down would compile at each start.
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        environment["PYTHONPATH"] = str(ROOT)
        begin = time.perf_counter()
        self.process = subprocess.Popen(
            self.command(),
            cwd=self.folder,
            env=environment,
            stdout=self._output,
            stderr=self._output,
            start_new_session=True,
        )
        while time.perf_counter() - begin < START_LIMIT_S:
            if self.process.poll() is not None:
                break
            address = self.find_address()
            if address and self.is_up(address):
                self.first_ack_s = time.perf_counter() - begin
                self.address = address
                return
            time.sleep(0.002)
        self.stop()
        raise ServerError(f"{self.name} did not come up; its output:\n{self.last_words()}")

    def wait_until_gone(self, topic: str) -> None:
        """Until a topic that it was told to delete takes no room any more."""

    def stop(self) -> None:
        if self.process is None:
            return
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(STOP_LIMIT_S)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()
        self.process = None
        if self._output:
            self._output.close()

    def last_words(self) -> str:
        return (self.folder / "output.log").read_text(errors="replace")[-2000:]

    def cpu_s(self) -> float:
        """User and system time of the process, all threads."""
        fields = self._proc("stat").rpartition(") ")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND

    def rss_bytes(self) -> int:
        (line,) = [line for line in self._proc("status").splitlines() if line.startswith("VmRSS:")]
        return int(line.split()[1]) * 1024

    def _proc(self, name: str) -> str:
        if self.process is None:
            raise ServerError(f"{self.name} is not running")
        return Path(f"/proc/{self.process.pid}/{name}").read_text()


class Headrace(Server):
    def __init__(self, folder: Path, program: Path) -> None:
        super().__init__("headrace", folder)
        self.program = program

    def command(self) -> list[str]:
        self._ready_file.unlink(missing_ok=True)
        data = ["--data", str(self.folder / "data")]
        return [
            str(self.program),
            "serve",
            *data,
            *(word for door in DOORS for word in (f"--{door}", "127.0.0.1:0")),
            "--ready-file",
            str(self._ready_file),
        ]


class Nothing(Server):
    keeps = False

    def __init__(self, folder: Path) -> None:
        super().__init__("nothing", folder)

    def command(self) -> list[str]:
        self._ready_file.unlink(missing_ok=True)
        return [sys.executable, "-m", "bench.nothing", str(self.folder)]


class Kafka(Server):
    def __init__(self, folder: Path) -> None:
        super().__init__("kafka", folder)
        self._class_path = ""

    def prepare(self) -> None:
        self._class_path = f"{fetch_kafka()}/*"
        port, controller = free_ports(2)
        self.address = f"127.0.0.1:{port}"
        text = KAFKA_PROPERTIES.format(
            port=port, controller=controller, data=self.folder / "data", delete=DELETE_DELAY_MS
        )
        self._properties.write_text(text)
        form = [
            "kafka.tools.StorageTool",
            "format",
            "-t",
            "aGVhZHJhY2UtYmVuY2gtMQ",
            "-c",
            str(self._properties),
        ]
        done = subprocess.run([java(), "-cp", self._class_path, *form], capture_output=True, text=True)
        if done.returncode:
            raise ServerError(f"Kafka's storage could not be formatted:\n{done.stdout}{done.stderr}")

    def command(self) -> list[str]:
        return [java(), *HEAP, *JVM, "-cp", self._class_path, "kafka.Kafka", str(self._properties)]

    def wait_until_gone(self, topic: str) -> None:
        for _ in range(int(DELETE_LIMIT_S / 0.05)):
            if not any((self.folder / "data").glob(f"{topic}-*")):
                return
            time.sleep(0.05)
        raise ServerError(f"{self.name} has not deleted {topic} within {DELETE_LIMIT_S:g} s")

    @property
    def _properties(self) -> Path:
        return self.folder / "server.properties"


def fetch_kafka() -> Path:
    """Apache Kafka's server."""
    return fetch_jars("kafka", "kafka_2.13")


def fetch_kafka_tools() -> Path:
    """Its command line programs, which the tests of clients use."""
    return fetch_jars("kafka-tools", "kafka-tools")


def fetch_jars(name: str, artifact: str) -> Path:
    """One of Apache Kafka's artifacts with all that it needs, by version."""
    return kept(f"{name}-{KAFKA_VERSION}", lambda folder: _fetch_by_maven(artifact, folder))


def _fetch_by_maven(artifact: str, folder: Path) -> None:
    if not shutil.which("mvn"):
        raise ServerError(
            f"mvn is needed once, to fetch Apache Kafka ({artifact}); or measure us alone: --servers headrace"
        )
    pom = folder / "pom.xml"
    pom.write_text(
        "<project><modelVersion>4.0.0</modelVersion><groupId>headrace</groupId><artifactId>bench</artifactId>"
        "<version>1</version><dependencies><dependency><groupId>org.apache.kafka</groupId>"
        f"<artifactId>{artifact}</artifactId><version>{KAFKA_VERSION}</version></dependency></dependencies></project>"
    )
    print(f"fetching Apache Kafka {KAFKA_VERSION} by mvn", flush=True)
    copy = ["dependency:copy-dependencies", f"-DoutputDirectory={folder}", "-DincludeScope=runtime"]
    done = subprocess.run(["mvn", "-q", "-B", "-f", str(pom), *copy], capture_output=True, text=True)
    if done.returncode:
        raise ServerError(f"mvn could not fetch Apache Kafka {KAFKA_VERSION}:\n{done.stdout[-2000:]}")


def java() -> str:
    found = shutil.which("java")
    if not found:
        raise ServerError("a Java runtime (17 or newer) is needed to run Apache Kafka; or: --servers headrace")
    return found


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports
