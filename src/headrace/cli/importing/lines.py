"""`<topic>.log` files of JSON lines, as the lines protocol's own broker kept them."""

from __future__ import annotations

import os
from collections.abc import Iterator

from headrace.cli import options
from headrace.cli.importing import telling
from headrace.cli.importing.sources import LOST, TORN, Damage, Position, chunks
from headrace.records.record import Record
from headrace.wire.lines import stored


class LinesSource:
    def __init__(self, folder: str) -> None:
        found = {
            topic: os.path.join(folder, name)
            for name in sorted(os.listdir(folder))
            if (topic := stored.topic_of(name)) is not None and os.path.isfile(os.path.join(folder, name))
        }
        self._files = {topic: path for topic, path in found.items() if not telling.is_binary_log(path)}
        if not self._files:
            raise telling.wrong(
                "lines", folder, "<topic>.log files of JSON lines", "name the folder that WIBER_DATA_DIR named"
            )
        if others := len(found) - len(self._files):
            options.note(f"{others} logs of a binary broker are left out: `headrace import binary` takes those.")

    def topics(self) -> dict[str, int]:
        return dict.fromkeys(self._files, 1)

    def read(self, topic: str, partition: int) -> Iterator[Record | Damage]:
        path = self._files[topic]
        for entry in stored.messages(chunks(path)):
            if isinstance(entry, stored.Fault):
                yield Damage(f"{path}:{entry.line}", entry.why, TORN if entry.is_cut else LOST)
            else:
                yield entry.record()

    def positions(self) -> list[Position]:
        return []  # that broker kept none

    def close(self) -> None:
        """Each file is open only while it is read."""
