"""`<topic>_p<N>.log` and `.idx` files, as the binary protocol's own broker kept them."""

from __future__ import annotations

import os
from collections.abc import Iterator

from headrace.cli.importing import telling
from headrace.cli.importing.sources import LOST, NOTE, TORN, Damage, Position, chunks
from headrace.records.record import Record
from headrace.wire.binary import stored

MAX_INDEX_BYTES = 1 << 30  # of a quarter of a billion messages; without it reading only loses more to damage


class BinarySource:
    def __init__(self, folder: str) -> None:
        self._files = {
            place: os.path.join(folder, name)
            for name in sorted(os.listdir(folder))
            if (place := stored.topic_of(name)) is not None and os.path.isfile(os.path.join(folder, name))
        }
        if not self._files:
            raise telling.wrong("binary", folder, "<topic>_p<N>.log files", "name the folder that QB_DATA_DIR named")

    def topics(self) -> dict[str, int]:
        """As many partitions as the highest number says: those without a file were never written to."""
        found: dict[str, int] = {}
        for topic, partition in self._files:
            found[topic] = max(found.get(topic, 0), partition + 1)
        return found

    def read(self, topic: str, partition: int) -> Iterator[Record | Damage]:
        """A fault is known for what it is by what follows: the entry itself (then only the index disagreed), another
        entry, or nothing."""
        path = self._files.get((topic, partition))
        if path is None:
            return
        fault: stored.Fault | None = None
        for entry in stored.entries(chunks(path), _index(path)):
            if fault is not None:
                is_about_index = isinstance(entry, stored.Stored) and entry.position == fault.position
                yield _damage(path, fault, NOTE if is_about_index else LOST)
                fault = None
            if isinstance(entry, stored.Fault):
                fault = entry
            else:
                yield entry.record()
        if fault is not None:
            yield _damage(path, fault, TORN if fault.is_cut else LOST)

    def positions(self) -> list[Position]:
        return []  # that broker kept none

    def close(self) -> None:
        """Each file is open only while it is read."""


def _index(path: str) -> bytes | None:
    index = stored.index_of(path)
    if not os.path.isfile(index) or os.path.getsize(index) > MAX_INDEX_BYTES:
        return None
    with open(index, "rb") as file:
        return file.read()


def _damage(path: str, fault: stored.Fault, kind: str) -> Damage:
    return Damage(f"{path} at byte {fault.position}", fault.why, kind)
