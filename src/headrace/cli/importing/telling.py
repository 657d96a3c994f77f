"""Whose folder is it? Whoever names the wrong kind of store, or the wrong folder, is told which it is; and so is who
starts a node in the folder of another broker."""

from __future__ import annotations

import os

from headrace.cli.exits import STORAGE, Refusal, not_found, usage
from headrace.cli.importing.sources import STORES, chunks
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


def kept_in(folder: str) -> list[str]:
    """Whose data a folder holds that nobody called a store: not every `.log` file is one of messages."""
    try:
        return [store for store in stores_in(folder) if store != "lines" or _has_messages(folder)]
    except OSError:
        return []


def to_import(stores: list[str], folder: str) -> str:
    """What brings it into a node that keeps its data elsewhere."""
    imports = " and ".join(f"`headrace import {store} {folder}`" for store in stores)
    return f"`headrace serve --data {folder.rstrip('/')}-headrace`, and while that runs {imports}"


def unservable(stores: list[str], folder: str) -> Refusal:
    """For a node that was to keep its own data there."""
    whose = " and ".join(f"a {store}" for store in stores)
    cause = f"{folder} holds what {whose} broker kept; a node keeps its data in a folder of its own"
    return Refusal(cause, to_import(stores, folder), code=STORAGE)


def stores_in(folder: str) -> list[str]:
    names = os.listdir(folder)
    logs = [name for name in names if lines.topic_of(name) is not None and os.path.isfile(os.path.join(folder, name))]
    of_binary = [name for name in logs if is_binary_log(os.path.join(folder, name))]
    found = {"lines": len(logs) > len(of_binary), "binary": bool(of_binary), "pubsub": DATABASE in names}
    return [store for store in STORES if found[store]]


def _has_messages(folder: str) -> bool:
    paths = [os.path.join(folder, name) for name in os.listdir(folder) if lines.topic_of(name) is not None]
    return any(
        isinstance(next(iter(lines.messages(chunks(path))), None), lines.Stored)
        for path in paths
        if os.path.isfile(path) and not is_binary_log(path)
    )


def is_binary_log(path: str) -> bool:
    """A lines log may have such a name, but no index beside it, and no byte 0 in its text."""
    if binary.topic_of(os.path.basename(path)) is None:
        return False
    if os.path.isfile(binary.index_of(path)):
        return True
    with open(path, "rb") as file:
        return file.read(1) == _LENGTH_AT
