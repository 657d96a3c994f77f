"""Why Spark failed, in one sentence: out of stacks of Java's and Python's, or of what Java left in its log.

An error of Spark's keeps its words in Java, so it has to be asked while Java is there.
"""

from __future__ import annotations

import re
from itertools import dropwhile, takewhile
from pathlib import Path
from typing import Final

TRACEBACK: Final = "Traceback (most recent call last):"
CAUSED_BY: Final = "\nCaused by: "
JAVA_CALL: Final = re.compile(r"An error occurred while calling .*\n: ")
JAVA_ENDED: Final = re.compile(r'^(?:Exception in thread "main" |Error: |Invalid )', re.MULTILINE)
LOG_BYTES: Final = 64 * 1024  # of a log that is looked through
OURS: Final = re.compile(r"\bheadrace[\w.]*\.[A-Z]\w*: ")  # an error of ours, behind what Spark says of it
OTHER_SOURCES: Final = "sources in the checkpoint offsets and now there are"
OTHER_PARTS: Final = (
    "the file has other parts than when its checkpoint was made ([deadletter] or a source came or went), and a query"
    " cannot go on so; to begin anew where `start` says, remove the pipeline's folder (what it has written stays)"
)


def cause_of(error: BaseException) -> str:
    """The sentence in stacks of Java's and Python's that says what went wrong: the end of the innermost traceback, else
    what Spark says first; of either, what we said, if we did."""
    text = JAVA_CALL.sub("", str(error))
    if OTHER_SOURCES in text:
        return OTHER_PARTS
    if TRACEBACK in text:
        spoken = _sentence(text.rpartition(TRACEBACK)[2].splitlines()[1:])
    else:
        spoken = text.partition(" terminated with exception: ")[2] or text
    if (ours := OURS.search(spoken)) is not None:
        return spoken[ours.end() :].splitlines()[0].partition(" SQLSTATE: ")[0].strip()
    said = _plain(_sentence(spoken.splitlines()).partition(" SQLSTATE: ")[0].strip())
    if said.endswith(":") and CAUSED_BY in text:
        return cause_of(RuntimeError(text.rpartition(CAUSED_BY)[2]))
    return said or type(error).__name__


def _sentence(lines: list[str]) -> str:
    """From the first line that is not indented to the end of what it begins: stacks are indented."""
    started = list(dropwhile(lambda line: not line.strip() or line[0].isspace(), lines))
    return " ".join(line.strip() for line in takewhile(lambda line: line.strip() and not line[0].isspace(), started))


def _plain(said: str) -> str:
    """Without the names of the errors, which stand in front."""
    head, _, rest = said.partition(": ")
    while rest and " " not in head:
        said = rest
        head, _, rest = said.partition(": ")
        if "." not in head:  # it may be a word of the sentence
            break
    return re.sub(r"^\[[A-Z_.]+\] ", "", said)


def last_words(log: Path) -> str | None:
    """What Java said when it ended, if it is among the first that it said at all: it did not come far."""
    with log.open("rb") as file:
        text = file.read(LOG_BYTES).decode(errors="replace")
    found = JAVA_ENDED.search(text)
    if found is None:
        return None
    start = found.start() if found[0] == "Invalid " else found.end()
    return cause_of(RuntimeError(text[start:].splitlines()[0]))
