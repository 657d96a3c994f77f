"""NATS core, the peer of at-most-once fan-out: built from its own source by version, kept in the user's cache, started
with its defaults."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

from bench.cache import kept
from bench.servers import START_LIMIT_S, Server, ServerError, free_ports

NATS_VERSION = "2.15.2"
NATS_MODULE = "github.com/nats-io/nats-server/v2"


class Nats(Server):
    def __init__(self, folder: Path) -> None:
        super().__init__("nats", folder)
        self._program = Path()

    def prepare(self) -> None:
        self._program = fetch_nats()
        (port,) = free_ports(1)
        self.address = f"127.0.0.1:{port}"

    def command(self) -> list[str]:
        host, _, port = self.address.rpartition(":")
        return [str(self._program), "-a", host, "-p", port]

    def is_up(self, address: str) -> bool:
        """It greets whoever connects."""
        host, _, port = address.rpartition(":")
        try:
            with socket.create_connection((host, int(port)), timeout=START_LIMIT_S) as to:
                return to.recv(4096).startswith(b"INFO ")
        except OSError:
            return False


def fetch_nats() -> Path:
    """The server's program; another one on the path will do, whatever its version, if there is no Go."""
    name = f"nats-{NATS_VERSION}"
    go, found = shutil.which("go"), shutil.which("nats-server")
    if go is None and found is not None:
        return Path(found)
    return kept(name, lambda folder: _build(go, folder)) / "nats-server"


def _build(go: str | None, folder: Path) -> None:
    if go is None:
        raise ServerError(
            "go is needed once, to build nats-server (or nats-server itself on the path: apt install nats-server)"
        )
    print(f"building NATS {NATS_VERSION} by go", flush=True)
    begin = time.monotonic()
    done = subprocess.run(
        [go, "install", f"{NATS_MODULE}@v{NATS_VERSION}"],
        env=os.environ | {"GOBIN": str(folder)},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise ServerError(f"go could not build NATS {NATS_VERSION}:\n{done.stderr[-2000:]}")
    print(f"built in {time.monotonic() - begin:.0f} s", flush=True)


def version(program: Path) -> str:
    done = subprocess.run([str(program), "--version"], capture_output=True, text=True, check=True)
    return done.stdout.partition(": v")[2].strip()
