"""The metadata of a data directory in use: copied, and read from the copy.

The image is read before the log: entries up to the image's index may leave the log, but only after that image was
saved. An image that is older than the log's start was replaced in between, and is read again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from headrace.cluster import records
from headrace.cluster.image import Image
from headrace.cluster.quorum import METADATA_LOG_ID, SavedImage, load_saved
from headrace.errors import BackupUnsettled, DirectoryUnusable
from headrace.log.copied import CopiedFile, digest_of, put_file
from headrace.log.copying import CopiedLog, LogCopier, survey
from headrace.log.format import LOG, SEGMENT_HEADER_BYTES
from headrace.log.journal import load_marks
from headrace.log.walk import Walk
from headrace.log.writing import read_whole
from headrace.ports import Files
from headrace.records import codec

METADATA = "metadata"
ATTEMPTS = 5


class Metadata(NamedTuple):
    image: Image
    log: CopiedLog
    files: tuple[CopiedFile, ...]  # besides the log's


def copy_metadata(
    copier: LogCopier, source: Files, data: str, target: Files, target_data: str, now_ms: int
) -> Metadata:
    if not source.exists(f"{data}/{METADATA}/log"):
        raise DirectoryUnusable(f"{data} was never served from: there is nothing in it to back up")
    folder = f"{target_data}/{METADATA}"
    for _ in range(ATTEMPTS):
        target.make_directory(folder)
        files = [_copy(source, target, f"{data}/{METADATA}/{name}", folder, name) for name in ("state", "image")]
        mark = load_marks(source, f"{data}/synced").get(METADATA_LOG_ID)
        try:
            found = survey(source, f"{data}/{METADATA}/log", METADATA_LOG_ID, mark)
            log = copier.copy(found, f"{folder}/log", now_ms)
        except BackupUnsettled:
            continue
        saved = load_saved(target, f"{folder}/image", SavedImage)
        index = saved.index if saved is not None else 0
        if log.start_offset <= index <= log.next_offset and copier.is_settled(found, log, f"{folder}/log"):
            image = Image.load(saved.image) if saved is not None else Image()
            for value in _entries(target, f"{folder}/log", log, index):
                for record in records.decode(value):
                    image.apply(record)
            return Metadata(image, log, tuple(file for file in files if file is not None))
    raise BackupUnsettled(f"{data}/{METADATA} did not hold still for a copy, {ATTEMPTS} times: try again")


def _copy(source: Files, target: Files, path: str, folder: str, name: str) -> CopiedFile | None:
    if not source.exists(path):
        return None
    data = read_whole(source, path)
    put_file(target, f"{folder}/{name}", data)
    return CopiedFile(name, len(data), digest_of(data))


def _entries(files: Files, folder: str, log: CopiedLog, index: int) -> Iterator[bytes]:
    """The values of the entries from `index` on."""
    for file in log.files:
        if not file.name.endswith(LOG):
            continue
        for batch in batches(files, f"{folder}/{file.name}", int(file.name.removesuffix(LOG)), file.size):
            for entry in codec.decode(batch):
                if entry.offset >= index:
                    assert entry.value is not None
                    yield entry.value


def batches(files: Files, path: str, base: int, size: int) -> Iterator[bytes]:
    """Each batch of a segment; it ends where one is not whole."""
    handle = files.open(path)
    try:
        walk = Walk(lambda count, at: files.pread(handle, count, at), SEGMENT_HEADER_BYTES, size, base, check_crc=True)
        for position, batch in walk.batches():
            yield files.pread(handle, batch[1], position)
    finally:
        files.close(handle)
