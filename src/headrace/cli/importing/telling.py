"""Whose folder is it? Whoever names the wrong kind of store, or the wrong folder, is told which it is."""

from __future__ import annotations

import os

from headrace.cli.exits import Refusal, not_found, usage
from headrace.cli.importing.sources import STORES
from headrace.wire.binary import stored as binary
from headrace.wire.lines import stored as lines

DATABASE = "pubsub.sqlite"
_LENGTH_AT = b"\0"  # how a binary log begins: with the length of an entry, which is under 16 MiB, in four bytes


def missing(store: str, place: str | None) -> Refusal:
    """For a place that is no folder at all, or not named."""
    if place is None:
        return usage(f"`import {store}` reads a folder", f"headrace import {store} DIR")
    if os.path.exists(place):
        return not_found(
            f"{place} is no folder, and `import {store}` reads the folder in which that broker kept its data",
            f"name the folder; or --format, for the rows of a file that go to a topic called {store}",
        )
    return not_found(f"there is no {place}", f"name the folder in which a {store} broker kept its data")


def wrong(store: str, folder: str, wanted: str, else_try: str) -> Refusal:
    """For a folder that holds nothing of that store's."""
    others = [other for other in stores_in(folder) if other != store]
    if not others:
        return not_found(f"{folder} holds no {wanted}", else_try)
    return not_found(
        f"{folder} holds no {wanted}, but what a {others[0]} broker kept", f"headrace import {others[0]} {folder}"
    )


def stores_in(folder: str) -> list[str]:
    names = os.listdir(folder)
    logs = [name for name in names if lines.topic_of(name) is not None and os.path.isfile(os.path.join(folder, name))]
    of_binary = [name for name in logs if is_binary_log(os.path.join(folder, name))]
    found = {"lines": len(logs) > len(of_binary), "binary": bool(of_binary), "pubsub": DATABASE in names}
    return [store for store in STORES if found[store]]


def is_binary_log(path: str) -> bool:
    """A lines log may have such a name, but no index beside it, and no byte 0 in its text."""
    if binary.topic_of(os.path.basename(path)) is None:
        return False
    if os.path.isfile(binary.index_of(path)):
        return True
    with open(path, "rb") as file:
        return file.read(1) == _LENGTH_AT
