"""Folders as other brokers left them, written here from what their formats say, not with our code."""

from __future__ import annotations

import json
import sqlite3
import struct
from collections.abc import Iterable, Sequence
from pathlib import Path

BEGAN_S = 1758865780.0369835


def lines_entry(number: int, text: str) -> dict[str, object]:
    return {
        "id": f"msg_{1758865780000 + number}_{number:08x}",
        "offset": number,
        "ts": BEGAN_S + number,
        "msg": text,
    }


def lines_folder(folder: Path, topics: dict[str, Iterable[str]]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for topic, texts in topics.items():
        entries = (json.dumps(lines_entry(n, text), ensure_ascii=False) for n, text in enumerate(texts, 1))
        (folder / f"{topic}.log").write_text("".join(f"{entry}\n" for entry in entries), encoding="utf-8")
    return folder


def frame(offset: int, time_ms: int, properties: Sequence[tuple[str, str]], body: bytes) -> bytes:
    block = b"".join(f"{name}={value}".encode() + b"\0" for name, value in properties)
    head = struct.pack(">IIQQII", 32 + len(block) + len(body), 1, offset, time_ms, len(block), len(body))
    return head + block + body


def binary_properties(topic: str, key: str | None = None) -> list[tuple[str, str]]:
    own = [("key", key)] if key is not None else []
    return [("topic", topic), ("client_id", "p1"), *own, ("created_at", "1755518400.5"), ("version", "1.0")]


def binary_folder(folder: Path, partitions: dict[tuple[str, int], Sequence[bytes]]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for (topic, number), bodies in partitions.items():
        log, index = b"", b""
        for offset, body in enumerate(bodies):
            made = frame(offset, 1755518400500 + offset, binary_properties(topic, f"k{offset % 3}"), body)
            index += struct.pack(">I", len(log))
            log += struct.pack(">I", len(made)) + made
        (folder / f"{topic}_p{number}.log").write_bytes(log)
        (folder / f"{topic}_p{number}.idx").write_bytes(index)
    return folder


def pubsub_folder(
    folder: Path,
    records: dict[str, Sequence[tuple[str | None, object, dict[str, object]]]],
    commits: dict[str, int] | None = None,
    *,
    keep_write_ahead: bool = False,
    prepare: Iterable[str] = (),
) -> Path:
    """`keep_write_ahead`: as after kill -9, when nobody moved it into the database."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "pubsub.sqlite"
    database = sqlite3.connect(path)
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("PRAGMA wal_autocheckpoint=0")
    database.execute(
        "CREATE TABLE records(topic TEXT, offset INTEGER, ts_ms INTEGER, key TEXT, value_json TEXT, headers_json TEXT,"
        " PRIMARY KEY(topic, offset))"
    )
    database.execute("CREATE TABLE topic_seq(topic TEXT PRIMARY KEY, next_offset INTEGER)")
    database.execute("CREATE TABLE commits(k TEXT PRIMARY KEY, offset INTEGER)")
    for topic, entries in records.items():
        rows = [
            (topic, n, 1758865780040 + n, key, _json(value), _json(headers))
            for n, (key, value, headers) in enumerate(entries)
        ]
        database.executemany("INSERT INTO records VALUES(?, ?, ?, ?, ?, ?)", rows)
        database.execute("INSERT INTO topic_seq VALUES(?, ?)", (topic, len(rows)))
    database.executemany("INSERT INTO commits VALUES(?, ?)", list((commits or {}).items()))
    for statement in prepare:
        database.execute(statement)
    database.commit()
    if keep_write_ahead:
        stored, ahead = path.read_bytes(), Path(f"{path}-wal").read_bytes()
        database.close()
        path.write_bytes(stored)
        Path(f"{path}-wal").write_bytes(ahead)
    else:
        database.close()
    return folder


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
