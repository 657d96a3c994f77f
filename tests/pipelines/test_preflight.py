"""What is known of a broker before Spark is started."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.spark.pipelines.preflight import check_ready
from headrace.spark.pipelines.settings import settings_of
from tests.pipelines.conftest import send

pytestmark = pytest.mark.timeout(300)  # the first run fetches Kafka


@pytest.mark.parametrize(
    ("sections", "writes"),
    [
        ({"target": {"topic": "out"}}, True),
        ({"archive": {"path": "a"}}, False),
        ({"deadletter": {"topic": "bad"}, "archive": {"path": "a"}}, True),
    ],
)
def test_who_writes_to_a_foreign_broker_is_told_that_it_is_at_least_once(
    headrace_address: str, kafka_address: str, topic: str, tmp_path: Path, sections: dict[str, Any], writes: bool
) -> None:
    said = {}
    for address in (headrace_address, kafka_address):
        send(address, topic, [b"one"])
        tree = {"name": "p", "servers": address, "folder": str(tmp_path), "source": {"topic": topic}, **sections}
        said[address] = check_ready(settings_of(tree))
    assert said[headrace_address] == []
    assert [f"{kafka_address} is not a Headrace" in one and "at least once" in one for one in said[kafka_address]] == (
        [True] if writes else []
    )
