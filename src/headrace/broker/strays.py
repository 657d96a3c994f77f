"""The folders that a start finds below `topics/` and that are no topic's.

What is left of a topic that was deleted goes: its deletion was cut short. Everything else stays where it is, and is
told of. That nobody knows records is no reason to remove them: it may be the metadata that was lost. Where the metadata
knows nothing at all, nobody is served: who began anew there would write beside what he should have found.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from headrace.broker.topic import folder_name
from headrace.errors import StorageFailed
from headrace.log.config import OnEvent
from headrace.log.writing import explain

if TYPE_CHECKING:
    from headrace.cluster.quorum import Quorum
    from headrace.log.store import LogStore

_OURS = re.compile(".*-[0-9a-f]{32}")
TOLD = 10  # names; how many there are is told, too


def settle(store: LogStore, quorum: Quorum, on_event: OnEvent) -> None:
    """Before anything new can be made. What goes, goes in the background."""
    image, parent = quorum.image, f"{store.root}/topics"
    known = {folder_name(topic.name, topic.topic_id) for topic in image.topics.values()}
    gone = {folder_name(name, topic_id) for topic_id, name in image.gone}
    try:
        strange = store.strange_folders(parent, known)
    except OSError as error:
        raise explain(error, f"reading {parent}") from error
    topics = list(filter(_OURS.fullmatch, strange))
    if topics and not quorum.index:
        raise StorageFailed(
            f"{parent} holds {len(topics)} topics ({_some(topics)}), and {store.root}/metadata knows of none: bring"
            " the metadata back, from a backup or from where it was moved, or start with another folder"
        )
    for name in strange:
        if name in gone:
            store.delete_folder(f"{parent}/{name}")
    left = [name for name in strange if name not in gone]
    if left:
        on_event("topic.stray", {"folder": parent, "count": len(left), "names": left[:TOLD]})


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
