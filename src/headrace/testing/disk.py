"""A disk that forgets: the Files port in memory, with all that a real one may do to us.

Each file has what programs see and what the platter holds. A write changes the first; `datasync` copies the
pages that are dirty to the second. Names work the same way: a directory's changes are pending until
`sync_directory`. So:

- `crash` ends the process: handles and locks die, everything that was written stays;
- `power_loss` keeps of each dirty page and each pending change the old or the new, or tears the page, by the
  seed (or all of them, or none);
- a failed sync (`fail_syncs`) calls its pages clean though the platter never got them, as Linux does: a later
  sync that succeeds does not bring them back, only a new write does. What programs read of them from then on is the new
  or, by the seed and the share in `forgets`, the old;
- `spoil` makes pages unreadable for good, until they are written again: a read ends in front of them, and one that
  begins in them fails;
- `fill`, `fail_reads`, `fail_writes`, `flip_bit`, short writes and reads that would wait do what their names
  say;
- `stop_at` pulls the plug in front of the n-th change, in the middle of it when it is a write. From then on
  every call raises PowerLoss until `power_loss` or `crash` starts the next life.

All chance comes from the seed, and `trace` lists every change, so that two runs can be compared.
"""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Sequence

from headrace.ports import Buffer
from headrace.testing.platter import PAGE_BYTES, Directory, File, Keep, apply

UNLIMITED = 1 << 62


class PowerLoss(BaseException):
    """The machine is off: nothing that a program could handle."""


class SimulatedDisk:
    def __init__(self, seed: int = 0, *, short_writes: float = 0.0, waits: float = 0.0, forgets: float = 0.0) -> None:
        self._chance = random.Random(seed)
        self._root = Directory()
        self._changes: list[tuple[Directory, str, str, str, File | Directory]] = []
        self._handles: dict[int, tuple[File, str]] = {}
        self._locks: dict[int, str] = {}
        self._next_handle = 3
        self._short_writes, self._waits = short_writes, waits
        self.forgets = forgets  # the share of the pages
        self._free_bytes = UNLIMITED
        self._failing: dict[str, list[tuple[str, int]]] = {"sync": [], "read": [], "write": []}
        self._stop_at = -1
        self.is_off = False
        self.changes = 0  # how often something was asked to change
        self.bytes_read = 0
        self.trace: list[str] = []

    # Faults

    def crash(self) -> None:
        """The process is killed; the machine goes on."""
        self._new_life("crash")

    def power_loss(self, keep: Keep = "some") -> None:
        self._new_life(f"power loss, keeping {keep}")
        for directory, what, name, new, node in self._changes:
            if keep == "all" or (keep == "some" and self._chance.random() < 0.5):
                apply(directory.durable, what, name, new, node)
        self._changes.clear()
        self._lose(self._root, keep, set())

    def stop_at(self, change: int) -> None:
        """The power goes when the `change`-th change from the disk's first is asked for."""
        self._stop_at = change

    def fill(self, free_bytes: int = 0) -> None:
        self._free_bytes = free_bytes

    def empty(self) -> None:
        self._free_bytes = UNLIMITED

    @property
    def free_bytes(self) -> int:
        return self._free_bytes

    def fail_syncs(self, count: int = 1, path: str = "") -> None:
        """The next `count` syncs of files whose path contains `path`."""
        self._failing["sync"].append((path, count))

    def fail_reads(self, count: int = 1, path: str = "") -> None:
        self._failing["read"].append((path, count))

    def fail_writes(self, count: int = 1, path: str = "") -> None:
        self._failing["write"].append((path, count))

    def mend(self) -> None:
        """Whatever was to fail and has not yet will not."""
        for faults in self._failing.values():
            faults.clear()

    def flip_bit(self, path: str, position: int, bit: int = 0) -> None:
        """On the platter and, as after a restart, in memory."""
        file = self._file(path)
        for data in (file.data, file.durable):
            if position < len(data):
                data[position] ^= 1 << bit

    def spoil(self, path: str, position: int, size: int = 1) -> None:
        """The pages that hold these bytes do not read any more."""
        self._file(path).bad.update(range(position // PAGE_BYTES, (position + size - 1) // PAGE_BYTES + 1))

    def tear(self, path: str, size: int) -> None:
        """Bytes that were there are not any more."""
        file = self._file(path)
        for data in (file.data, file.durable):
            del data[size:]

    def contents(self, path: str) -> bytes:
        return bytes(self._file(path).data)

    # The Files port

    def open(self, path: str, *, create: bool = False) -> int:
        self._check_on()
        directory, name = self._place(path)
        node = directory.entries.get(name)
        if isinstance(node, Directory):
            raise IsADirectoryError(errno.EISDIR, "is a directory", path)
        if node is None:
            if not create:
                raise FileNotFoundError(errno.ENOENT, "no such file", path)
            self._change(f"create {path}")
            node = File()
            self._link(directory, name, node)
        return self._new_handle(node, path)

    def close(self, handle: int) -> None:
        self._check_on()
        if self._handles.pop(handle, None) is None and self._locks.pop(handle, None) is None:
            raise OSError(errno.EBADF, "handle is not open")

    def pwritev(self, handle: int, buffers: Sequence[Buffer], position: int) -> int:
        self._check_on()
        file, path = self._open_file(handle)
        data = b"".join(buffers)
        try:
            self._change(f"write {path} {position} {len(data)}")
        except PowerLoss:
            file.write(data[: self._chance.randint(0, len(data))], position)
            raise
        self._maybe_fail("write", path)
        growth = max(0, position + len(data) - len(file.data))
        if growth > self._free_bytes:
            data = data[: len(data) - (growth - self._free_bytes)]
            if not data:
                raise OSError(errno.ENOSPC, "no space left", path)
        if self._short_writes and len(data) > 1 and self._chance.random() < self._short_writes:
            data = data[: self._chance.randint(1, len(data) - 1)]
        self._free_bytes -= max(0, position + len(data) - len(file.data))
        file.write(data, position)
        return len(data)

    def pread(self, handle: int, size: int, position: int) -> bytes:
        self._check_on()
        file, path = self._open_file(handle)
        self._maybe_fail("read", path)
        if size < 0 or position < 0:
            raise OSError(errno.EINVAL, "a size or position below zero", path)
        end = min(position + size, file.readable_up_to(position))
        if end <= position < min(position + size, len(file.data)):
            raise OSError(errno.EIO, "the sector does not read", path)
        data = bytes(file.data[position:end])
        self.bytes_read += len(data)
        return data

    def pread_nowait(self, handle: int, size: int, position: int) -> bytes | None:
        if self._waits and self._chance.random() < self._waits:
            return None
        data = self.pread(handle, size, position)
        if self._waits and self._chance.random() < self._waits:
            data = data[: self._chance.randint(0, len(data))]
        return data

    def is_resident(self, handle: int, size: int, position: int) -> bool:
        return False  # no operating system could send from here

    def pour(self, handle: int, pipe: int, size: int, position: int) -> int:
        raise OSError(errno.EOPNOTSUPP, "nothing here is resident")

    def datasync(self, handle: int) -> None:
        self._check_on()
        file, path = self._open_file(handle)
        self._change(f"sync {path}")
        try:
            self._maybe_fail("sync", path)
        except OSError:
            file.forget(self.forgets, self._chance)
            raise
        file.sync()

    def truncate(self, handle: int, size: int) -> None:
        self._check_on()
        file, path = self._open_file(handle)
        self._change(f"truncate {path} {size}")
        self._free_bytes += len(file.data) - size
        file.resize(size)

    def reserve(self, handle: int, position: int, size: int) -> bool:
        """Room costs nothing here, and promises nothing."""
        self._check_on()
        file, _ = self._open_file(handle)
        assert position + size > len(file.data), "room is asked for past the end"
        return self._free_bytes >= size

    def release(self, handle: int, size: int) -> None:
        self._check_on()
        self._open_file(handle)

    def size(self, handle: int) -> int:
        self._check_on()
        return len(self._open_file(handle)[0].data)

    def rename(self, old: str, new: str) -> None:
        self._check_on()
        directory, name = self._place(old)
        other, new_name = self._place(new)
        assert directory is other, "we only rename within a directory"
        if name not in directory.entries:
            raise FileNotFoundError(errno.ENOENT, "no such file", old)
        self._change(f"rename {old} {new_name}")
        node = directory.entries[name]
        apply(directory.entries, "rename", name, new_name, node)
        self._changes.append((directory, "rename", name, new_name, node))

    def remove(self, path: str) -> None:
        self._check_on()
        directory, name = self._place(path)
        node = directory.entries.get(name)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        if isinstance(node, Directory):
            raise IsADirectoryError(errno.EISDIR, "is a directory", path)
        self._change(f"remove {path}")
        self._free_bytes += len(node.data)
        self._unlink(directory, name, node)

    def remove_directory(self, path: str) -> None:
        self._check_on()
        directory, name = self._place(path)
        node = self._directory(path)
        if node.entries:
            raise OSError(errno.ENOTEMPTY, "directory is not empty", path)
        self._change(f"remove {path}")
        self._unlink(directory, name, node)

    def make_directory(self, path: str) -> None:
        self._check_on()
        node = self._root
        for name in _parts(path):
            inner = node.entries.get(name)
            if inner is None:
                self._change(f"directory {path}")
                inner = Directory()
                self._link(node, name, inner)
            if not isinstance(inner, Directory):
                raise NotADirectoryError(errno.ENOTDIR, "not a directory", path)
            node = inner

    def sync_directory(self, path: str) -> None:
        self._check_on()
        directory = self._directory(path)
        self._change(f"sync {path}")
        self._maybe_fail("sync", path)
        directory.durable = dict(directory.entries)
        self._changes = [change for change in self._changes if change[0] is not directory]

    def list(self, path: str) -> list[str]:
        self._check_on()
        return sorted(self._directory(path).entries)

    def exists(self, path: str) -> bool:
        self._check_on()
        try:
            directory, name = self._place(path)
        except OSError:
            return False
        return name in directory.entries

    def lock(self, path: str) -> int:
        self._check_on()
        if path in self._locks.values():
            raise BlockingIOError(errno.EAGAIN, "locked", path)
        self.close(self.open(path, create=True))
        self._next_handle += 1
        self._locks[self._next_handle] = path
        return self._next_handle

    def holds(self, lock: int, path: str) -> bool:
        return self._locks.get(lock) == path and self.exists(path)

    # Inside

    def _new_life(self, how: str) -> None:
        self.trace.append(how)
        self.is_off, self._stop_at = False, -1
        self._handles.clear()
        self._locks.clear()
        self.mend()

    def _lose(self, directory: Directory, keep: Keep, seen: set[int]) -> None:
        directory.entries = dict(directory.durable)
        for _, node in sorted(directory.entries.items()):
            if isinstance(node, Directory):
                self._lose(node, keep, seen)
            elif id(node) not in seen:
                seen.add(id(node))
                node.lose(keep, self._chance)

    def _check_on(self) -> None:
        if self.is_off:
            raise PowerLoss("the machine is off")

    def _change(self, text: str) -> None:
        self.changes += 1
        if self.changes == self._stop_at:
            self.is_off = True
            raise PowerLoss(f"before change {self.changes}: {text}")
        self.trace.append(text)

    def _maybe_fail(self, kind: str, path: str) -> None:
        faults = self._failing[kind]
        for place, (part, count) in enumerate(faults):
            if part in path:
                faults[place : place + 1] = [(part, count - 1)] if count > 1 else []
                self.trace.append(f"failed {kind} {path}")
                raise OSError(errno.EIO, f"the {kind} failed", path)

    def _new_handle(self, file: File, path: str) -> int:
        self._next_handle += 1
        self._handles[self._next_handle] = file, path
        return self._next_handle

    def _open_file(self, handle: int) -> tuple[File, str]:
        if handle not in self._handles:
            raise OSError(errno.EBADF, "handle is not open")
        return self._handles[handle]

    def _link(self, directory: Directory, name: str, node: File | Directory) -> None:
        directory.entries[name] = node
        self._changes.append((directory, "link", name, "", node))

    def _unlink(self, directory: Directory, name: str, node: File | Directory) -> None:
        del directory.entries[name]
        self._changes.append((directory, "unlink", name, "", node))

    def _place(self, path: str) -> tuple[Directory, str]:
        return self._directory(os.path.dirname(path)), os.path.basename(path)

    def _directory(self, path: str) -> Directory:
        node: File | Directory | None = self._root
        for name in _parts(path):
            if not isinstance(node, Directory):
                raise NotADirectoryError(errno.ENOTDIR, "not a directory", path)
            node = node.entries.get(name)
            if node is None:
                raise FileNotFoundError(errno.ENOENT, "no such directory", path)
        if not isinstance(node, Directory):
            raise NotADirectoryError(errno.ENOTDIR, "not a directory", path)
        return node

    def _file(self, path: str) -> File:
        directory, name = self._place(path)
        node = directory.entries[name]
        assert isinstance(node, File)
        return node


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part]
