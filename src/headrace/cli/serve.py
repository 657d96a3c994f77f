"""`headrace serve`: a node until it is told to stop.

Its flags come from the table of settings. They are read here, without the framework of the other commands: a node is
up before that would be imported.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import gc
import json
import os
import random
import resource
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from headrace.cli import exits, flags, systemd
from headrace.errors import DirectoryLocked, DirectoryUnusable, HeadraceError, StorageFailed
from headrace.log.files import OsFiles
from headrace.log.sync import SYNC_LANES
from headrace.node import host
from headrace.node.doors import cannot_listen
from headrace.node.logs import Logs
from headrace.node.node import Node
from headrace.node.real import RealClock, Threads
from headrace.node.settings import Address, Settings, load, settings_of
from headrace.records import kernel

RESERVED_FILES = 256  # of the descriptors that a process may have: sockets' listeners, the loop's own, standard streams
LOG_SHARE = 2  # one in so many of the rest is for segments; connections take the others,
HTTP_SHARE = 8  # and those over HTTP no more than one in so many
FILE_LIMITS = (1 << 20, 1 << 16, 10_240)  # tried where the highest limit is refused; the last is macOS's own
LEAST_FILES = 64  # for each, however few there are
SETTLED_S = 1.0  # after the first clients, who should not wait for it


def command(given: list[str]) -> int:
    """The command line after `serve`; the exit code."""
    if "-h" in given or "--help" in given:
        try:
            print(flags.help_text(), flush=True)
        except BrokenPipeError:
            return exits.end_quietly()
        return exits.OK
    named, problems = flags.parse(given)
    tree = load(named, os.environ)
    problems += tree.problems
    if problems:
        for line in (*tree.warnings, *problems):
            print(f"headrace: {line}", file=sys.stderr)
        print("  try: `headrace serve --help`, or `headrace config explain NAME`", file=sys.stderr)
        return exits.USAGE
    settings = settings_of(tree)
    try:
        _check_whose(settings.data)
        _check_ready_file(settings.ready_file)
        return serve(settings, tree.warnings)
    except StorageFailed as error:
        if isinstance(error.__cause__, OSError) and not os.path.isdir(settings.data):
            why = f"cannot make the data directory {settings.data}: {error.__cause__.strerror}"
            return exits.fail(DirectoryUnusable(why))
        return exits.fail(error)
    except HeadraceError as error:
        return exits.fail(error)


def serve(settings: Settings, warnings: Sequence[object] = ()) -> int:
    loop_factory = _loop_factory()
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        return runner.run(_serve(settings, warnings))


async def _serve(settings: Settings, warnings: Sequence[object]) -> int:
    logs = Logs(settings.log_format, settings.log_level, levels=settings.log_levels)
    for warning in warnings:
        logs.event("node.settings", {"why": str(warning)})
    if not settings.listen():
        logs.event("node.settings", {"why": "every door is off: nobody can connect"})
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: logs.event("node.fault", _fault(context)))
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _stop, stopped)
    if not kernel.NATIVE:
        logs.event("native.missing", {"why": kernel.REASON, "so": "the Python twins run: the same, slower"})
    readers, keepers, syncs = Threads(loop), Threads(loop), Threads(loop, SYNC_LANES)

    def end_background() -> None:
        for threads in (readers, keepers, syncs):
            threads.close()

    settings = msgspec.structs.replace(settings, data=os.path.abspath(settings.data))
    settings, open_files, connections = _share_files(settings, logs)
    node = Node(
        settings,
        files=OsFiles(),
        clock=RealClock(),
        background=readers,
        log_background=keepers,
        sync_background=syncs,
        end_background=end_background,
        chance=random.SystemRandom(),
        on_event=logs.event,
        open_files=open_files,
        connections=connections,
        disk_space=partial(host.disk_space, settings.data),
        loggers=logs,
    )
    if not _is_served(settings.data):
        _remove_ready_file(settings)  # of a life that ended without a word
    await _start(node, end_background)
    addresses = {name: str(address) for name, address in node.addresses.items()}
    try:
        _write_ready_file(settings, addresses)
        gc.enable()
        asyncio.get_running_loop().call_later(SETTLED_S, _settle)
        logs.event("node.serving", {"node_id": settings.node_id, "data": settings.data, **addresses})
        systemd.tell(systemd.READY)
        await stopped.wait()
        systemd.tell(systemd.STOPPING)
        logs.event("node.stopping", {})
    finally:
        if _pid_in(settings.ready_file) == os.getpid():  # else another node has the name
            _remove_ready_file(settings)
        await node.stop()
    logs.event("node.stopped", {})
    return 0


async def _start(node: Node, end_background: Callable[[], None]) -> None:
    settings = node.settings
    try:
        _check_first_start(settings)
        await node.start()
    except BaseException as error:
        end_background()
        if isinstance(error, DirectoryLocked):
            raise _held(error, settings.data) from None
        is_taken = isinstance(error.__cause__, OSError) and error.__cause__.errno == errno.EADDRINUSE
        if is_taken and (every := _taken(settings)):
            raise every from None
        raise


def _settle() -> None:
    """What exists now stays: the collector need not look at it again."""
    gc.collect()
    gc.freeze()


def _check_whose(data: str) -> None:
    """Whoever comes from another broker may well have named that one's folder: nothing of ours is left in it."""
    if not os.path.isdir(data) or os.path.exists(os.path.join(data, "format")):
        return
    from headrace.cli.importing import telling

    if stores := telling.kept_in(data):
        raise telling.unservable(stores, data)


def _held(error: DirectoryLocked, data: str) -> DirectoryLocked:
    """With the process that holds the directory, where the system tells."""
    from headrace.cli.doctor import processes

    pid = processes.lock_holder(os.path.join(data, "lock"))
    return error if pid is None else DirectoryLocked(f"{error}; it is held by {processes.name_of(pid)}")


def _check_first_start(settings: Settings) -> None:
    """Where nothing is yet, a start that cannot go well leaves nothing behind: the ports are tried before the data
    directory is made. Only whoever has the port counts; all else is said by the door itself."""
    if os.path.exists(settings.data):
        if not os.path.isdir(settings.data):
            raise DirectoryUnusable(f"{settings.data} cannot be a data directory: it is a file")
        return
    if error := _taken(settings):
        raise error


def _taken(settings: Settings) -> HeadraceError | None:
    """Every port that somebody has already: who starts a second node has to move them all, and is told so at once."""
    taken: dict[str, Address] = {}
    for name, at in settings.listen().items():
        if not at.port:
            continue
        try:
            _bind(at)
        except (OSError, TypeError, UnicodeError) as error:  # a name that is none is `listen`'s to tell of
            if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
                taken[name] = at
    if not taken:
        return None
    if len(taken) == 1:
        return cannot_listen(*taken.popitem(), OSError(errno.EADDRINUSE, ""))
    listed, first = ", ".join(f"{at} for {name}" for name, at in taken.items()), next(iter(taken))
    return HeadraceError(
        f"cannot listen on {listed}: {os.strerror(errno.EADDRINUSE)}; "
        f"--{first} HOST:PORT moves a door (port 0: any free one), --{first} off does without it"
    )


def _bind(at: Address) -> None:
    """For a moment; without listening there, which would keep a node from it that has bound the port as well and is
    about to listen."""
    with socket.socket(socket.AF_INET6 if ":" in at.host else socket.AF_INET) as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if tried.family == socket.AF_INET6:
            tried.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        tried.bind((at.host, at.port))


def _stop(stopped: asyncio.Event) -> None:
    if stopped.is_set():  # asked twice: somebody is in a hurry, and every acknowledged byte is where its level says
        os._exit(130)
    stopped.set()


def _loop_factory() -> type[asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.Loop


def _most_files() -> int:
    """How many may be open from now on. macOS says that there is no limit, and refuses to have none."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for wanted in (hard, *FILE_LIMITS):
        if soft < wanted <= hard:
            with contextlib.suppress(ValueError, OSError):
                resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
                return wanted
    return soft


def _share_files(settings: Settings, logs: Logs) -> tuple[Settings, int, int]:
    """Takes as many open files as the system lets us have: so many for the log, and connections of all doors together
    get no more than the rest, so that they never take the log's."""
    soft = _most_files()
    rest = soft - RESERVED_FILES
    for_log = max(LEAST_FILES, rest // LOG_SHARE)
    http = settings.http_limits
    http = msgspec.structs.replace(
        http, max_connections=min(http.max_connections, max(LEAST_FILES, rest // HTTP_SHARE))
    )
    for_connections = max(LEAST_FILES, rest - for_log)
    limits = settings.kafka_limits
    if limits.max_connections > for_connections:
        wanted = limits.max_connections
        logs.event("node.fewer-connections", {"max_connections": for_connections, "wanted": wanted, "open_files": soft})
        limits = msgspec.structs.replace(limits, max_connections=for_connections)
    return msgspec.structs.replace(settings, kafka_limits=limits, http_limits=http), for_log, for_connections


def _check_ready_file(ready_file: str | None) -> None:
    """What a start takes away is what a node wrote, or nobody yet (`mktemp`)."""
    if ready_file is None or not os.path.isfile(ready_file) or not os.path.getsize(ready_file):
        return
    if _pid_in(ready_file) is None:
        raise HeadraceError(f"--ready-file {ready_file} is there and no node wrote it: name another, or remove it")


def _write_ready_file(settings: Settings, addresses: dict[str, str]) -> None:
    if settings.ready_file is None:
        return
    ready = {"pid": os.getpid(), "node_id": settings.node_id, "addresses": addresses}
    new = f"{settings.ready_file}.{os.getpid()}"
    try:
        with open(new, "w") as file:
            file.write(json.dumps(ready) + "\n")
        os.replace(new, settings.ready_file)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.remove(new)
        why = f"cannot write --ready-file {settings.ready_file}: {error.strerror}"
        raise exits.Refusal(why, code=exits.STORAGE) from error


def _is_served(data: str) -> bool:
    """By another process, which holds its lock: this start is about to fail, and what is that one's stays."""
    try:
        handle = os.open(os.path.join(data, "lock"), os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def _pid_in(ready_file: str | None) -> int | None:
    try:
        with open(ready_file or "", "rb") as file:
            pid: int = json.load(file)["pid"]
    except (OSError, ValueError, LookupError, TypeError):
        return None
    return pid


def _remove_ready_file(settings: Settings) -> None:
    if settings.ready_file is not None and os.path.isfile(settings.ready_file):
        with contextlib.suppress(OSError):
            os.remove(settings.ready_file)


def _fault(context: dict[str, object]) -> dict[str, object]:
    error = context.get("exception")
    fields: dict[str, object] = {"message": context.get("message")}
    if isinstance(error, BaseException):
        fields["traceback"] = "".join(traceback.format_exception(error))
    return fields
