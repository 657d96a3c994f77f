"""A pipeline's file: what it says, and that what it cannot mean is refused in one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.spark.errors import InvalidOption
from headrace.spark.pipelines.kinds import KINDS
from headrace.spark.pipelines.settings import Archive, Dedup, Rollup, Source, load, parse
from headrace.spark.pipelines.times import interval, seconds
from headrace.spark.pipelines.waits import overruled

SOURCE = '[source]\ntopic = "orders"\n'
TARGET = '[target]\ntopic = "done"\n'


@pytest.mark.parametrize("kind", KINDS)
def test_the_sample_of_every_kind_is_a_pipeline(kind: str) -> None:
    settings = parse(KINDS[kind].sample)
    assert settings.servers == "127.0.0.1:9092"
    assert settings.home == Path("headrace-pipelines") / settings.name


def test_steps_come_in_the_order_of_the_file() -> None:
    text = (
        'name = "x"\n'
        + SOURCE
        + '[rollup]\nwindow = "1 minute"\nvalues = {n = "count"}\n[dedup]\nby = ["id"]\n'
        + TARGET
    )
    assert [type(step) for step in parse(text).steps] == [Rollup, Dedup]


def test_a_file_is_read_whole(tmp_path: Path) -> None:
    file = tmp_path / "p.toml"
    file.write_text(
        'name = "x"\ntrigger = "10s"\nservers = "h:1"\n'
        '[source]\npattern = "o.*"\n[archive]\npath = "a"\nformat = "delta"\n'
    )
    settings = load(file)
    assert settings.beginning == Source(pattern="o.*")
    assert settings.end == Archive(path=str(tmp_path / "a"), format="delta")
    assert (settings.trigger, settings.servers) == ("10s", "h:1")


def test_paths_are_seen_from_the_file_wherever_it_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "orders.avsc").write_text("{}")
    (tmp_path / "p.toml").write_text(
        'name = "x"\n[source]\ntopic = "a"\nformat = "avro"\nschema = "orders.avsc"\n[archive]\npath = "a"\n'
    )
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    here = load("p.toml")
    assert str(here.home) == "headrace-pipelines/x"
    monkeypatch.chdir("elsewhere")
    there = load("../p.toml")
    assert there.home.resolve() == (tmp_path / "headrace-pipelines" / "x").resolve()
    assert isinstance(there.end, Archive) and Path(there.end.path).resolve() == (tmp_path / "a").resolve()
    assert isinstance(there.beginning, Source) and Path(there.beginning.schema).is_file()


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ('folder = "/f/x"\n[replay]\npath = "/b"\n[archive]\npath = "/a"\n', True),
        ('folder = "/f/x"\n[replay]\npath = "s3a://b/c"\n[archive]\npath = "hdfs://n/a"\n', True),
        ('[replay]\npath = "b"\n[archive]\npath = "a"\n', False),
    ],
)
def test_paths_that_name_their_place_stay_as_they_are(tmp_path: Path, text: str, same: bool) -> None:
    text = f'name = "x"\n{text}'
    (tmp_path / "p.toml").write_text(text)
    assert (load(tmp_path / "p.toml") == parse(text)) == same


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "one [source] or [replay]"),
        ('name = "x"\n' + SOURCE, "one [target] or [archive]"),
        (SOURCE + TARGET, "a pipeline has a name"),
        ('name = "a b"\n' + SOURCE + TARGET, "letters, digits"),
        ('name = "x"\n[sorce]\ntopic = "a"\n' + TARGET, "is 'source' meant?"),
        ('name = "x"\n[source]\ntopics = "a"\n' + TARGET, "is 'topic' meant?"),
        ('name = "x"\n[source]\ntopic = 1\n' + TARGET, "[source] expected `str`"),
        ('name = "x"\n[source]\n' + TARGET, "a topic or a pattern"),
        ('name = "x"\n[source]\npattern = "["\n' + TARGET, "[source] pattern '[' is not a regular expression"),
        ('name = "x"\n[source]\ntopic = "a"\nmax_rows = -1\n' + TARGET, "[source] max_rows is a number of rows"),
        (
            'name = "x"\n[source]\ntopic = "a"\nstart = "tomorrow"\n' + TARGET,
            "[source] start 'tomorrow' is no time; earliest, latest or 2026-01-31T12:00:00Z is",
        ),
        ('name = "x"\n[replay]\ntopic = "a"\nrate = -1\n' + TARGET, "[replay] rate is a number of rows a second"),
        ('name = "x"\n[replay]\ntopic = "a"\nuntil = "noon"\n' + TARGET, "[replay] until 'noon' is no time"),
        (
            'name = "x"\n' + SOURCE + '[rollup]\nwindow = "0s"\nvalues = {n = "count"}\n' + TARGET,
            "[rollup] window is longer than '0s'",
        ),
        ('name = "x"\n[source]\ntopic = "a"\npattern = "b"\n' + TARGET, "a topic or a pattern"),
        ('name = "x"\n[source]\ntopic = "a"\nformat = "avro"\n' + TARGET, "needs a schema: a file"),
        ('name = "x"\n[source]\ntopic = "a"\nformat = "protobuf"\nschema = "a.desc"\n' + TARGET, "and a message"),
        (
            'name = "x"\n[source]\ntopic = "a"\nformat = "json"\nmessage = "a.B"\n' + TARGET,
            "message is of format protobuf",
        ),
        ('name = "x"\n[source]\ntopic = "a"\nformat = "text"\nschema = "a int"\n' + TARGET, "'text' has no schema"),
        ('name = "x"\n[source]\ntopic = "a"\nformat = "xml"\n' + TARGET, "none of raw, json"),
        ('name = "x"\n' + SOURCE + TARGET + '[archive]\npath = "a"\n', "one only"),
        ('name = "x"\n[replay]\n' + TARGET, "a path or a topic"),
        ('name = "x"\n' + SOURCE + '[archive]\npath = "a"\nformat = "orc"\n', "none of parquet, delta"),
        ('name = "x"\n' + SOURCE + '[dedup]\nby = ["id"]\n[deadletter]\ntopic = "bad"\n' + TARGET, "the first step"),
        ('name = "x"\n' + SOURCE + '[order]\n[dedup]\nby = ["id"]\n' + TARGET, "[order] is the last step"),
        ('name = "x"\ntrigger = "soon"\n' + SOURCE + TARGET, "'soon' is no length of time"),
        ('name = "x"\n' + SOURCE + '[archive]\npath = "headrace-pipelines/x"\n', "folder of the pipeline itself"),
        ('name = "x"\n[source]\ntopic = "z, b"\n[target]\ntopic = "b"\n', "'b' is what [source] reads"),
        ('name = "x"\n[source]\npattern = "b.*"\n[target]\ntopic = "b.out"\n', "'b.out' is one that [source] pattern"),
        (
            'name = "x"\n[source]\ntopic = "a"\n[deadletter]\ntopic = "a"\n[target]\ntopic = "b"\n',
            "[deadletter] topic 'a' is what [source] reads",
        ),
        ('name = "x"\nfolder = "s3a://b/x"\n' + SOURCE + TARGET, "is on the machine that runs it"),
        ('name = "x"\n' + SOURCE + '[dedup]\nby = ["key"]\nwithin = "a while"\n' + TARGET, "[dedup] within: 'a while'"),
        ('name = "x"\n' + SOURCE + "[dedup]\nby = []\n" + TARGET, "[dedup] by names the columns"),
        ('name = "x"\n' + SOURCE + '[rollup]\nwindow = "1 minute"\nvalues = {}\n' + TARGET, "says what is computed"),
        ('name = "x"\n' + SOURCE + '[rollup]\nwindow = "x"\nvalues = {n = "count"}\n' + TARGET, "[rollup] window: 'x'"),
        (
            'name = "x"\n' + SOURCE + '[rollup]\nwindow = "1 minute"\nvalues = {n = "total(a)"}\n' + TARGET,
            "n = 'total(a)' is none of count",
        ),
        (
            'name = "x"\n' + SOURCE + '[rollup]\nwindow = "1 minute"\nvalues = {n = "quantile(a, 2)"}\n' + TARGET,
            "has a share from 0 to 1",
        ),
        ("name =", "not TOML"),
    ],
)
def test_what_a_file_cannot_mean_is_refused_in_one_sentence(text: str, words: str) -> None:
    with pytest.raises(InvalidOption) as refused:
        parse(text, "p.toml")
    assert words in str(refused.value)
    assert str(refused.value).startswith("p.toml")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match="No such file"):
        load(tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("text", "spark", "length"),
    [
        ("10s", "10 seconds", 10),
        ("5 minutes", "5 minutes", 300),
        ("1 hour", "1 hour", 3600),
        ("250ms", "250 milliseconds", 0.25),
    ],
)
def test_a_length_of_time_is_said_as_spark_says_it(text: str, spark: str, length: float) -> None:
    assert interval(text) == spark
    assert seconds(spark) == length


@pytest.mark.parametrize(
    ("within", "late", "time", "told"),
    [
        ("1 hour", "10 minutes", "at", "[rollup] late = '10 minutes' is '1 hour' here, as [dedup] within: steps that"),
        ("60s", "10 minutes", "at", "[dedup] within = '60s' is '10 minutes' here, as [rollup] late: steps that"),
        ("1 hour", "60m", "at", ""),
        ("1 hour", "10 minutes", "", ""),
        ("1 hour", "10 minutes", "_timestamp", ""),
    ],
)
def test_who_names_a_shorter_wait_than_another_step_of_the_same_time_is_told(
    within: str, late: str, time: str, told: str
) -> None:
    steps = f'[dedup]\nby = ["id"]\ntime = "at"\nwithin = "{within}"\n[rollup]\ntime = "{time}"\nlate = "{late}"\n'
    text = 'name = "x"\n' + SOURCE + 'format = "json"\n' + steps + 'window = "1m"\nvalues = {n = "count"}\n' + TARGET
    assert [sentence[: len(told)] for sentence in overruled(parse(text))] == ([told] if told else [])


def test_the_time_that_is_not_named_is_the_records_own() -> None:
    named = '[dedup]\nby = ["key"]\nwithin = "1h"\ntime = "timestamp"\n'
    (told,) = overruled(parse('name = "x"\n' + SOURCE + named + '[order]\nlate = "5s"\n' + TARGET))
    assert told.startswith("[order] late = '5s' is '1h' here, as [dedup] within")
