"""What tasks have written lives as long as another task of their query runs, also one that has no row yet."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator

import pyarrow as pa
import pytest

from headrace.errors import ProducerFenced
from headrace.spark import sink
from headrace.spark.sink_options import SinkOptions
from tests.spark.data import create, values
from tests.spark.engine import Context

TIMEOUT_S = 2.0
LONG_S = 3 * TIMEOUT_S


@pytest.fixture
def options(headrace_address: str, topic: str, monkeypatch: pytest.MonkeyPatch) -> SinkOptions:
    create(headrace_address, topic, 1)
    monkeypatch.setattr(sink, "TaskContext", Context)
    return SinkOptions(servers=headrace_address, topic=topic, timeout=20.0, sink_timeout_s=TIMEOUT_S)


def write(options: SinkOptions, number: int | None, task: int, rows: list[bytes], after_s: float = 0.0) -> sink.Written:
    def tables() -> Iterator[pa.RecordBatch]:
        time.sleep(after_s)
        yield pa.record_batch({"value": pa.array(rows, pa.binary())})

    Context.now = (task, 0)
    return sink.write(options, number, f"spark:{options.topic}", 0, tables())


def renewing() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "headrace-renewal"]


@pytest.mark.parametrize("late", [[b"late"], []], ids=["rows", "no rows"])
def test_a_task_that_computes_for_long_before_its_first_row_keeps_what_others_wrote(
    options: SinkOptions, late: list[bytes]
) -> None:
    number = sink.draw(options)
    messages = [write(options, number, 0, [b"soon"]), write(options, number, 1, late, LONG_S)]
    sink.commit(options, messages)
    assert Counter(values(options.servers, options.topic or "")) == Counter([b"soon", *late])
    assert renewing() == []


def test_a_task_that_fails_before_its_first_row_renews_no_longer(options: SinkOptions) -> None:
    def failing() -> Iterator[pa.RecordBatch]:
        assert renewing()
        yield from ()
        raise OSError("no room")

    with pytest.raises(OSError, match="no room"):
        sink.write(options, sink.draw(options), f"spark:{options.topic}", 0, failing())
    assert renewing() == []


def test_a_task_of_a_write_that_was_replaced_while_it_computed_writes_nothing(options: SinkOptions) -> None:
    old = sink.draw(options)
    new = sink.draw(options)
    kept = write(options, new, 0, [b"new"])
    with pytest.raises(ProducerFenced, match=rf"write {old} of .* was replaced by write {new}"):
        write(options, old, 1, [b"old"], TIMEOUT_S / 2)  # it was told meanwhile, and again when it opens
    sink.commit(options, [kept])
    assert values(options.servers, options.topic or "") == [b"new"]
    assert renewing() == []
