"""The machine and the installation: versions, how many files a process may open, memory, ports.

Where a node runs on the data directory, its own limits count, not those of this shell: a service is given others.
"""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import socket
import sys
from collections.abc import Iterator

import headrace
from headrace.cli.doctor import processes
from headrace.cli.doctor.finding import Finding, failed, ok, unknown, warning
from headrace.cli.parsing import show_size
from headrace.node.settings import Address
from headrace.records import kernel

OLDEST_PYTHON = (3, 11)
LEAST_OPEN_FILES = 1024  # a node shares them out between segments and connections; below this both are starved
OWN_FILES = 256  # sockets that listen, the loop's own, standard streams
BASE_MEMORY_BYTES = 64 << 20  # a node without work
PRIVILEGED_PORT = 1024

PYTHON, PROGRAM, KERNELS = "python", "headrace", "native kernels"
FILES, MEMORY = "open files", "memory"


def versions() -> Iterator[Finding]:
    found, least = ".".join(map(str, sys.version_info[:3])), ".".join(map(str, OLDEST_PYTHON))
    if sys.version_info >= OLDEST_PYTHON:
        yield ok(PYTHON, f">= {least}", found)
    else:
        yield failed(PYTHON, f">= {least}", found, f"install headrace with Python {least} or newer")
    yield ok(PROGRAM, "any", headrace.__version__)
    yield native()


def native() -> Finding:
    required = f"version {kernel.API_VERSION}"
    if kernel.NATIVE:
        return ok(KERNELS, required, f"version {kernel.API_VERSION}")
    try:
        import headrace_native
    except ImportError:
        advice = "the same answers, more slowly: install headrace-native, or cargo and then headrace-native"
        return warning(KERNELS, required, "not installed: Python twins run", advice)
    if headrace_native.API_VERSION != kernel.API_VERSION:
        found = f"version {headrace_native.API_VERSION} (headrace-native {headrace_native.__version__})"
        return failed(KERNELS, required, found, f"{kernel.REASON}; until then Python twins run, more slowly")
    return warning(KERNELS, required, "switched off", f"{kernel.REASON}: unset it for speed")


def open_files(max_connections: int, node_pid: int | None) -> Finding:
    wanted = max(LEAST_OPEN_FILES, 2 * max_connections + OWN_FILES)  # as many again for segments
    required = f">= {LEAST_OPEN_FILES}, better {wanted}"
    limits = processes.open_file_limits(node_pid) if node_pid is not None else None
    whose = f"the node ({processes.name_of(node_pid)})" if limits and node_pid is not None else "this shell"
    _, hard = limits or resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY:
        return ok(FILES, required, f"no limit for {whose}")
    used = processes.open_files(node_pid) if limits and node_pid is not None else None
    found = f"{hard} for {whose}" + (f", {used} in use" if used is not None else "")
    advice = "raise it: `ulimit -Hn` in a shell, LimitNOFILE= in a service, --ulimit nofile= in a container"
    if hard < LEAST_OPEN_FILES:
        return failed(FILES, required, found, f"the limit of open files is low: {advice}")
    if used is not None and used > hard * 0.9:
        return failed(FILES, required, found, f"nearly all open files are in use: {advice}")
    if hard < wanted:
        return warning(FILES, required, found, f"fewer connections than --max-connections fit: {advice}")
    return ok(FILES, required, found)


def memory(budget_bytes: int) -> Finding:
    wanted = budget_bytes + BASE_MEMORY_BYTES
    required = f">= {show_size(wanted)}"
    total = _memory_bytes()
    if total is None:
        return unknown(MEMORY, required, "this system does not say")
    if total < wanted:
        lower = "--request-memory-bytes, --unsent-bytes or --tail-memory-bytes"
        advice = f"under full load the system would end the node: lower {lower}"
        return warning(MEMORY, required, show_size(total), advice)
    return ok(MEMORY, required, show_size(total))


def port(door: str, address: Address, node_pid: int | None) -> Finding:
    """Can a node listen here; and if not, who keeps it from that."""
    condition, required = f"{door} port {address}", "free, or this node's"
    flag = f"--{door} HOST:PORT"
    try:
        family, kind, _, _, at = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except socket.gaierror as error:
        advice = f"the name is not known here (DNS, /etc/hosts): mend it, or listen elsewhere with {flag}"
        return failed(condition, required, f"{address.host} does not resolve: {error.strerror}", advice)
    with contextlib.closing(socket.socket(family, kind)) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind(at)
        except OSError as error:
            return _not_bound(condition, required, error, address, str(at[0]), node_pid, flag)
    return ok(condition, required, "free")


def elsewhere(door: str, address: Address, node_pid: int, places: list[str]) -> Finding:
    """The node runs and does not listen here, so whoever does is not its business, and not ours."""
    where = ", ".join(places) or "no port"
    advice = f"name its own with --{door} HOST:PORT, or off if it has none, and it is looked at too"
    found = f"{processes.name_of(node_pid)} listens at {where}"
    return unknown(f"{door} port {address}", "this node's", found, advice)


def _not_bound(
    condition: str, required: str, error: OSError, address: Address, host: str, node_pid: int | None, flag: str
) -> Finding:
    if error.errno == errno.EADDRINUSE:
        pid = processes.listener(address.port, host) or processes.listener(address.port)
        if pid is not None and pid == node_pid:
            return ok(condition, required, f"this node's ({processes.name_of(pid)})")
        if pid is None and node_pid is not None:
            return unknown(condition, required, "taken, perhaps by this node: not visible to this user")
        taken_by = processes.name_of(pid) if pid is not None else "a process that is not visible to this user"
        advice = f"stop it, or listen elsewhere with {flag}"
        if pid is not None and processes.is_node(pid):
            advice = f"that is a node with another data folder: name its own with --data to look at it; else {advice}"
        return failed(condition, required, f"taken by {taken_by}", advice)
    if error.errno == errno.EADDRNOTAVAIL:
        advice = f"no interface of this machine has that address: `ip address` lists them; change {flag}"
        return failed(condition, required, f"{address.host} is not an address of this machine", advice)
    if error.errno in (errno.EACCES, errno.EPERM):
        advice = f"ports below {PRIVILEGED_PORT} belong to root: take a higher one with {flag}"
        return failed(condition, required, "not allowed for this user", advice)
    return failed(condition, required, error.strerror or str(error), f"listen elsewhere with {flag}")


def _memory_bytes() -> int | None:
    """What the machine has, or the control group lets us have."""
    try:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return None
    with contextlib.suppress(OSError, ValueError), open("/sys/fs/cgroup/memory.max") as file:
        total = min(total, int(file.read()))
    return total
