"""What a failed query says: one sentence out of Java's and Python's stacks."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.spark.pipelines.causes import cause_of, last_words

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
        (
            (
                "An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.\n"
                ": org.apache.spark.SparkException: Could not parse Master URL: 'local[x]'\n\tat x"
            ),
            "Could not parse Master URL: 'local[x]'",
        ),
        (
            (
                "Error while instantiating 'org.apache.x':\n\nJVM stacktrace:\njava.lang.IllegalArgumentException: y\n"
                "\tat x\nCaused by: java.lang.NumberFormatException: 'a' is not a number\n\tat x"
            ),
            "'a' is not a number",
        ),
        (
            PYTHON.replace(
                "OSError: no room", "py4j.protocol.Py4JJavaError: An error occurred while calling o180.mkdirs."
            ).replace(
                "\tat py4j", ": org.apache.hadoop.fs.FileAlreadyExistsException: Destination exists: /a\n\tat py4j"
            ),
            "Destination exists: /a",
        ),
        (
            (
                "[DELTA_X] This Delta operation requires the SparkSession to be configured with the\nextension and the"
                " catalog.\n\nPlease set it.\n\tat x"
            ),
            "This Delta operation requires the SparkSession to be configured with the extension and the catalog.",
        ),
        ("java.lang.RuntimeException: java.lang.ClassNotFoundException: Class A not found", "Class A not found"),
        ("java.io.IOException: Mkdirs failed: /a is no folder", "Mkdirs failed: /a is no folder"),
        ("", "RuntimeError"),
    ],
)
def test_the_cause_is_one_sentence(text: str, cause: str) -> None:
    assert cause_of(RuntimeError(text)) == cause


@pytest.mark.parametrize(
    ("log", "words"),
    [
        (
            'WARNING: Using x\nException in thread "main" org.apache.spark.SparkException: Master must be yarn\n\tat x',
            "Master must be yarn",
        ),
        ("Invalid maximum heap size: -Xmxabc\nError: Could not create", "Invalid maximum heap size: -Xmxabc"),
        ("WARNING: Using x\n", None),
    ],
)
def test_what_java_said_when_it_ended_is_found_in_its_log(tmp_path: Path, log: str, words: str | None) -> None:
    (tmp_path / "spark.log").write_text(log)
    assert last_words(tmp_path / "spark.log") == words
