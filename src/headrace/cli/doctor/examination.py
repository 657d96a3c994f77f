"""The order of the doctor's questions, the table of what was found, and the exit code.

Local questions are about a data directory and the machine under it, with the settings that `headrace serve` would
read; remote ones about a server, as clients meet it. `--data` asks the local ones, `--server` the remote ones, neither
or both asks all.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from headrace.cli import exits, options
from headrace.cli.doctor import data as data_directory
from headrace.cli.doctor import disk, machine, processes, readiness
from headrace.cli.doctor.cluster import Cluster
from headrace.cli.doctor.finding import Finding, failed, ok, unknown, warning
from headrace.cli.options import Options
from headrace.cli.output import Column, printable, show
from headrace.node import settings as node_settings
from headrace.node.settings import Address, Settings

TIMEOUT_S = 5.0  # for each connection and answer, unless --timeout says otherwise: nobody waits half a minute for a no
LONGEST_CELL = 72  # characters; JSON and `wide` have it whole

COLUMNS = (
    Column("condition"),
    Column("required", show=lambda text: _cut(text)),
    Column("found", show=lambda text: _cut(text)),
    Column("result", show=lambda text: text.upper() if text == "failed" else text),
)
WIDE = (Column("condition"), Column("required"), Column("found"), Column("result"), Column("advice"))


def command(
    data: Annotated[
        str | None, typer.Option(metavar="DIR", help="look at this data directory and this machine")
    ] = None,
    config: Annotated[
        str | None, typer.Option(metavar="FILE", help="settings of the node, as `serve` takes them")
    ] = None,
    kafka: Annotated[str | None, typer.Option(metavar="HOST:PORT", help="where the node is to listen")] = None,
    http: Annotated[str | None, typer.Option(metavar="HOST:PORT", help="its http door")] = None,
    binary: Annotated[str | None, typer.Option(metavar="HOST:PORT", help="its binary door")] = None,
    lines: Annotated[str | None, typer.Option(metavar="HOST:PORT", help="its lines door")] = None,
    json: Annotated[str | None, typer.Option(metavar="HOST:PORT", help="its json door")] = None,
    msgpack: Annotated[str | None, typer.Option(metavar="HOST:PORT", help="its msgpack door")] = None,
) -> int:
    """Look for what is wrong, here and on the server.

    Prints one line for each condition, and what to do about those that fail. The exit code is 8 if one fails.
    With --data only this machine is looked at, with --server only the server, otherwise both.

    Examples:
      headrace doctor
      headrace doctor --data /var/lib/headrace
      headrace doctor --server broker.example:9092 -o json
    """
    asked = options.current()
    asks_server = options.is_given("server") or options.is_given("context")
    servers = asked.servers if asked.server_from != "default" else []
    findings: list[Finding] = []
    if data is not None or not asks_server:
        doors = {"kafka": kafka, "http": http, "binary": binary, "lines": lines, "json": json, "msgpack": msgpack}
        flags = {"data": data, "config": config, **doors}
        found, node_here = _local(flags, _timeout_s(asked))
        findings += found
        servers = servers or node_here
    if asks_server or data is None:
        findings += Cluster(servers, _timeout_s(asked)).check() if servers else [_no_server()]
    _show(findings, asked)
    return exits.CHECK_FAILED if any(finding.result == "failed" for finding in findings) else exits.OK


def _local(flags: dict[str, str | None], timeout_s: float) -> tuple[list[Finding], list[str]]:
    """And where the node that runs on this directory listens for Kafka clients, if there is one."""
    findings = list(machine.versions())
    tree = node_settings.load({name: value for name, value in flags.items() if value}, os.environ)
    findings.append(_settings(tree))
    if tree.problems:
        return findings, []
    settings = node_settings.settings_of(tree)
    pid = data_directory.serving_pid(settings.data)
    findings += data_directory.check(settings.data)
    findings += disk.check(settings.data)
    findings.append(machine.open_files(settings.kafka_limits.max_connections, pid))
    findings.append(machine.memory(_memory_budget(settings)))
    doors = {door: address for door, address in settings.listen().items() if address.port}
    places = processes.listens_at(pid) if pid is not None else None
    for door, address in list(doors.items()):
        if pid is not None and places is not None and not any(at.endswith(f":{address.port}") for at in places):
            findings.append(machine.elsewhere(door, address, pid, places))
            del doors[door]  # another's, if anybody's: what it would say is not about this node
        else:
            findings.append(machine.port(door, address, pid))
    if pid is not None and places is None:  # no telling whose they are, unless somebody says so
        doors = {door: address for door, address in doors.items() if flags.get(door)}
    if pid is not None and "http" in doors:
        findings.append(readiness.check(_reached(doors["http"]), timeout_s))
    return findings, [_reached(doors["kafka"])] if pid is not None and "kafka" in doors else []


def _settings(tree: node_settings.Tree) -> Finding:
    required = "all understood"
    if tree.problems:
        advice = "`headrace config explain KEY` says what a setting takes"
        return failed("settings", required, "; ".join(map(str, tree.problems)), advice)
    if tree.warnings:
        return warning("settings", required, "; ".join(map(str, tree.warnings)), "mend the name, or unset it")
    return ok("settings", required, "yes")


def _no_server() -> Finding:
    advice = "`headrace serve` starts one; --server HOST:PORT looks at another"
    return unknown("server", "a node that runs", "none on this data directory, and no other was named", advice)


def _reached(address: Address) -> str:
    """Who listens everywhere is reached at home."""
    return str(Address("127.0.0.1", address.port) if address.host in ("0.0.0.0", "::") else address)  # noqa: S104


def _memory_budget(settings: Settings) -> int:
    limits = settings.kafka_limits
    return settings.tail_memory_bytes + limits.request_memory_bytes + limits.unsent_bytes


def _timeout_s(asked: Options) -> float:
    return asked.timeout_s if options.is_given("timeout") else TIMEOUT_S


def _show(findings: list[Finding], asked: Options) -> None:
    form = asked.output_or()
    show(findings, WIDE if form in ("wide", "csv") else COLUMNS, asked)
    if form != "table":
        return
    sick = [finding for finding in findings if finding.advice]
    for finding in sick:
        print(f"\n{finding.condition}: {printable(finding.found)}\n  try: {printable(finding.advice)}")
    counts = ", ".join(
        f"{count} {result}"
        for result in ("failed", "warning", "unknown", "ok")
        if (count := sum(finding.result == result for finding in findings))
    )
    sys.stdout.flush()
    options.note(f"\n{counts}")


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_CELL else text[: LONGEST_CELL - 1] + "…"
