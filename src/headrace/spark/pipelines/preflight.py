"""What can be known wrong before Spark is started, which takes seconds and many words: that it runs already, that no
broker answers, that there is no such topic, archive or column."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from headrace.errors import UnknownTopic
from headrace.spark.errors import InvalidOption
from headrace.spark.pipelines import columns
from headrace.spark.pipelines.run import PipelineRuns, state_of
from headrace.spark.pipelines.settings import ELSEWHERE, Archive, Replay, Settings

CLIENT_ID: Final = "headrace-pipeline"
TIMEOUT_S: Final = 10.0  # of the broker's answer: a run wants one that is there


def check_ready(settings: Settings, timeout_s: float = TIMEOUT_S) -> None:
    columns.check(settings)
    state = state_of(settings.home)
    if state is not None and state.is_running:
        raise PipelineRuns(f"{settings.name} runs already, as process {state.pid}; `headrace pipeline stop` ends it")
    begin = settings.beginning
    if isinstance(begin, Replay) and begin.path:
        _check_folder(begin.path)
    if isinstance(begin, Replay) and begin.path and isinstance(settings.end, Archive) and settings.deadletter is None:
        return  # from files to files
    _check_broker(settings, [name.strip() for name in begin.topic.split(",") if name.strip()], timeout_s)


def _check_folder(path: str) -> None:
    if not ELSEWHERE.match(path) and not Path(path).is_dir():
        raise InvalidOption(f"[replay] path {path!r}: there is no such folder")


def _check_broker(settings: Settings, topics: list[str], timeout_s: float) -> None:
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
