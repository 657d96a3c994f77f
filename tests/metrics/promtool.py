"""What `promtool check metrics` looks at, and more, as a function of the text: a list of complaints, empty when fine.

The text is read twice: by Prometheus's own Python parser, and line by line, because a parser forgives.
"""

from __future__ import annotations

import math
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator

from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

NAME = re.compile(r"^(?:headrace|process)_[a-z][a-z0-9]*(?:_[a-z0-9]+)*$")
SERIES = re.compile(r"^([a-zA-Z_:][a-zA-Z0-9_:]*)(\{.*\})? (\S+)$")
# Base units only; a number of things has none.
FORBIDDEN_UNITS = {"ms", "milliseconds", "us", "microseconds", "minutes", "hours", "kb", "mb", "kilobytes", "megabytes"}
RESERVED_LABELS = {"le", "quantile", "job", "instance"}


def complaints(text: str) -> list[str]:
    return [*_of_lines(text), *(said for family in families(text).values() for said in _of_family(family))]


def families(text: str) -> dict[str, Metric]:
    """As the parser names them: a counter without its `_total`."""
    return {family.name: family for family in text_string_to_metric_families(text)}


def promtool(text: str) -> str | None:
    """What the real one says, where it is installed."""
    program = shutil.which("promtool")
    if program is None:
        return None
    return subprocess.run([program, "check", "metrics"], input=text, capture_output=True, text=True).stderr


def _of_lines(text: str) -> Iterator[str]:
    if not text.endswith("\n"):
        yield "the last line has no end"
    helped: dict[str, str] = {}
    typed: dict[str, str] = {}
    series: Counter[str] = Counter()
    for line in text.splitlines():
        if line.startswith("# HELP "):
            name, _, words = line[7:].partition(" ")
            if name in helped:
                yield f"{name} has two HELP lines"
            helped[name] = words
        elif line.startswith("# TYPE "):
            name, kind = line[7:].split(" ")
            typed[name] = kind
            if (kind == "counter") != name.endswith("_total"):
                yield f"{name} is a {kind}: counters, and only they, end in _total"
            if name not in helped:
                yield f"{name} has its TYPE before its HELP, or none"
        elif match := SERIES.match(line):
            series[f"{match[1]}{match[2] or ''}"] += 1
            if not any(match[1] == name or match[1].startswith(f"{name}_") for name in typed):
                yield f"{match[1]} has no TYPE before it"
        else:
            yield f"not a line of the format: {line!r}"
    yield from (f"{name} has no words of HELP" for name, words in helped.items() if not words)
    yield from (f"{name} is there {count} times" for name, count in series.items() if count > 1)


def _of_family(family: Metric) -> Iterator[str]:
    name = family.name
    if not NAME.match(name):
        yield f"{name} is not a name of ours"
    if units := set(name.split("_")) & FORBIDDEN_UNITS:
        yield f"{name} is not in base units: {units}"
    if family.type not in ("counter", "gauge", "histogram"):
        yield f"{name} is of type {family.type}"
    if not family.documentation.endswith("."):
        yield f"{name}'s help is no sentence"
    if not family.samples:
        yield f"{name} has no samples"
    for sample in family.samples:
        allowed = {"le"} if family.type == "histogram" else set()
        if reserved := set(sample.labels) & (RESERVED_LABELS - allowed):
            yield f"{sample.name} has reserved labels {reserved}"
        if family.type == "counter" and (sample.name != f"{name}_total" or sample.value < 0):
            yield f"{sample.name} is no counter: {sample.value}"
        if math.isnan(sample.value):
            yield f"{sample.name} is no number"
    if family.type == "histogram":
        yield from _of_histogram(family)


def _of_histogram(family: Metric) -> Iterator[str]:
    buckets: dict[tuple[tuple[str, str], ...], list[tuple[float, float]]] = {}
    counts, sums = {}, {}
    for sample in family.samples:
        key = tuple(sorted((label, value) for label, value in sample.labels.items() if label != "le"))
        if sample.name.endswith("_bucket"):
            buckets.setdefault(key, []).append((float(sample.labels["le"]), sample.value))
        elif sample.name.endswith("_count"):
            counts[key] = sample.value
        else:
            sums[key] = sample.value
    if not buckets.keys() == counts.keys() == sums.keys():
        yield f"{family.name}: not every series has buckets, count and sum"
        return
    for key, found in buckets.items():
        bounds, values = [bound for bound, _ in found], [value for _, value in found]
        if bounds != sorted(set(bounds)) or not math.isinf(bounds[-1]):
            yield f"{family.name}{key}: bounds are not rising to +Inf"
        if values != sorted(values):
            yield f"{family.name}{key}: buckets are not cumulative"
        if values[-1] != counts[key]:
            yield f"{family.name}{key}: the last bucket is not the count"
        if counts[key] and not 0 <= sums[key] <= counts[key] * 1e6:
            yield f"{family.name}{key}: the sum {sums[key]} cannot be"
