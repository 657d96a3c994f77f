"""What the log has lost before a pipeline read it is told to whoever runs it, when it goes on without."""

from __future__ import annotations

import pytest

import headrace
from tests.pipelines.commands import SMALL, Commands
from tests.pipelines.conftest import send
from tests.pipelines.test_command_runs import home, numbered, pipeline  # noqa: F401 (a fixture)
from tests.pipelines.test_topics import read


@pytest.mark.timeout(600)
def test_a_run_that_goes_on_without_what_was_deleted_says_so_on_the_terminal_and_in_its_file(
    pipeline: Commands,  # noqa: F811
    headrace_address: str,
    topic: str,
) -> None:
    file = pipeline.folder / "copy.toml"
    file.write_text(file.read_text().replace("[target]", "fail_on_data_loss = false\n[target]"))
    run = ("run", "copy.toml", "-s", headrace_address, *SMALL)
    send(headrace_address, topic, numbered(0, 30))
    first = pipeline(*run)
    assert first.code == 0 and "lost" not in first.out + first.err
    send(headrace_address, topic, numbered(30, 130))
    with headrace.connect(headrace_address) as client:
        client.admin.delete_records(topic, {0: 50})
    second = pipeline(*run)
    words = f"topic '{topic}' partition 0: retention or a deletion took 30 to 49 before it was read"
    assert second.code == 0 and (second.out + second.err).count(f"lost: {words}") == 1, second
    assert (home(pipeline) / "progress.jsonl").read_text().count(words) == 1
    assert sorted(record.value or b"" for record in read(headrace_address, f"{topic}.copy", 110)) == sorted(
        [*numbered(0, 30), *numbered(50, 130)]
    )
