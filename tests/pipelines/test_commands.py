"""`headrace pipeline` without Spark being started: lists, shows, and what it refuses in one sentence, quickly."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import msgspec
import pytest

from headrace import spark
from headrace.spark.pipelines.exclusive import exclusive
from headrace.spark.pipelines.kinds import KINDS
from headrace.spark.pipelines.progress import PROGRESS, Progress, append
from headrace.spark.pipelines.settings import parse, settings_of, tree_of
from tests.pipelines.commands import Commands, Ended
from tests.pipelines.conftest import send

pytestmark = pytest.mark.timeout(600)  # several commands, each a Python of its own, on a busy machine

USAGE, UNREACHABLE, NOT_FOUND, REFUSED = 2, 3, 4, 5
QUICKLY_S = 30.0  # a fraction of it on a machine that has nothing else to do
NOBODY = "127.0.0.1:1"
SIMPLE = 'name = "p"\n[source]\ntopic = "nowhere"\n[target]\ntopic = "out"\n'


@pytest.fixture
def pipeline(tmp_path: Path) -> Commands:
    return Commands(tmp_path)


def written(pipeline: Commands, text: str) -> str:
    (pipeline.folder / "p.toml").write_text(text)
    return "p.toml"


def assert_refused(ended: Ended, code: int, *words: str) -> None:
    assert ended.code == code, ended
    first, *rest = ended.err.splitlines()
    assert first.startswith("headrace: ")
    assert all(word in ended.err for word in words), ended.err
    assert [line for line in rest if not line.startswith("  try: ")] == []
    assert ended.out == ""
    assert ended.seconds < QUICKLY_S


def test_list_names_every_kind(pipeline: Commands) -> None:
    rows = pipeline("list").out.splitlines()
    assert [row.split()[0] for row in rows] == ["KIND", *KINDS]
    found = json.loads(pipeline("list", "-o", "json").out)
    assert found == [{"kind": name, "about": kind.about} for name, kind in KINDS.items()]


def test_show_prints_a_kinds_file_and_as_json_what_it_means(pipeline: Commands) -> None:
    assert pipeline("show", "rollup").out == KINDS["rollup"].sample
    shown = json.loads(pipeline("show", "rollup", "-o", "json").out)
    assert settings_of(shown).steps == parse(KINDS["rollup"].sample).steps
    assert shown["rollup"]["window"] == "1 minute"


def test_show_of_a_file_says_every_default_and_the_server_that_is_asked(pipeline: Commands) -> None:
    file = written(pipeline, SIMPLE)
    lines = dict(line.split(maxsplit=1) for line in pipeline("show", file, "-s", NOBODY).out.splitlines())
    assert lines["SERVERS"] == NOBODY
    assert lines["TRIGGER"] == "available-now"
    assert json.loads(lines["SOURCE"])["start"] == "earliest"


def test_show_of_a_file_says_which_wait_is_another_than_it_names(pipeline: Commands) -> None:
    steps = '[dedup]\nby = ["key"]\nwithin = "1 hour"\n[order]\nlate = "5s"\n[target]'
    shown = pipeline("show", written(pipeline, SIMPLE.replace("[target]", steps)), "-o", "json")
    assert shown.err.startswith("[order] late = '5s' is '1 hour' here, as [dedup] within")
    assert json.loads(shown.out)["order"]["late"] == "5s"
    assert pipeline("show", written(pipeline, SIMPLE), "-o", "json").err == ""


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_tree_says_is_the_pipeline_again(kind: str) -> None:
    settings = parse(KINDS[kind].sample)
    again = settings_of(tree_of(settings))
    assert tree_of(again) == tree_of(settings)
    assert set(tomllib.loads(KINDS[kind].sample)) <= set(tree_of(settings))


def test_a_kind_or_file_that_is_not_there_is_named(pipeline: Commands) -> None:
    assert_refused(pipeline("show", "rolup"), NOT_FOUND, "'rolup' is no kind of pipeline and no file", "kinds: archive")
    for verb in ("run", "status", "stop"):
        step = "try: headrace pipeline show KIND > none.toml"
        assert_refused(pipeline(verb, "none.toml"), NOT_FOUND, "there is no file none.toml", step)


def test_a_kind_where_a_file_is_meant_is_told_how_it_becomes_one(pipeline: Commands) -> None:
    said = ("rollup is a kind of pipeline, and no file", "try: headrace pipeline show rollup > rollup.toml")
    for verb in ("run", "status", "stop"):
        assert_refused(pipeline(verb, "rollup"), NOT_FOUND, *said)
    (pipeline.folder / "rollup").write_text(SIMPLE)
    assert json.loads(pipeline("status", "rollup", "-o", "json").out)[0]["name"] == "p"


def test_a_folder_where_a_file_is_meant_is_refused(pipeline: Commands) -> None:
    assert_refused(pipeline("run", "."), REFUSED, ". does not read: Is a directory")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name = ", "p.toml is not TOML"),
        (SIMPLE.replace("topic", "topics", 1), "[source] has no 'topics'; is 'topic' meant?"),
        (SIMPLE + "[rolup]\n", "there is no [rolup]; is 'rollup' meant?"),
    ],
)
def test_a_file_that_makes_no_sense_is_refused(pipeline: Commands, text: str, words: str) -> None:
    for verb in ("run", "status", "stop", "show"):
        assert_refused(pipeline(verb, written(pipeline, text)), REFUSED, words)


def test_no_broker_and_no_topic_are_known_before_spark_is_started(pipeline: Commands, headrace_address: str) -> None:
    file = written(pipeline, SIMPLE)
    assert_refused(pipeline("run", file, "-s", NOBODY), UNREACHABLE, "127.0.0.1:1: connection refused")
    assert_refused(
        pipeline("run", file, "-s", headrace_address),
        NOT_FOUND,
        f"there is no topic 'nowhere' at {headrace_address}",
        "headrace topic list",
    )
    replay = SIMPLE.replace("source", "replay").replace('topic = "nowhere"', 'path = "nowhere"')
    assert_refused(pipeline("run", written(pipeline, replay)), REFUSED, "[replay] path 'nowhere': there is no such")
    assert not (pipeline.folder / "headrace-pipelines").exists()


def test_a_bad_address_trigger_or_setting_is_refused(pipeline: Commands) -> None:
    file = written(pipeline, SIMPLE)
    assert_refused(pipeline("run", file, "-s", "http://x:1"), REFUSED, "leave out http://")
    assert_refused(pipeline("run", file, "--trigger", "soon"), REFUSED, "'soon' is no length of time")
    assert_refused(pipeline("run", file, "--conf", "memory"), USAGE, "--conf 'memory' is not NAME=VALUE")


def test_a_cluster_that_is_not_there_and_settings_that_spark_refuses_are_told_in_a_sentence(
    pipeline: Commands, headrace_address: str
) -> None:
    send(headrace_address, "there", [b"one"])
    run = ("run", written(pipeline, SIMPLE.replace("nowhere", "there")), "-s", headrace_address)
    nobody = "no master of a Spark cluster answers at spark://127.0.0.1:1 (127.0.0.1:1: connection refused)"
    assert_refused(pipeline(*run, "--master", "spark://127.0.0.1:1"), REFUSED, nobody)
    for words, said in (
        (
            ("--master", "nonsense"),
            "it said: Master must either be yarn or start with spark, k8s, or local; more is in",
        ),
        (("--conf", "spark.driver.memory=abc"), "it said: Invalid maximum heap size: -Xmxabc; more is in"),
        (("--master", "local[x]"), "Spark did not start: Could not parse Master URL: 'local[x]'"),
        (("--conf", "spark.sql.shuffle.partitions=abc"), "spark.sql.shuffle.partitions"),
    ):
        ended = pipeline(*run, *words)
        assert ended.code == REFUSED, ended
        (last,) = (line for line in ended.err.splitlines() if line.startswith("headrace: "))
        assert said in last, ended.err
        assert "Traceback" not in ended.err


def test_without_java_it_says_how_to_get_it(tmp_path: Path, headrace_address: str) -> None:
    pipeline = Commands(tmp_path, JAVA_HOME="/nowhere")
    send(headrace_address, "there", [b"one"])
    file = written(pipeline, SIMPLE.replace("nowhere", "there"))
    said = "Spark needs Java 17 or newer, and JAVA_HOME is '/nowhere', and there is no bin/java in it"
    assert_refused(pipeline("run", file, "-s", headrace_address), REFUSED, said)


def test_a_number_that_another_process_has_now_is_no_run(pipeline: Commands) -> None:
    file = written(pipeline, SIMPLE)
    home = pipeline.folder / "headrace-pipelines" / "p"
    home.mkdir(parents=True)
    left = {"name": "p", "pid": os.getpid(), "state": "running", "began": 1.0}
    (home / "run.json").write_text(json.dumps(left))
    (row,) = json.loads(pipeline("status", file, "-o", "json").out)
    assert (row["state"], row["pid"]) == ("killed", None)
    assert_refused(pipeline("stop", file), NOT_FOUND, "p does not run here")


def test_a_run_that_is_refused_the_folder_starts_no_spark_and_changes_nothing_in_it(
    pipeline: Commands, headrace_address: str
) -> None:
    """As when two are started at the same moment: both have seen that none runs."""
    send(headrace_address, "there", [b"one"])
    file = written(pipeline, SIMPLE.replace("nowhere", "there"))
    home = pipeline.folder / "headrace-pipelines" / "p"
    home.mkdir(parents=True)
    kept = {"run.json": b"{}", "spark.log": b"of the other", "stop": b"", "report.html": b"of before", "lock": b""}
    for name, content in kept.items():
        (home / name).write_bytes(content)
    with exclusive(home, "p"):
        assert_refused(
            pipeline("run", file, "-s", headrace_address),
            REFUSED,
            "p runs already; `headrace pipeline stop FILE` ends it",
        )
    assert {one.name: one.read_bytes() for one in home.iterdir()} == kept


def test_what_never_ran_has_no_rows_and_cannot_be_stopped(pipeline: Commands) -> None:
    file = written(pipeline, SIMPLE)
    (row,) = json.loads(pipeline("status", file, "-o", "json").out)
    assert (row["name"], row["state"], row["pid"], row["rows"]) == ("p", "never ran", None, 0)
    assert_refused(pipeline("stop", file), NOT_FOUND, "p does not run here", "headrace pipeline status p.toml")


def test_the_status_counts_what_is_written_down_no_more(pipeline: Commands) -> None:
    file = written(pipeline, SIMPLE)
    home = pipeline.folder / "headrace-pipelines" / "p"
    home.mkdir(parents=True)
    last = Progress(
        batch=1000, at="2026-01-31T00:00:00Z", rows=7, seconds=0.5, rows_per_s=14.0, lag=3, state_rows=0, state_bytes=0,
        late=0, watermark=None,
    )  # fmt: skip
    for _ in range(1001):
        append(home / PROGRESS, msgspec.json.encode(last), limit=10_000)
    (row,) = json.loads(pipeline("status", file, "-o", "json").out)
    assert (row["batches"], row["rows"], row["lag"], row["last"]) == (1001, 7007, 3, last.at)


WITHOUT_SPARK = """
import sys
sys.modules["pyspark"] = None
from headrace.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


def without_spark(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Where Spark is not installed."""
    command = [sys.executable, "-c", WITHOUT_SPARK, "pipeline", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)


def test_kinds_and_files_are_shown_where_spark_is_not_installed(tmp_path: Path) -> None:
    assert all(kind in without_spark(tmp_path, "list").stdout for kind in KINDS)
    for name, kind in KINDS.items():
        assert without_spark(tmp_path, "show", name).stdout == kind.sample
    (tmp_path / "p.toml").write_text(SIMPLE)
    assert json.loads(without_spark(tmp_path, "show", "p.toml", "-o", "json").stdout)["name"] == "p"


@pytest.mark.parametrize("verb", ["run", "status", "stop"])
def test_what_needs_spark_says_how_to_get_it(tmp_path: Path, verb: str) -> None:
    """The tests run in a checkout."""
    (tmp_path / "p.toml").write_text(SIMPLE)
    ended = without_spark(tmp_path, verb, "p.toml")
    assert (ended.returncode, ended.stdout) == (USAGE, "")
    assert ended.stderr == "headrace: Spark is not installed: make setup\n"


def test_an_installed_headrace_names_its_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(spark, "IS_INSTALLED", False)
    monkeypatch.setattr(spark, "__file__", str(tmp_path / "lib" / "headrace" / "spark" / "__init__.py"))
    with pytest.raises(ImportError, match=r'Spark is not installed: pip install "headrace\[spark\]"'):
        spark.check_installed()
