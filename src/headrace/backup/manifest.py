"""The manifest: what a backup holds, to the byte. Without it a folder is no backup; docs/backup.md explains it.

The file is JSON: the format's version, a digest, and the manifest itself, whose bytes the digest covers. So a changed
manifest is found before any of its words is believed, and a newer format before it is read wrongly.
"""

from __future__ import annotations

import msgspec

from headrace.errors import BackupDamaged, FormatTooNew, NotABackup
from headrace.log.copied import CopiedFile, digest_of
from headrace.log.writing import read_whole, replace_file
from headrace.ports import Files

FORMAT = 1
NAME = "manifest.json"
DATA, TOPICS = "data", "topics"  # the two kinds: of a data directory, of topics through a server

# Files of a backup that the manifest does not list
PROGRESS, LOCK = "progress.jsonl", "lock"


class FileEntry(msgspec.Struct, frozen=True):
    path: str  # within the backup
    bytes: int
    digest: str  # BLAKE2b of 32 bytes, hexadecimal
    base: int = -1  # the offset that a file of batches begins with


class PartitionEntry(msgspec.Struct, frozen=True):
    partition: int
    start_offset: int
    end_offset: int  # the first that is not in it
    bytes: int
    files: list[FileEntry]
    generation: int = 0
    segment: int = -1  # base of the last segment; -1: there is none
    position: int = 0  # where it ends


class TopicEntry(msgspec.Struct, frozen=True):
    name: str
    topic_id: str  # hexadecimal
    config: dict[str, str]
    partitions: list[PartitionEntry]

    @property
    def bytes(self) -> int:
        return sum(partition.bytes for partition in self.partitions)


class Manifest(msgspec.Struct, frozen=True):
    kind: str
    headrace: str  # the version that made it
    cluster_id: str
    source: str  # a folder, or the servers' addresses
    began_ms: int
    ended_ms: int
    topics: list[TopicEntry]
    files: list[FileEntry] = []  # that belong to no topic
    metadata: PartitionEntry | None = None  # the metadata log of a data directory
    based_on: str | None = None  # the backup that this one shares files with
    reused_bytes: int = 0
    damage: list[str] = []  # found in the original while it was copied

    def all_files(self) -> list[FileEntry]:
        found = [*self.files, *(self.metadata.files if self.metadata else ())]
        return found + [file for topic in self.topics for part in topic.partitions for file in part.files]

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.all_files())


class _Envelope(msgspec.Struct):
    format: int
    digest: str = ""
    manifest: msgspec.Raw = msgspec.Raw()


def entry_of(copied: CopiedFile, folder: str, base: int = -1) -> FileEntry:
    return FileEntry(f"{folder}/{copied.name}", copied.size, copied.digest, base)


def save(files: Files, folder: str, manifest: Manifest) -> None:
    body = msgspec.json.format(msgspec.json.encode(manifest), indent=1)
    head = f'{{"format": {FORMAT}, "digest": "{digest_of(body)}", "manifest": '.encode()
    replace_file(files, f"{folder}/{NAME}", head + body + b"}\n", durable=True)


def load(files: Files, folder: str) -> Manifest:
    path = f"{folder}/{NAME}"
    try:
        data = read_whole(files, path)
    except (FileNotFoundError, NotADirectoryError):
        raise _missing(files, folder) from None
    try:
        envelope = msgspec.json.decode(data, type=_Envelope)
        if envelope.format > FORMAT:
            raise FormatTooNew(f"{path} has format {envelope.format}, and this program reads up to {FORMAT}")
        if digest_of(bytes(envelope.manifest)) != envelope.digest:
            raise BackupDamaged(f"{path} is damaged: it is not what was written; use another backup")
        return msgspec.json.decode(envelope.manifest, type=Manifest)
    except msgspec.MsgspecError as error:
        raise BackupDamaged(f"{path} does not read ({error}): use another backup") from error


def _missing(files: Files, folder: str) -> NotABackup:
    if files.exists(f"{folder}/{PROGRESS}"):
        return NotABackup(f"the backup in {folder} was never finished: make it again, it goes on where it ended")
    if files.exists(folder):
        return NotABackup(f"{folder} is no backup: there is no {NAME} in it")
    return NotABackup(f"there is no folder {folder}")
