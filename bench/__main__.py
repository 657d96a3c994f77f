"""`make bench`: us and Apache Kafka in one interleaved run, and beside them a server that keeps nothing.

All servers stay up the whole time, and only one is loaded at a time: us, Kafka, us, Kafka, ... The JVM is
warmed first, because a cold one is several times dearer and nobody runs a cold one.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from bench import floor, report, workloads
from bench.rdkafka import LoadError
from bench.servers import KAFKA_VERSION, Headrace, Kafka, Nothing, Server, ServerError, fetch_kafka
from bench.workloads import GROWTH_WORKLOADS, WITHOUT_BROKER, WORKLOADS, Scale

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results"
CONTROL = Path("/proc/sys/net/ipv4/tcp_congestion_control")  # of the network namespace that we are in
PARTS = [*WORKLOADS, "start", *GROWTH_WORKLOADS]
SERVERS: dict[str, Callable[[Path], Server]] = {
    "headrace": lambda folder: Headrace(folder, Path(sys.executable).parent / "headrace"),
    "kafka": Kafka,
    "nothing": Nothing,
}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="how often everything is repeated")
    parser.add_argument("--messages", type=int, default=10_000_000, help="100 B messages per round")
    parser.add_argument("--warm", type=int, default=20_000_000, help="messages that warm each server first")
    parser.add_argument("--latency-seconds", type=float, default=10.0, help="how long latency is sampled per round")
    parser.add_argument("--only", default=",".join(PARTS), help=f"parts, comma-separated: {', '.join(PARTS)}")
    parser.add_argument("--servers", default=",".join(SERVERS), help=f"which of {', '.join(SERVERS)}")
    parser.add_argument("--quick", action="store_true", help="a tenth of the work, one round: does it run at all?")
    parser.add_argument("--keep", action="store_true", help="write figures.json and figures.png, which README shows")
    parser.add_argument("--control", help="congestion control of all, in a network of its own, such as reno (Linux)")
    parser.add_argument("--data", type=Path, help="where the servers keep their data (a temporary folder)")
    chosen = parser.parse_args()
    if chosen.quick:
        chosen.rounds, chosen.latency_seconds = 1, 2.0
        chosen.messages, chosen.warm = chosen.messages // 10, chosen.warm // 10
    chosen.only = chosen.only.split(",")
    unknown = set(chosen.only) - set(PARTS) or set(chosen.servers.split(",")) - set(SERVERS)
    if unknown:
        parser.error(f"not known: {', '.join(sorted(unknown))}")
    return chosen


def make_server(name: str, folder: Path) -> Server:
    folder.mkdir(parents=True)
    return SERVERS[name](folder)


def machine() -> dict[str, str]:
    model = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    return {
        "machine": f"{os.cpu_count()} cores, {model[0].partition(': ')[2] if model else platform.machine()}",
        "network": f"loopback ({CONTROL.read_text().strip()})" if CONTROL.exists() else "loopback",
        "versions": f"Python {platform.python_version()}, Apache Kafka {KAFKA_VERSION} (1 GiB heap)",
    }


def in_own_network(control: str) -> NoReturn:
    """All of it once more, in a network namespace whose loopback has this congestion control for everybody."""
    fetch_kafka()  # from there nothing can be fetched
    setting = f'ip link set lo up && echo "$0" > {CONTROL} && exec "$@"'
    unshare = ["unshare", "--net", *([] if os.geteuid() == 0 else ["--map-root-user"])]
    os.execvp("unshare", [*unshare, "sh", "-c", setting, control, sys.executable, "-m", "bench", *sys.argv[1:]])


def say(text: str) -> None:
    print(f"[{time.strftime('%H:%M:%S')}] {text}", file=sys.stderr, flush=True)


def warm(server: Server, messages: int) -> None:
    say(f"warming {server.name} with {messages:,} messages")
    pieces = max(1, messages // 5_000_000)
    for _ in range(pieces):
        workloads.produce_and_consume_100(server, Scale(messages // pieces))
    share = Scale(max(messages // 20, 10_000), latency_s=2.0)
    for work in (workloads.produce_and_consume_1k, workloads.small_requests, workloads.latency):
        work(server, share)


def one_round(chosen: argparse.Namespace, number: int, servers: list[Server], results: report.Results) -> None:
    scale = Scale(chosen.messages, chosen.latency_seconds)
    for way, seconds in floor.measure(servers[0].folder).items():
        results.floors.setdefault(way, []).append(seconds)
    for part in chosen.only:
        if part == "produce_all":
            results.sync_p50_ms.append(workloads.sync_p50_ms(servers[0].folder))
        for server in servers if number % 2 == 0 else reversed(servers):
            if not server.keeps and part not in WITHOUT_BROKER:
                continue
            say(f"round {number + 1} of {chosen.rounds}: {part}, {server.name}")
            if part in WORKLOADS:
                results.add(server.name, WORKLOADS[part](server, scale))
            elif part == "start":
                fresh = server.folder.parent / f"start-{server.name}-{number}"
                results.add(server.name, workloads.start(make_server(server.name, fresh)))
                results.add(server.name, workloads.memory_after(server))
            elif server.name == "headrace":
                results.add_growth(part, GROWTH_WORKLOADS[part](server, scale))


def measure(chosen: argparse.Namespace, folder: Path, results: report.Results) -> None:
    results.machine = machine()
    servers = [make_server(name, folder / name) for name in chosen.servers.split(",")]
    try:
        for server in servers:
            server.prepare()
            server.start()
            say(f"{server.name} serves at {server.address}, first ack after {server.first_ack_s:.2f} s")
        for server in servers:
            if chosen.warm and server.keeps:
                warm(server, chosen.warm)
        for number in range(chosen.rounds):
            one_round(chosen, number, servers, results)
    finally:
        for server in servers:
            server.stop()


def main() -> int:
    chosen = arguments()
    if chosen.control and chosen.control != CONTROL.read_text().strip():
        in_own_network(chosen.control)
    folder = Path(tempfile.mkdtemp(prefix="headrace-bench-", dir=chosen.data))
    results = report.Results()
    failure: Exception | None = None
    try:
        measure(chosen, folder, results)
    except (LoadError, ServerError, OSError) as error:
        failure = error
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if results.samples or results.growth:
        print(report.text_table(results))
        for path in report.write(results, RESULTS, "figures" if chosen.keep and not failure else "latest"):
            say(f"wrote {path.relative_to(ROOT)}")
    if failure:
        print(f"bench: {failure}", file=sys.stderr)
    return 1 if failure else 0


if __name__ == "__main__":
    sys.exit(main())
