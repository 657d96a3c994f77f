"""What a pipeline is told: one TOML file, or the same from Python.

    name = "orders-per-minute"
    servers = "127.0.0.1:9092"

    [source]
    topic = "orders"
    format = "json"
    schema = "id string, country string, amount double, at timestamp"

    [dedup]
    by = ["id"]
    time = "at"
    within = "10 minutes"

    [rollup]
    time = "at"
    window = "1 minute"
    late = "10 minutes"
    by = ["country"]
    values = { orders = "count", revenue = "sum(amount)" }

    [target]
    topic = "orders.per-minute"

A file has one beginning ([source] or [replay]), any of the steps in the order in which they stand in it, and one end
([target] or [archive]). What is not known is refused with the nearest name: a misspelt `late` must not mean another
result.
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from headrace.spark.errors import InvalidOption
from headrace.spark.pipelines.times import interval, seconds, time_ms

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
ELSEWHERE: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")  # a path of a file system that is named, as hdfs://
FOLDER: Final = "headrace-pipelines"
SERVERS: Final = "127.0.0.1:9092"
AVAILABLE_NOW: Final = "available-now"  # the trigger that ends when what is there is done


class Source(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the rows come from: topics."""

    topic: str = ""  # one, or several with commas
    pattern: str = ""  # or all whose names a regular expression matches
    format: str = "raw"  # raw: the record's own columns; the others: columns of the value
    schema: str = ""  # json, msgpack: as "id string, amount double", or none: as the first values are; else a file
    message: str = ""  # of protobuf: its full name
    start: str = "earliest"  # earliest, latest, or a time as 2026-01-31T12:00:00Z
    max_rows: int = 0  # of one micro-batch; 0: all that there are
    fail_on_data_loss: bool = True  # False: goes on without what the log has lost, and says so
    group: str = ""  # whose positions show how far it is; the pipeline's name if empty


class Replay(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rows of before: of an archive, or of a topic between two times."""

    path: str = ""
    format: str = "parquet"  # or delta
    topic: str = ""
    since: str = ""  # a time as 2026-01-31T12:00:00Z
    until: str = ""
    time: str = ""  # the column that is a row's time; the record's own if empty
    rate: float = 0.0  # rows a second at the most; 0: as fast as it goes


class Deadletter(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rows that do not decode, or that a check refuses, go to a topic with the reason; the stream goes on."""

    topic: str
    checks: Mapping[str, str] = {}  # reason -> SQL condition that a good row fulfils


class Dedup(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    by: list[str]
    time: str = ""
    within: str = "10 minutes"


class Order(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    time: str = ""
    late: str = "10 seconds"  # how long a row may take to come: rows wait so long, and what is later is left out
    by: list[str] = []  # in order within each; none: over all, in one task


class Rollup(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    window: str
    values: Mapping[str, str]  # column -> count, sum(x), min(x), max(x), mean(x), quantile(x, 0.95), distinct(x)
    time: str = ""
    slide: str = ""
    late: str = "10 minutes"
    by: list[str] = []


class Target(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A topic: each row as JSON, or as it is when it has the columns of a record."""

    topic: str
    key: str = ""  # the column that becomes the record's key


class Archive(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Files by date."""

    path: str
    format: str = "parquet"  # or delta
    time: str = ""
    compact_files: int = 16  # so many small files of a date become one; 0: never
    file_bytes: int = 128 << 20  # what is larger is not small


BEGINNINGS: Final[Mapping[str, type[msgspec.Struct]]] = {"source": Source, "replay": Replay}
STEPS: Final[Mapping[str, type[msgspec.Struct]]] = {
    "deadletter": Deadletter,
    "dedup": Dedup,
    "order": Order,
    "rollup": Rollup,
}
ENDS: Final[Mapping[str, type[msgspec.Struct]]] = {"target": Target, "archive": Archive}
SECTIONS: Final = {**BEGINNINGS, **STEPS, **ENDS}


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    beginning: Source | Replay
    end: Target | Archive
    steps: tuple[Deadletter | Dedup | Order | Rollup, ...] = ()
    servers: str = SERVERS
    folder: str = ""  # checkpoint, progress and report; headrace-pipelines/NAME if empty
    trigger: str = AVAILABLE_NOW  # or a time between micro-batches, as 10s
    spark: Mapping[str, str] = {}  # settings of the session

    @property
    def home(self) -> Path:
        return Path(self.folder) if self.folder else Path(FOLDER) / self.name

    @property
    def checkpoint(self) -> str:
        return str(self.home / "checkpoint")

    @property
    def is_delta(self) -> bool:
        """Whether it needs what Spark does not bring itself."""
        ends = (self.beginning, self.end)
        return any(isinstance(one, Archive | Replay) and one.format == "delta" for one in ends)

    @property
    def deadletter(self) -> Deadletter | None:
        return next((step for step in self.steps if isinstance(step, Deadletter)), None)


PLAIN: Final = ("name", "servers", "folder", "trigger", "spark")


def load(path: str | Path, servers: str = SERVERS) -> Settings:
    """`servers`: of a file that names none. Paths in it are seen from where it is: a run from another folder goes on
    with the same state, and the same archive."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidOption(f"{path} does not read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidOption(f"{path} is not a text file in UTF-8") from error
    return _seen_from(Path(path).parent, parse(text, str(path), servers))


def _seen_from(place: Path, settings: Settings) -> Settings:
    begin, end = settings.beginning, settings.end
    if isinstance(begin, Replay) and begin.path and not ELSEWHERE.match(begin.path):
        begin = msgspec.structs.replace(begin, path=str(place / begin.path))
    if isinstance(begin, Source) and os.path.isfile(place / begin.schema):
        begin = msgspec.structs.replace(begin, schema=str(place / begin.schema))
    if isinstance(end, Archive) and not ELSEWHERE.match(end.path):
        end = msgspec.structs.replace(end, path=str(place / end.path))
    return msgspec.structs.replace(settings, beginning=begin, end=end, folder=str(place / settings.home))


def parse(text: str, where: str = "the pipeline", servers: str = SERVERS) -> Settings:
    try:
        return settings_of({"servers": servers, **tomllib.loads(text)})
    except tomllib.TOMLDecodeError as error:
        raise InvalidOption(f"{where} is not TOML: {error}") from error
    except InvalidOption as error:
        raise InvalidOption(f"{where}: {error}") from None


def settings_of(tree: Mapping[str, Any]) -> Settings:
    """The same as a file says it, from a dictionary in its order."""
    for name in tree:
        if name not in SECTIONS and name not in PLAIN:
            raise InvalidOption(f"there is no [{name}]{_near(name, [*SECTIONS, *PLAIN])}")
    begins = [_section(name, tree[name]) for name in tree if name in BEGINNINGS]
    ends = [_section(name, tree[name]) for name in tree if name in ENDS]
    if len(begins) != 1:
        raise InvalidOption("one [source] or [replay] says where the rows come from, and one only")
    if len(ends) != 1:
        raise InvalidOption("one [target] or [archive] says where the rows go, and one only")
    steps = [_section(name, tree[name]) for name in tree if name in STEPS]
    plain = {name: tree[name] for name in PLAIN if name in tree}
    if not plain.get("name"):
        raise InvalidOption('a pipeline has a name: name = "orders-per-minute"')
    try:
        settings = msgspec.convert({"beginning": None, "end": None, **plain}, _Plain)
    except msgspec.ValidationError as error:
        raise InvalidOption(_said(error)) from None
    made = Settings(
        name=settings.name,
        beginning=begins[0],
        end=ends[0],
        steps=tuple(steps),
        servers=settings.servers,
        folder=settings.folder,
        trigger=settings.trigger,
        spark=settings.spark,
    )
    check(made)
    return made


def tree_of(settings: Settings) -> dict[str, Any]:
    """What `settings_of` makes the same of, every default said."""
    sections = (settings.beginning, *settings.steps, settings.end)
    names = {kind: name for name, kind in SECTIONS.items()}
    plain = {name: getattr(settings, name) for name in PLAIN} | {"folder": str(settings.home)}
    return plain | {names[type(one)]: msgspec.to_builtins(one) for one in sections}


class _Plain(msgspec.Struct, kw_only=True):
    name: str
    servers: str = SERVERS
    folder: str = ""
    trigger: str = AVAILABLE_NOW
    spark: Mapping[str, str] = {}


def check(settings: Settings) -> None:
    """What can be known wrong without a session."""
    if not NAME.fullmatch(settings.name):
        raise InvalidOption(f"the name {settings.name!r} has letters, digits, dot, dash and underscore only")
    if ELSEWHERE.match(settings.folder):
        raise InvalidOption(
            f"folder {settings.folder!r} names a file system: the pipeline's folder is on the machine that runs it,"
            " as a plain path, which on a cluster is one that all machines have"
        )
    begin, end = settings.beginning, settings.end
    if isinstance(begin, Source):
        if bool(begin.topic) == bool(begin.pattern):
            raise InvalidOption("[source] has a topic or a pattern")
        if begin.format not in FORMATS:
            raise InvalidOption(f"[source] format {begin.format!r} is none of {', '.join(FORMATS)}")
        _check_format(begin)
    elif bool(begin.path) == bool(begin.topic):
        raise InvalidOption("[replay] has a path or a topic")
    if isinstance(end, Archive) and end.format not in FILES:
        raise InvalidOption(f"[archive] format {end.format!r} is none of {', '.join(FILES)}")
    if isinstance(begin, Replay) and begin.format not in FILES:
        raise InvalidOption(f"[replay] format {begin.format!r} is none of {', '.join(FILES)}")
    if any(isinstance(step, Deadletter) for step in settings.steps[1:]):
        raise InvalidOption("[deadletter] is the first step: it takes what does not decode")
    if any(isinstance(step, Order) for step in settings.steps[:-1]):
        raise InvalidOption("[order] is the last step: what comes after it would not keep the order")
    if isinstance(end, Archive) and Path(end.path).absolute() == settings.home.absolute():
        raise InvalidOption(f"[archive] path {end.path!r} is the folder of the pipeline itself: name another")
    if settings.trigger != AVAILABLE_NOW:
        interval(settings.trigger)
    _check_beginning(begin)
    _check_circle(settings)
    for step in settings.steps:
        _check_step(step)


def _check_circle(settings: Settings) -> None:
    """Nothing is written to a topic that it is read from: it would come back as rows that mean something else."""
    begin, end = settings.beginning, settings.end
    if not isinstance(begin, Source):
        return
    names = [name.strip() for name in begin.topic.split(",")]
    written = {"target": end.topic} if isinstance(end, Target) else {}
    if settings.deadletter is not None:
        written["deadletter"] = settings.deadletter.topic
    for section, topic in written.items():
        if topic in names:
            raise InvalidOption(f"[{section}] topic {topic!r} is what [source] reads: name another")
        if begin.pattern and re.fullmatch(begin.pattern, topic):
            raise InvalidOption(f"[{section}] topic {topic!r} is one that [source] pattern matches: name another")


def _check_beginning(begin: Source | Replay) -> None:
    """The numbers, times and patterns in it."""
    if isinstance(begin, Replay):
        for name, text in (("since", begin.since), ("until", begin.until)):
            if text:
                time_ms(text, f"[replay] {name}")
        if begin.rate < 0:
            raise InvalidOption(
                f"[replay] rate is a number of rows a second, or 0 for as fast as it goes, not {begin.rate:g}"
            )
        return
    if begin.start not in ("earliest", "latest"):
        time_ms(begin.start, "[source] start", "earliest, latest or ")
    if begin.max_rows < 0:
        raise InvalidOption(f"[source] max_rows is a number of rows, or 0 for all that there are, not {begin.max_rows}")
    try:
        re.compile(begin.pattern)
    except re.error as error:
        raise InvalidOption(f"[source] pattern {begin.pattern!r} is not a regular expression: {error}") from None


def _check_step(step: Deadletter | Dedup | Order | Rollup) -> None:
    """What it says that can be judged without the rows."""
    if isinstance(step, Dedup) and not step.by:
        raise InvalidOption("[dedup] by names the columns in which rows are the same")
    if isinstance(step, Rollup):
        if not step.values:
            raise InvalidOption('[rollup] values says what is computed, as orders = "count"')
        for name, text in step.values.items():
            value_of(name, text)
    for name in ("within", "late", "window", "slide"):
        if text := getattr(step, name, ""):
            section = type(step).__name__.lower()
            try:
                length = interval(text)
            except InvalidOption as error:
                raise InvalidOption(f"[{section}] {name}: {error}") from None
            if name in ("window", "slide") and not seconds(length):
                raise InvalidOption(f"[{section}] {name} is longer than {text!r}")


def value_of(name: str, text: str) -> tuple[str, str | None, float | None]:
    """What `count`, `sum(amount)` or `quantile(amount, 0.95)` mean: what is computed, of which column, which share."""
    found = _VALUE.fullmatch(text.strip())
    verb, column, share = found.groups() if found else ("", None, None)
    if verb == "quantile" and column is not None:
        if share is None or not 0 <= float(share) <= 1:
            raise InvalidOption(f"[rollup] {name} = {text!r}: quantile(column, 0.95) has a share from 0 to 1")
        return verb, column, float(share)
    if verb not in VALUES or share is not None or (column is None and verb != "count"):
        raise InvalidOption(
            f"[rollup] {name} = {text!r} is none of count, sum(x), min(x), max(x), mean(x), quantile(x, 0.95),"
            " distinct(x)"
        )
    return verb, column, None


VALUES: Final = ("count", "sum", "min", "max", "mean", "distinct")
_VALUE: Final = re.compile(r"(\w+)(?:\(\s*([^,()]+?)\s*(?:,\s*([0-9]+\.?[0-9]*|\.[0-9]+)\s*)?\))?")


def _check_format(source: Source) -> None:
    """What its format asks for, and no more."""
    if source.format == "avro" and not source.schema:
        raise InvalidOption('[source] format "avro" needs a schema: a file as orders.avsc, or its JSON')
    if source.format == "protobuf" and not (source.schema and source.message):
        raise InvalidOption('[source] format "protobuf" needs a schema, the file of its descriptors, and a message')
    if source.message and source.format != "protobuf":
        raise InvalidOption(f"[source] message is of format protobuf, not of {source.format}")
    if source.schema and source.format in ("raw", "text"):
        raise InvalidOption(f"[source] format {source.format!r} has no schema; json, avro, protobuf and msgpack have")


FORMATS: Final = ("raw", "json", "text", "avro", "protobuf", "msgpack")
FILES: Final = ("parquet", "delta")


def _section(name: str, found: Any) -> Any:
    kind = SECTIONS[name]
    if not isinstance(found, Mapping):
        raise InvalidOption(f"[{name}] is a table")
    known = [field.name for field in msgspec.structs.fields(kind)]
    for key in found:
        if key not in known:
            raise InvalidOption(f"[{name}] has no {key!r}{_near(key, known)}")
    try:
        return msgspec.convert(dict(found), kind)
    except msgspec.ValidationError as error:
        raise InvalidOption(f"[{name}] {_said(error)}") from None


def _said(error: msgspec.ValidationError) -> str:
    text = str(error)
    return text[:1].lower() + text[1:]


def _near(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, 1)
    return f"; is {near[0]!r} meant?" if near else f"; there are {', '.join(known)}"
