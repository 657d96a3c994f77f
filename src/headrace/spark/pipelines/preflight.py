"""What can be known wrong before Spark is started, which takes seconds and many words: that it runs already, that no
broker answers, and no master of the cluster, that there is no such topic, archive or column."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Final

from headrace.errors import UnknownTopic
from headrace.spark.errors import InvalidOption, SparkDidNotStart
from headrace.spark.pipelines import columns
from headrace.spark.pipelines.exclusive import PipelineRuns
from headrace.spark.pipelines.run import state_of
from headrace.spark.pipelines.settings import ELSEWHERE, Archive, Replay, Settings, Target

CLIENT_ID: Final = "headrace-pipeline"
TIMEOUT_S: Final = 10.0  # of the broker's answer: a run wants one that is there
MASTER_TIMEOUT_S: Final = 5.0  # of each master's; Spark itself would try for a minute
STANDALONE: Final = "spark://"
AT_LEAST_ONCE: Final = (
    "{} is not a Headrace, and keeps no ledger: rows are written to its topics at least once, and a run that is cut"
    " off may write some twice"
)


def check_ready(settings: Settings, timeout_s: float = TIMEOUT_S) -> list[str]:
    """Gives sentences of what is no error, and worth knowing before."""
    columns.check(settings)
    state = state_of(settings.home)
    if state is not None and state.is_running:
        raise PipelineRuns(
            f"{settings.name} runs already, as process {state.pid}; `headrace pipeline stop FILE` ends it"
        )
    begin, end = settings.beginning, settings.end
    known = []
    if isinstance(begin, Replay) and begin.path:
        _check_folder(begin.path)
    if not (isinstance(begin, Replay) and begin.path and isinstance(end, Archive) and settings.deadletter is None):
        known = _check_broker(settings, [name.strip() for name in begin.topic.split(",") if name.strip()], timeout_s)
    _make_folder(str(settings.home), "folder")
    return known


def check_archive(settings: Settings, master: str) -> None:
    """That its folder can be made, where a plain path is one of this machine."""
    is_here = master.startswith("local") and not os.environ.get("HADOOP_CONF_DIR")
    if is_here and isinstance(settings.end, Archive) and not ELSEWHERE.match(settings.end.path):
        _make_folder(settings.end.path, "[archive] path")


def check_master(master: str) -> None:
    """That one of a standalone cluster's masters is there; which of them leads is Spark's to find out."""
    if not master.startswith(STANDALONE):
        return
    whys = []
    for address in master.removeprefix(STANDALONE).split(","):
        host, _, port = address.rpartition(":")
        if not (host and port.isdecimal()):
            return  # Spark has its own words for it
        try:
            socket.create_connection((host.strip("[]"), int(port)), MASTER_TIMEOUT_S).close()
        except (OSError, OverflowError) as error:
            whys.append(f"{address}: {getattr(error, 'strerror', None) or error}".lower())
        else:
            return
    raise SparkDidNotStart(f"no master of a Spark cluster answers at {master} ({'; '.join(whys)})")


def _check_folder(path: str) -> None:
    if not ELSEWHERE.match(path) and not Path(path).is_dir():
        raise InvalidOption(f"[replay] path {path!r}: there is no such folder")


def _make_folder(path: str, setting: str) -> None:
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidOption(f"{setting} {path!r} cannot be made: {(error.strerror or str(error)).lower()}") from None


def _check_broker(settings: Settings, topics: list[str], timeout_s: float) -> list[str]:
    import headrace
    from headrace.client.addresses import parse

    try:
        parse(settings.servers)
    except ValueError as error:
        raise InvalidOption(f"servers {settings.servers!r}: {error}") from None
    with headrace.connect(settings.servers, CLIENT_ID, timeout_s) as client:
        if not topics:
            client.admin.topics()  # a pattern matches what comes, too; that a broker answers is enough
        for name in topics:
            try:
                client.admin.topic(name)
            except UnknownTopic:
                raise UnknownTopic(f"there is no topic {name!r} at {settings.servers}") from None
        writes = isinstance(settings.end, Target) or settings.deadletter is not None
        return [AT_LEAST_ONCE.format(settings.servers)] if writes and not client.admin.has_sinks() else []
