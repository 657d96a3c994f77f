"""What the kernel tells about processes: who listens at a port, who holds a lock, how many files one may open.

Read from /proc, so Linux alone knows; elsewhere, and for other people's processes, the answer is None and the doctor
says where to look.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import struct
from collections.abc import Iterator

_TCP_LISTEN = "0A"
_LONGEST_COMMAND = 32  # characters that a line of a table has room for


def name_of(pid: int) -> str:
    """`pid 812 (headrace serve --data d)`; of an interpreted program the program, not the interpreter."""
    words = _command(pid)
    command = " ".join([os.path.basename(words[0]), *words[1:]]) if words else ""
    if len(command) > _LONGEST_COMMAND:
        command = command[: _LONGEST_COMMAND - 1] + "…"
    return f"pid {pid} ({command})" if command else f"pid {pid}"


def is_node(pid: int) -> bool:
    """Of what listens: nothing else of ours does."""
    return any(os.path.basename(word).partition(".")[0] == "headrace" for word in _command(pid)[:1])


def _command(pid: int) -> list[str]:
    words: list[str] = []
    with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
        words = [os.fsdecode(word) for word in file.read().split(b"\0") if word]
    if len(words) > 1 and os.path.basename(words[0]).startswith("python"):
        words = words[2:] if words[1] == "-m" else words[1:]
    return words


def lock_holder(path: str) -> int | None:
    """Who holds the flock on this file. Asked without taking it: a node that starts now must not stumble over us."""
    try:
        wanted = os.stat(path)
        with open("/proc/locks") as file:
            lines = file.read().splitlines()
    except OSError:
        return None
    device = (os.major(wanted.st_dev), os.minor(wanted.st_dev))
    for line in lines:
        words = line.split()
        if "FLOCK" in words and "->" not in words:  # an arrow: it waits for the lock
            pid, place = next((int(a), b) for a, b in itertools.pairwise(words) if b.count(":") == 2)
            major, minor, inode = place.split(":")
            if int(inode) == wanted.st_ino and (int(major, 16), int(minor, 16)) == device:
                return pid
    return None


def can_tell_locks() -> bool:
    return os.path.exists("/proc/locks")


def listener(port: int, address: str | None = None) -> int | None:
    """The process that listens at this port; where the address is given, at it or at all addresses."""
    inodes = {inode for inode, at in _listening(port) if address is None or _covers(at, address)}
    if not inodes:
        return None
    wanted = {f"socket:[{inode}]" for inode in inodes}
    for entry in os.listdir("/proc"):
        if entry.isdecimal() and wanted & set(_links(f"/proc/{entry}/fd")):
            return int(entry)
    return None


def listens_at(pid: int) -> list[str] | None:
    """Every HOST:PORT where the process listens; None where that is not ours to look at."""
    links = set(_links(f"/proc/{pid}/fd"))
    if not links:
        return None
    return sorted(
        f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        for inode, host, port in _sockets()
        if f"socket:[{inode}]" in links
    )


def open_file_limits(pid: int) -> tuple[int, int] | None:
    """Soft and hard."""
    with contextlib.suppress(OSError, ValueError), open(f"/proc/{pid}/limits") as file:
        for line in file:
            if line.startswith("Max open files"):
                soft, hard = line.split()[3:5]
                return int(soft), int(hard)
    return None


def open_files(pid: int) -> int | None:
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return None


def _links(folder: str) -> Iterator[str]:
    try:
        entries = os.listdir(folder)
    except OSError:  # it has ended, or is not ours to look at
        return
    for entry in entries:
        with contextlib.suppress(OSError):
            yield os.readlink(f"{folder}/{entry}")


def _listening(port: int) -> Iterator[tuple[str, str]]:
    """Inode and local address of each socket that listens at the port."""
    return ((inode, host) for inode, host, its_port in _sockets() if its_port == port)


def _sockets() -> Iterator[tuple[str, str, int]]:
    """Inode, local address and port of each socket that listens."""
    for name, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        with contextlib.suppress(OSError), open(f"/proc/net/{name}") as file:
            for line in file.read().splitlines()[1:]:
                words = line.split()
                host, _, its_port = words[1].partition(":")
                if words[3] == _TCP_LISTEN:
                    yield words[9], _address(family, host), int(its_port, 16)


def _address(family: int, text: str) -> str:
    """The kernel writes 32-bit words in its own byte order."""
    words = [int(text[at : at + 8], 16) for at in range(0, len(text), 8)]
    return socket.inet_ntop(family, struct.pack(f"={len(words)}I", *words))


def _covers(listening_at: str, address: str) -> bool:
    return listening_at in (address, f"::ffff:{address}", "0.0.0.0", "::")  # noqa: S104 (compared, not bound)
