"""`make bench`, the doors: fan-out beside NATS core, commands as the msgpack protocol's own load has them, and what
lines, binary and http do. `python -m bench.doors`.

One server is loaded at a time, in turns, as beside Kafka. CPU is the server's. A fan-out's ratio is deliveries per CPU
second; rates share this machine's cores with the load itself.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from bench import fanout, load_binary, load_http, load_lines, turns
from bench.__main__ import RESULTS, machine, say
from bench.nats import NATS_VERSION, Nats
from bench.servers import Headrace, Server, ServerError

VALUE_BYTES = 100
SUBSCRIBERS = 30
LATENCY = "one message at a time, 1,000/s: a record kept (acks=1), a message back at its publisher"
FAN_OUT, COMMANDS = "fan-out 1 x 30, 26 B values", "30 clients publish `true` to a-g"
MILLION = 1e6


class Goal(NamedTuple):
    text: str
    is_met: Callable[[float], bool]


GOALS = {
    (FAN_OUT, "M deliveries per CPU s"): Goal(">= 20x", lambda ratio: ratio >= 20),
    (COMMANDS, "M commands/s"): Goal("> 1.7", lambda value: value > 1.7),
    (LATENCY, "p50 ms"): Goal("< 1x", lambda ratio: ratio < 1),
}
Samples = dict[tuple[str, str], dict[str, list[float]]]  # (work, metric) -> server -> values


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.doors", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--messages", type=int, default=2_000_000, help="of a fan-out")
    parser.add_argument("--servers", default="headrace,nats", help="which of headrace, nats")
    parser.add_argument("--quick", action="store_true", help="a tenth of the work, one round: does it run at all?")
    parser.add_argument("--keep", action="store_true", help="write doors.json and doors.png, which README shows")
    given = parser.parse_args()
    if given.quick:
        given.rounds, given.messages = 1, given.messages // 10
    samples: Samples = {}
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
        servers: list[Server] = []
        try:
            for name in given.servers.split(","):
                home = Path(folder, name)
                home.mkdir()
                program = Path(sys.executable).parent / "headrace"
                servers.append(Headrace(home, program) if name == "headrace" else Nats(home))
                servers[-1].prepare()
                servers[-1].start()
            for number in range(given.rounds):
                for server in servers:
                    say(f"round {number + 1} of {given.rounds}: {server.name}")
                    for (work, metric), value in one_round(server, given.messages).items():
                        samples.setdefault((work, metric), {}).setdefault(server.name, []).append(value)
        finally:
            for server in servers:
                server.stop()
    print(text_table(samples))
    if given.keep:
        for path in write(samples, RESULTS):
            say(f"wrote {path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path}")


def one_round(server: Server, messages: int) -> dict[tuple[str, str], float]:
    assert server.process is not None
    pid = server.process.pid
    seconds = 5.0 if messages > 1_000_000 else 0.5
    if isinstance(server, Nats):
        seen = _fan_out(fanout.fan_out(server.address, pid, fanout.NATS, SUBSCRIBERS, max(messages // 20, 20_000)))
        return seen | _latency(turns.published(server.address, seconds))
    assert isinstance(server, Headrace)
    seen = _fan_out(fanout.fan_out(server.address_of("msgpack"), pid, fanout.MSGPACK, SUBSCRIBERS, messages))
    seen |= _latency(turns.produced(server.address_of("kafka"), "turns", seconds))
    commands = fanout.commands(server.address_of("msgpack"), pid, 30, max(0.5, 5.0 * messages / 2_000_000))
    seen[COMMANDS, "M commands/s"] = commands.commands_per_second / MILLION
    seen[COMMANDS, "server CPU s per M commands"] = commands.cpu_s / commands.messages * MILLION
    for door, load, share in (("lines", load_lines, 10), ("binary", load_binary, 10), ("http", load_http, 200)):
        count = max(1000, messages // share)
        work = f"{door}, {VALUE_BYTES} B"
        address = server.address_of(door)
        cpu = server.cpu_s()
        seen[work, "publish, M/s"] = count / load.publish_rate(address, count, VALUE_BYTES) / MILLION
        seen[work, "publish, server CPU s per M"] = (server.cpu_s() - cpu) / count * MILLION
        cpu = server.cpu_s()
        seen[work, "deliver, M/s"] = count / load.deliver_rate(address, count, VALUE_BYTES) / MILLION
        times = sorted(load.latency(address, 2.0 if messages > 1_000_000 else 0.5, 500))
        seen[work, "acknowledged (synced) after, p50 ms"] = statistics.median(times) * 1000
        seen[work, "p99 ms"] = times[int(len(times) * 0.99)] * 1000
    return seen


def _latency(times: list[float]) -> dict[tuple[str, str], float]:
    return {
        (LATENCY, "p50 ms"): statistics.median(times) * 1000,
        (LATENCY, "p99 ms"): times[int(len(times) * 0.99)] * 1000,
    }


def _fan_out(seen: fanout.Seen) -> dict[tuple[str, str], float]:
    return {
        (FAN_OUT, "M deliveries/s"): seen.per_second / MILLION,
        (FAN_OUT, "M deliveries per CPU s"): seen.per_cpu_second / MILLION,
    }


def lines_of(samples: Samples) -> list[tuple[str, ...]]:
    table: list[tuple[str, ...]] = [("work", "metric", "headrace", "NATS core", "ratio", "goal")]
    last = ""
    for (work, metric), by_server in samples.items():
        ours, theirs = by_server.get("headrace"), by_server.get("nats")
        ratio = statistics.median(ours) / statistics.median(theirs) if ours and theirs else None
        goal = GOALS.get((work, metric))
        judged = ratio if goal is not None and "x" in goal.text else statistics.median(ours) if ours else None
        verdict = f"{'PASS' if goal.is_met(judged) else 'short'} ({goal.text})" if goal and judged is not None else ""
        shown = "-" if ratio is None else f"{ratio:.1f}x"
        table.append((work if work != last else "", metric, _spread(ours), _spread(theirs), shown, verdict))
        last = work
    return table


def _spread(values: list[float] | None) -> str:
    if not values:
        return "-"
    middle = f"{statistics.median(values):.3g}"
    return middle if len(values) == 1 else f"{middle} ({min(values):.3g}-{max(values):.3g})"


def text_table(samples: Samples) -> str:
    table = lines_of(samples)
    widths = [max(len(line[column]) for line in table) for column in range(len(table[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in table)


def write(samples: Samples, folder: Path) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    data, picture = folder / "doors.json", folder / "doors.png"
    about = machine() | {"versions": f"Python {sys.version.split()[0]}, NATS {NATS_VERSION}"}
    kept: dict[str, Any] = {
        "machine": about,
        "table": lines_of(samples),
        "samples": [{"work": work, "metric": metric, **found} for (work, metric), found in samples.items()],
    }
    data.write_text(json.dumps(kept, indent=1) + "\n")
    plot(samples, picture)
    return [data, picture]


def plot(samples: Samples, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (fans, rates) = pyplot.subplots(1, 2, figsize=(11, 3.6), layout="constrained")
    by_server = samples.get((FAN_OUT, "M deliveries per CPU s"), {})
    names = list(by_server)
    fans.barh(names, [statistics.median(by_server[name]) for name in names], color=["#1f77b4", "#bbbbbb"][: len(names)])
    fans.set_title("fan-out 1 x 30: million deliveries per CPU second of the server", fontsize=9)
    found = {work: values["headrace"] for (work, metric), values in samples.items() if metric == "publish, M/s"}
    rates.barh(list(found), [statistics.median(values) for values in found.values()], color="#1f77b4")
    rates.set_title("published and synced, million messages a second, one client", fontsize=9)
    rates.set_xscale("log")
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


if __name__ == "__main__":
    try:
        main()
    except ServerError as error:
        sys.exit(str(error))
