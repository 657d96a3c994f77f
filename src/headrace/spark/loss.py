"""Records that a query was to read and that are gone: told in one sentence, as an error or, with failOnDataLoss=false,
as a warning, so that what is skipped is never skipped without a word."""

from __future__ import annotations

import logging

from headrace.errors import HeadraceError
from headrace.spark.errors import DataLost

logger = logging.getLogger("headrace.spark")

ADVICE = "failOnDataLoss=false goes on without it"


def report(words: str, is_fatal: bool, kind: type[HeadraceError] = DataLost) -> None:
    if is_fatal:
        raise kind(f"{words}; {ADVICE}")
    logger.warning("%s; reading goes on, as failOnDataLoss=false asks", words)


def gone_before(topic: str, partition: int, wanted: int, first: int) -> str:
    gone = "retention or a deletion took" if first - wanted > 1 else "retention or a deletion took offset"
    span = f"{wanted} to {first - 1}" if first - wanted > 1 else str(wanted)
    return f"topic {topic!r} partition {partition}: {gone} {span} before it was read"


def went_back(topic: str, partition: int, wanted: int, end: int) -> str:
    return (
        f"topic {topic!r} partition {partition} ends at {end}, and was read or planned up to {wanted}: the log was cut,"
        " or the topic made anew"
    )


def held_up(topic: str, partition: int, wanted: int, end: int) -> str:
    return (
        f"topic {topic!r} partition {partition} can be read up to {end}, not {wanted}, while a transaction is open in"
        " it: wait until that ends, or read with isolation=read_uncommitted"
    )


def made_anew(topic: str) -> str:
    return f"topic {topic!r} was deleted and made again: the offsets of before mean nothing in it"


def vanished(topic: str, partition: int | None = None) -> str:
    return f"topic {topic!r}{'' if partition is None else f' partition {partition}'} is not there any more"
