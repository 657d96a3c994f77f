"""Jars that some work needs besides Spark's own: fetched by Maven, once, into the user's cache.

By Maven and not by Spark's own fetcher, because whoever has set up Maven (a mirror, a proxy) has told it alone.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from headrace.errors import HeadraceError

DELTA_VERSION: Final = "4.4.0"
DELTA: Final = f"io.delta:delta-spark_4.2_2.13:{DELTA_VERSION}"
DELTA_JAR: Final = "delta-spark"  # how its file's name begins
JARS: Final = "spark.jars"
DELTA_SETTINGS: Final = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
KAFKA: Final = "org.apache.spark:spark-sql-kafka-0-10_2.13"
KAFKA_GROUPS: Final = ["org.apache.spark", "org.apache.kafka", "org.apache.commons"]
# Not every mirror has every version. This pair was seen to work with all of Spark 4.2.
KAFKA_ELSE: Final = (f"{KAFKA}:4.2.0", "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0")
FETCH_LIMIT_S: Final = 600.0


class JarsMissing(HeadraceError):
    """Jars that could not be fetched."""


def delta_settings(named: str = "") -> dict[str, str]:
    """Of a session that reads and writes Delta tables. `named`: the jars that it is given anyway, Delta's maybe among
    them."""
    jars = [jar.strip() for jar in named.split(",") if jar.strip()]
    if not any(jar.rpartition("/")[2].startswith(DELTA_JAR) for jar in jars):
        jars += map(str, fetched(DELTA, ["io.delta"]))
    return DELTA_SETTINGS | {JARS: ",".join(jars)}


def kafka_jars() -> list[Path]:
    """Spark's own Kafka connector, of Spark's version or else the nearest that Maven has."""
    from pyspark import __version__

    if _folder(KAFKA_ELSE).exists():
        return fetched(KAFKA_ELSE[0], KAFKA_GROUPS, *KAFKA_ELSE[1:])
    try:
        return fetched(f"{KAFKA}:{__version__}", KAFKA_GROUPS)
    except JarsMissing:
        return fetched(KAFKA_ELSE[0], KAFKA_GROUPS, *KAFKA_ELSE[1:])


def fetched(artifact: str, groups: list[str], *others: str) -> list[Path]:
    """The jars of an artifact (group:name:version) and of what it needs, as far as they are of these groups. `others`
    take the place of everything that it needs of their groups."""
    folder = _folder((artifact, *others))
    if not folder.exists():
        _fetch(artifact, others, groups, folder)
    return sorted(folder.glob("*.jar"))


def _folder(artifacts: Sequence[str]) -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headrace" / "jars"
    _, name, version = artifacts[0].split(":")
    return cache / "-".join([name, version, *(one.rpartition(":")[2] for one in artifacts[1:])])


def _dependency(artifact: str, without: Iterable[str]) -> str:
    group, name, version = artifact.split(":")
    left_out = "".join(
        f"<exclusion><groupId>{one}</groupId><artifactId>*</artifactId></exclusion>" for one in sorted(without)
    )
    return (
        f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version>"
        f"<exclusions>{left_out}</exclusions></dependency>"
    )


def _fetch(artifact: str, others: Sequence[str], groups: list[str], folder: Path) -> None:
    _, name, version = artifact.split(":")
    program = shutil.which("mvn")
    if program is None:
        raise JarsMissing(
            f"{name} {version} is fetched by Maven, and there is no `mvn` on the PATH; install it (apt install maven), "
            "or name the jars yourself with --conf spark.jars=…"
        )
    fresh = folder.with_name(f"{folder.name}.{os.getpid()}")
    fresh.mkdir(parents=True, exist_ok=True)
    pom = fresh / "pom.xml"
    wanted = [_dependency(artifact, {one.partition(":")[0] for one in others})]
    wanted += [_dependency(one, ["*"]) for one in others]
    pom.write_text(
        "<project><modelVersion>4.0.0</modelVersion><groupId>headrace</groupId><artifactId>jars</artifactId>"
        f"<version>1</version><dependencies>{''.join(wanted)}</dependencies></project>"
    )
    copy = ["dependency:copy-dependencies", f"-DoutputDirectory={fresh}", "-DincludeScope=runtime"]
    command = [program, "-q", "-B", "-f", str(pom), *copy, f"-DincludeGroupIds={','.join(groups)}"]
    try:
        said = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_LIMIT_S)
    except subprocess.TimeoutExpired:
        shutil.rmtree(fresh)
        raise JarsMissing(f"Maven did not fetch {name} {version} within {FETCH_LIMIT_S:g} s") from None
    if said.returncode:
        shutil.rmtree(fresh)
        cause = next((line for line in said.stdout.splitlines() if "[ERROR]" in line), said.stdout)
        raise JarsMissing(f"Maven could not fetch {name} {version}: {cause.partition('[ERROR] ')[2][:300] or cause}")
    pom.unlink()
    try:
        fresh.rename(folder)
    except OSError:  # another was quicker
        shutil.rmtree(fresh)
