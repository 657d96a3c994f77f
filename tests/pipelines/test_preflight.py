"""What is known of a broker before Spark is started."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.spark.errors import InvalidOption
from headrace.spark.pipelines.preflight import check_archive, check_ready
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


def test_folders_that_cannot_be_made_are_told_by_the_name_of_their_setting(
    headrace_address: str, topic: str, tmp_path: Path
) -> None:
    send(headrace_address, topic, [b"one"])
    (tmp_path / "file").touch()
    tree = {"name": "p", "servers": headrace_address, "folder": str(tmp_path / "p"), "source": {"topic": topic}}
    under_file = str(tmp_path / "file" / "x")
    with pytest.raises(InvalidOption, match=r"^folder '.*file/x' cannot be made: not a directory$"):
        check_ready(settings_of(tree | {"folder": under_file, "target": {"topic": "out"}}))
    to_files = settings_of(tree | {"archive": {"path": under_file}})
    with pytest.raises(InvalidOption, match=r"^\[archive\] path '.*file/x' cannot be made: not a directory$"):
        check_archive(to_files, "local[2]")
    check_archive(to_files, "yarn")  # where such a path may be one of HDFS
    check_archive(settings_of(tree | {"archive": {"path": "s3a://bucket/a"}}), "local[2]")
