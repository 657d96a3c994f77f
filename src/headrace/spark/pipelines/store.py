"""Files of an archive, wherever Spark can keep them: Hadoop's own file systems through the session, so that a local
folder, HDFS and object stores are the same here.

A change of several files is first written down (a plan: what is moved, what is removed), then done; whoever finds a
plan finishes it. So a kill at any moment leaves either nothing or all of it, after the next start. That holds for one
writer: the archive names its pipeline, and another is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from headrace.spark.errors import InvalidOption

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INSIDE: Final = "_archive"  # names that begin with _ are no data to Spark
STAGING: Final = f"{INSIDE}/staging"
PLANS: Final = f"{INSIDE}/plans"
DONE: Final = f"{INSIDE}/done"
OWNER: Final = f"{INSIDE}/owner"  # the name of the pipeline that writes here


class Plan(msgspec.Struct, frozen=True):
    name: str
    moves: list[tuple[str, str]] = []  # from staging to where readers look, relative to the archive
    removals: list[str] = []  # after the moves


class Store:
    def __init__(self, spark: SparkSession, root: str) -> None:
        jvm: Any = spark._jvm
        self._path = jvm.org.apache.hadoop.fs.Path
        self.root = root.rstrip("/")
        conf = spark._jsc.hadoopConfiguration()
        self._files = self._path(self.root).getFileSystem(conf)

    def path(self, name: str) -> str:
        return f"{self.root}/{name}"

    def exists(self, name: str) -> bool:
        return bool(self._files.exists(self._at(name)))

    def remove(self, name: str) -> None:
        self._files.delete(self._at(name), True)

    def listed(self, name: str) -> list[tuple[str, int]]:
        """Names of files under a folder, at any depth, relative to the archive, and their sizes."""
        if not self.exists(name):
            return []
        found, entries = [], self._files.listFiles(self._at(name), True)
        base = self._files.makeQualified(self._path(self.root)).toUri().getPath().rstrip("/") + "/"
        while entries.hasNext():
            entry = entries.next()
            found.append((entry.getPath().toUri().getPath().removeprefix(base), int(entry.getLen())))
        return sorted(found)

    def write(self, name: str, content: bytes) -> None:
        """Whole or not at all."""
        fresh = f"{name}.new"
        out = self._files.create(self._at(fresh), True)
        out.write(bytearray(content))
        if hasattr(out, "hsync"):
            out.hsync()
        out.close()
        if self.exists(name):
            self.remove(name)
        self._move(fresh, name)

    def read(self, name: str) -> bytes:
        source = self._files.open(self._at(name))
        try:
            return bytes(source.readAllBytes())
        finally:
            source.close()

    # Plans

    def carry_out(self, plan: Plan) -> None:
        self.write(f"{PLANS}/{plan.name}.json", msgspec.json.encode(plan))
        self._finish(plan)

    def recover(self) -> None:
        """What was begun before."""
        for name, _ in self.listed(PLANS):
            if name.endswith(".json"):
                self._finish(msgspec.json.decode(self.read(name), type=Plan))
            else:
                self.remove(name)  # not whole yet: nothing of it was done
        self.remove(STAGING)

    def claim(self, pipeline: str) -> None:
        """An archive has one writer: another's plans and marks of what is done would be taken for its own."""
        owner = self.read(OWNER).decode() if self.exists(OWNER) else ""
        if owner not in ("", pipeline):
            raise InvalidOption(
                f"[archive] {self.root} is where the pipeline {owner!r} writes: give {pipeline!r} another path, or"
                f" remove {self.path(OWNER)} if {owner!r} writes there no more"
            )
        if not owner:
            self.write(OWNER, pipeline.encode())

    def is_done(self, name: str) -> bool:
        return self.exists(f"{DONE}/{name}")

    def _finish(self, plan: Plan) -> None:
        for old, new in plan.moves:
            if self.exists(old):
                self.remove(new)
                self._move(old, new)
        for name in plan.removals:
            self.remove(name)
        self.write(f"{DONE}/{plan.name}", b"")
        self.remove(f"{PLANS}/{plan.name}.json")

    def forget_done(self, keep: set[str]) -> None:
        for name, _ in self.listed(DONE):
            if name.rpartition("/")[2] not in keep:
                self.remove(name)

    def _move(self, old: str, new: str) -> None:
        target = self._at(new)
        self._files.mkdirs(target.getParent())
        if not self._files.rename(self._at(old), target):
            raise OSError(f"{self.path(old)} cannot be moved to {self.path(new)}")

    def _at(self, name: str) -> Any:
        return self._path(self.path(name))
