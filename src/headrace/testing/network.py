"""The simulated network: hosts, paths between them with their delays, and all that can go wrong on the way.

Faults: `cut` a path in one direction (what was sent waits, as TCP does), `heal`, `reset` a connection from
the middle, `power_off` a host (its peers hear nothing: half-open), `drop` one end without a word. A
connection to a host that is off or cut off times out; to a port where nobody listens it is refused. Streams
themselves are in stream.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from typing import Any, TypeVarTuple, cast

from headrace.testing import process as processes
from headrace.testing.loop import SimulatedLoop
from headrace.testing.process import Process
from headrace.testing.stream import End, Pipe

Ts = TypeVarTuple("Ts")

# As a client's kernel: three repetitions of an unanswered SYN.
CONNECT_TIMEOUT_S = 7.0
FIRST_EPHEMERAL_PORT = 40_000
LOOPBACK = ("localhost", "127.0.0.1", "::1")
ANY_ADDRESS = ("", "0.0.0.0", "::")  # noqa: S104
# One connection in so many is cut into tiny pieces: often enough to split every frame somewhere, rare enough
# to stay quick.
CHOPPY_ONE_IN = 3


@dataclass(frozen=True)
class Link:
    """One direction of a path. Each piece draws its own delay, but never overtakes inside its stream."""

    latency_s_min: float = 0.000_1
    latency_s_max: float = 0.002
    bytes_per_s: float | None = None


SAME_HOST = Link(0.000_01, 0.000_1)


@dataclass
class Host:
    name: str
    up: bool = True
    listeners: dict[int, SimulatedServer] = field(default_factory=dict)
    next_port: int = FIRST_EPHEMERAL_PORT

    def ephemeral_port(self) -> int:
        self.next_port += 1
        return self.next_port


class Network:
    def __init__(self, loop: SimulatedLoop, link: Link | None = None) -> None:
        self.loop = loop
        loop.network = self
        self.random = loop.random_for("network")
        self.default_link = link or Link()
        self.links: dict[tuple[str, str], Link] = {}
        self.hosts: dict[str, Host] = {}
        self.ends: dict[End, None] = {}  # the living ones, in the order of their birth
        self._cuts: dict[tuple[str, str], None] = {}
        self._connections = 0
        self._pipes: dict[Pipe, None] = {}
        self._watched: dict[Process, None] = {}

    def host(self, name: str) -> Host:
        return self.hosts.setdefault(name, Host(name))

    # The world's side of things: nobody's process, so that no kill stops it

    def soon(self, callback: Callable[[*Ts], object], *args: *Ts) -> None:
        self.loop.call_soon(callback, *args, context=Context())

    def at(self, when: float, callback: Callable[[*Ts], object], *args: *Ts) -> asyncio.TimerHandle:
        return self.loop.call_at(when, callback, *args, context=Context())

    def after(self, delay_s: float, callback: Callable[[*Ts], object], *args: *Ts) -> asyncio.TimerHandle:
        return self.at(self.loop.time() + delay_s, callback, *args)

    def note(self, text: str) -> None:
        self.loop.trace.add("net", text)

    def passes(self, source: str, target: str) -> bool:
        return (source, target) not in self._cuts and self.host(source).up and self.host(target).up

    def arrival(self, source: str, target: str, size: int, not_before: float) -> float:
        link = self.links.get((source, target)) or (SAME_HOST if source == target else self.default_link)
        delay_s = self.random.uniform(link.latency_s_min, link.latency_s_max)
        transfer_s = size / link.bytes_per_s if link.bytes_per_s else 0.0
        return max(self.loop.time() + delay_s, not_before) + transfer_s

    # Faults

    def cut(self, source: str, target: str) -> None:
        self.note(f"cut {source}>{target}")
        self._cuts[source, target] = None

    def partition(self, one: str, other: str) -> None:
        self.cut(one, other)
        self.cut(other, one)

    def heal(self) -> None:
        self.note("heal")
        self._cuts.clear()
        self._resume()

    def reset(self, end: End) -> None:
        """Both sides get a reset, as from a middlebox that lost its table."""
        self.note(f"reset {end.out.name}")
        peer = end.out.target
        end.lose(ConnectionResetError("reset by the network"))
        peer.lose(ConnectionResetError("reset by the network"))

    def drop(self, end: End) -> None:
        """One side forgets the connection without telling the other."""
        self.note(f"drop {end.out.name}")
        end.lose(ConnectionResetError("dropped"))

    def power_off(self, name: str) -> None:
        """The host is gone; kill its processes before or after, their sockets say nothing."""
        self.note(f"power off {name}")
        self.host(name).up = False
        for end in [end for end in self.ends if end.host == name]:
            end.vanish(silently=True)

    def power_on(self, name: str) -> None:
        self.note(f"power on {name}")
        self.host(name).up = True
        self._resume()

    def _resume(self) -> None:
        for pipe in list(self._pipes):
            pipe.resume()

    def send_reset(self, end: End) -> None:
        """Not repeated when it is lost: the peer learns of it with its next bytes."""
        pipe = end.out
        pipe.last_arrival = self.arrival(end.host, pipe.target.host, 0, pipe.last_arrival)
        self.at(pipe.last_arrival, self._reset_arrives, pipe)

    def _reset_arrives(self, pipe: Pipe) -> None:
        if self.passes(pipe.source.host, pipe.target.host):
            pipe.target.lose(ConnectionResetError("reset by peer"))

    # Connections

    def listen(
        self, factory: Callable[[], asyncio.BaseProtocol], address: object, port: object, start_serving: bool = True
    ) -> SimulatedServer:
        process = self._current_process()
        host = self.host(process.host)
        number = int(cast(int, port or 0)) or host.ephemeral_port()
        if number in host.listeners:
            raise OSError(
                98,
                f"error while attempting to bind on address ({address!r}, {number}): address already in use",
            )
        server = SimulatedServer(self, process, factory, str(address or ""), number, start_serving)
        host.listeners[number] = server
        return server

    async def connect(
        self, factory: Callable[[], asyncio.BaseProtocol], address: object, port: object
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        process = self._current_process()
        target = process.host if address in LOOPBACK else str(address)
        answer: asyncio.Future[End] = self.loop.create_future()
        arrival = self.arrival(process.host, target, 0, 0.0)
        self.at(arrival, self._syn_arrives, process, copy_context(), target, int(cast(int, port)), answer)
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            end = await answer
        protocol = factory()
        end.connect(protocol)
        return end, protocol

    def _syn_arrives(
        self, client: Process, context: Context, target: str, port: int, answer: asyncio.Future[End]
    ) -> None:
        if not client.alive or not self.passes(client.host, target):
            return
        server = self.host(target).listeners.get(port)
        if server is None or not server.is_serving() or (server.loopback_only and client.host != target):
            back = self.arrival(target, client.host, 0, 0.0)
            refusal = ConnectionRefusedError(111, f"nobody listens on {target}:{port}")
            self.at(back, self._answer_arrives, target, client.host, answer, refusal)
            return
        near, far = self._new_connection(client, context, server)
        near.into.last_arrival = self.arrival(target, client.host, 0, 0.0)
        self.at(near.into.last_arrival, self._answer_arrives, target, client.host, answer, near)
        self.loop.call_soon(server.accept, far, context=far.context)

    def _answer_arrives(
        self, source: str, target: str, answer: asyncio.Future[End], result: End | ConnectionRefusedError
    ) -> None:
        if not self.passes(source, target):
            return  # the client will time out; the server's side stays half-open
        if isinstance(result, End):
            if answer.done():  # it gave up before: its kernel knows nothing of this connection
                result.lose(None)
                self.send_reset(result)
            else:
                answer.set_result(result)
        elif not answer.done():
            answer.set_exception(result)

    def _new_connection(self, client: Process, context: Context, server: SimulatedServer) -> tuple[End, End]:
        self._connections += 1
        name = f"c{self._connections}"
        choppy = self.random.randrange(CHOPPY_ONE_IN) == 0
        there = Pipe(self, f"{name} {client.name}>{server.process.name}", choppy)
        back = Pipe(self, f"{name} {server.process.name}>{client.name}", choppy)
        near_name = (client.host, self.host(client.host).ephemeral_port())
        far_name = (server.process.host, server.port)
        near = End(self, client, context, there, back, {"sockname": near_name, "peername": far_name, "socket": None})
        far = End(
            self, server.process, server.context.copy(), back, there,
            {"sockname": far_name, "peername": near_name, "socket": None},
        )  # fmt: skip
        far.server = server
        for end in (near, far):
            self.ends[end] = None
            self._pipes[end.out] = None
            self._watch(end.process)
        self.note(f"connect {there.name}")
        return near, far

    def forget(self, end: End) -> None:
        self.ends.pop(end, None)
        if end.out.target.gone:
            self._pipes.pop(end.out, None)
            self._pipes.pop(end.into, None)
        if end.server is not None:
            end.server.released(end)

    def _current_process(self) -> Process:
        process = processes.current()
        if process is None:
            raise RuntimeError("the network is used from outside of a simulated process: which host would that be?")
        self._watch(process)
        return process

    def _watch(self, process: Process) -> None:
        if process not in self._watched:
            self._watched[process] = None
            process.on_kill(lambda: self._process_died(process))

    def _process_died(self, process: Process) -> None:
        host = self.host(process.host)
        for server in [server for server in host.listeners.values() if server.process is process]:
            del host.listeners[server.port]
        for end in [end for end in self.ends if end.process is process]:
            end.vanish(silently=not host.up)


class SimulatedSocket:
    """As much of a socket as a server shows: its name."""

    def __init__(self, name: tuple[str, int]) -> None:
        self._name = name

    def getsockname(self) -> tuple[str, int]:
        return self._name


class SimulatedServer(asyncio.Server):
    def __init__(  # no socket is opened: asyncio's own initialiser has nothing to do
        self,
        network: Network,
        process: Process,
        factory: Callable[[], asyncio.BaseProtocol],
        address: str,
        port: int,
        is_serving: bool,
    ) -> None:
        self.network, self.process, self.port = network, process, port
        self._is_serving = is_serving
        self.context = copy_context()
        self.loopback_only = address in LOOPBACK
        self._factory = factory
        self._address = process.host if address in ANY_ADDRESS else address
        self._closed = False
        self._open: dict[End, None] = {}
        self._waiters: list[asyncio.Future[None]] = []

    def accept(self, end: End) -> None:
        if self._closed:
            self.network.send_reset(end)
            end.lose(None)
            return
        self._open[end] = None
        end.connect(self._factory())

    def released(self, end: End) -> None:
        self._open.pop(end, None)
        self._wake()

    def _wake(self) -> None:
        if self._closed and not self._open:
            waiters, self._waiters = self._waiters, []
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)

    @property
    def sockets(self) -> Any:
        return () if self._closed else (SimulatedSocket((self._address, self.port)),)

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self.network.loop

    def is_serving(self) -> bool:
        return self._is_serving and not self._closed

    async def start_serving(self) -> None:
        self._is_serving = True

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            listeners = self.network.host(self.process.host).listeners
            if listeners.get(self.port) is self:
                del listeners[self.port]
            self._wake()

    async def wait_closed(self) -> None:
        """Until every connection that it accepted has ended, as asyncio does since Python 3.12."""
        if self._closed and not self._open:
            return
        waiter: asyncio.Future[None] = self.network.loop.create_future()
        self._waiters.append(waiter)
        await waiter
