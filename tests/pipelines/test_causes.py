"""What a failed query says: one sentence out of Java's and Python's stacks."""

from __future__ import annotations

import pytest

from headrace.spark.pipelines.run import cause_of

PYTHON = """[FOREACH_BATCH_USER_FUNCTION_ERROR] Reason: Return Message: Traceback (most recent call last):
  File "archive.py", line 51, in write
    self._write(rows)
OSError: no room
	at py4j.Protocol.getReturnValue(Protocol.java:476)
"""


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (PYTHON, "no room"),
        (PYTHON.replace("OSError", "headrace.errors.UnknownTopic"), "no room"),
        (
            "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: [A_B] It broke. SQLSTATE: 4\n\tat x",
            "It broke.",
        ),
        (
            (
                "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: [A_B] Failed to do x:"
                " headrace.errors.UnknownTopic: topic 'a': there is no such topic\n SQLSTATE: 38000\n\tat x"
            ),
            "topic 'a': there is no such topic",
        ),
        ("", "RuntimeError"),
    ],
)
def test_the_cause_is_one_sentence(text: str, cause: str) -> None:
    assert cause_of(RuntimeError(text)) == cause
