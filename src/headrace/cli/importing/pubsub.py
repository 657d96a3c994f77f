"""`pubsub.sqlite` of the HTTP protocol's own broker: records, topics without records (topics.json), committed offsets.

The database is opened without changing a byte of its folder. What its write-ahead log still holds belongs to it, and
SQLite can only read that by writing beside it: then both files are copied first, to a temporary folder.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Collection, Iterator
from typing import Any

from headrace.cli.exits import Refusal
from headrace.cli.importing import fernet, telling
from headrace.cli.importing.sources import Damage, Position
from headrace.cli.importing.telling import DATABASE
from headrace.doors.http.values import headers_of, json_text
from headrace.errors import InvalidRecord
from headrace.records.record import Record

WRITE_AHEAD, PLACEMENT = "-wal", "topics.json"
GROUP, CONSUMER = "group:", "consumer:"
MAX_PLACEMENT_BYTES = 64 << 20
MEND = "mend it in a copy of the folder, or delete that row"
TABLES = {"records", "topic_seq", "commits"}

_RECORDS = "SELECT offset, ts_ms, key, value_json, headers_json FROM records WHERE topic = ? ORDER BY offset"


class PubsubSource:
    def __init__(self, folder: str, key: str | None) -> None:
        self._folder, self._open = folder, fernet.opener(key)
        self._damaged: dict[str, set[int]] = {}  # offsets by topic, as far as they were read
        path = os.path.join(folder, DATABASE)
        if not os.path.isfile(path):
            raise telling.wrong("pubsub", folder, DATABASE, _others(folder))
        self._path, self._ends = path, contextlib.ExitStack()
        with contextlib.ExitStack() as undo:
            undo.callback(self.close)
            try:
                self._database = self._ends.enter_context(contextlib.closing(self._connect(path)))
                self._database.text_factory = _text
                found = {str(name) for (name,) in self._database.execute("SELECT name FROM sqlite_master")}
            except sqlite3.Error as error:
                raise Refusal(f"{path} does not read as a database: {error}") from error
            if missing := TABLES - found:
                raise Refusal(f"{path} is another program's: it has no table {min(missing)}")
            undo.pop_all()

    def close(self) -> None:
        self._ends.close()

    def topics(self) -> dict[str, int]:
        known = [str(topic) for (topic,) in self._rows("SELECT topic FROM topic_seq")]
        stored = [str(topic) for (topic,) in self._rows("SELECT DISTINCT topic FROM records")]
        names = {*known, *stored, *self._placed()}
        if odd := next((name for name in names if not _is_text(name)), None):
            raise Refusal(f"{self._path} has a topic whose name is not UTF-8 text: {odd!r}", "give it another name")
        return dict.fromkeys(sorted(names), 1)

    def read(self, topic: str, partition: int) -> Iterator[Record | Damage]:
        for offset, time_ms, key, value, headers in self._rows(_RECORDS, (topic,)):
            where = f"{DATABASE}: topic {topic!r} offset {offset}"
            try:
                yield self._record(time_ms, key, value, headers)
            except (ValueError, TypeError, InvalidRecord, RecursionError) as error:
                if isinstance(offset, int):
                    self._damaged.setdefault(topic, set()).add(offset)
                yield Damage(where, _why(error))

    def positions(self) -> list[Position]:
        """Records that do not read are left out, so they do not count: known once the topic was read."""
        found, topics = [], self.topics()
        for key, offset in self._rows("SELECT k, offset FROM commits ORDER BY k"):
            owner = _owner(str(key), topics)
            if owner is None:
                continue  # a topic that is no more
            topic, group, consumer = owner
            if not _is_text(str(key)):
                raise Refusal(f"{self._path}: the name in the position {key!r} is not UTF-8 text", MEND)
            if not isinstance(offset, int):
                raise Refusal(f"{self._path}: the position {key!r} is no offset: {offset!r}", MEND)
            count = "SELECT COUNT(*) FROM records WHERE topic = ? AND offset <= ?"
            ((records,),) = self._rows(count, (topic, offset))
            records -= sum(damaged <= offset for damaged in self._damaged.get(topic, ()))
            if records > 0:  # else nothing was processed yet
                found.append(Position(topic, group, consumer, records))
        return found

    def _rows(self, asked: str, given: tuple[object, ...] = ()) -> Iterator[tuple[Any, ...]]:
        try:
            yield from self._database.execute(asked, given)
        except sqlite3.Error as error:
            raise Refusal(f"{self._path} does not read: {error}", "sqlite3's .recover may save what is left") from error

    def _record(self, time_ms: object, key: object, value: object, headers: object) -> Record:
        if not isinstance(value, str):
            raise ValueError("it has no value")
        shown = json.loads(self._clear(headers)) if isinstance(headers, str) and headers else {}
        if not isinstance(shown, dict):
            raise ValueError("its headers are no JSON object")
        if isinstance(time_ms, bool) or not isinstance(time_ms, int | float) or time_ms < 0:
            raise ValueError("it has no time in milliseconds")
        if isinstance(key, bytes):
            raise ValueError("its key is no text")
        text = self._clear(value).encode()
        return Record(None if key is None else str(key).encode(), json_text(text), headers_of(shown), int(time_ms))

    def _clear(self, text: str) -> str:
        return self._open(text.removeprefix(fernet.MARK)) if text.startswith(fernet.MARK) else text

    def _connect(self, path: str) -> sqlite3.Connection:
        write_ahead = path + WRITE_AHEAD
        if os.path.exists(write_ahead) and os.path.getsize(write_ahead):
            copy = self._ends.enter_context(tempfile.TemporaryDirectory(prefix="headrace-import-"))
            for name in (path, write_ahead):
                shutil.copy(name, os.path.join(copy, os.path.basename(name)))
            return _opened(f"file:{_quoted(os.path.join(copy, DATABASE))}")
        return _opened(f"file:{_quoted(path)}?mode=ro&immutable=1")

    def _placed(self) -> list[str]:
        path = os.path.join(self._folder, PLACEMENT)
        if not os.path.isfile(path):
            return []
        with open(path, "rb") as file:
            try:
                found = json.loads(file.read(MAX_PLACEMENT_BYTES))
            except (ValueError, RecursionError) as error:
                step = "mend it, or move it away: the records name topics too"
                raise Refusal(f"{path} is not JSON: {_why(error)}", step) from error
        topics = found.get("topics") if isinstance(found, dict) else None
        return [str(name) for name in topics] if isinstance(topics, dict) else []


def _owner(key: str, topics: Collection[str]) -> tuple[str, str | None, str | None] | None:
    """Topic, group and consumer of `topic|group:name` or `topic|consumer:name`. All of them may hold bars, so the topic
    is one that there is: the longest, if there are several."""
    at = len(key)
    while (at := key.rfind("|", 0, at)) >= 0:
        topic, who = key[:at], key[at + 1 :]
        if topic in topics and who.startswith(GROUP):
            return topic, who.removeprefix(GROUP), None
        if topic in topics and who.startswith(CONSUMER):
            return topic, None, who.removeprefix(CONSUMER)
    return None


def _text(data: bytes) -> str:
    """What is not UTF-8 is told of where it is used, and costs nobody else."""
    return data.decode(errors="surrogateescape")


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _why(error: Exception) -> str:
    if isinstance(error, UnicodeEncodeError):
        return "it is not UTF-8 text"
    return "it is nested too deeply" if isinstance(error, RecursionError) else str(error)


def _opened(address: str) -> sqlite3.Connection:
    # Read in a thread by a loop that waits for it: one at a time, and not always the same.
    return sqlite3.connect(address, uri=True, check_same_thread=False)


def _quoted(path: str) -> str:
    from urllib.parse import quote

    return quote(os.path.abspath(path))


def _others(folder: str) -> str:
    """Each broker had a folder of its own; one of them is as good as another, unless it was behind."""
    found = [name for name in sorted(os.listdir(folder)) if os.path.isfile(os.path.join(folder, name, DATABASE))]
    if not found:
        return "name the folder that PUBSUB_DATA_DIR named, mostly data and the broker's id"
    return f"name one of {', '.join(os.path.join(folder, name) for name in found)}: the one that owned the topics"
