"""`headrace config`: a node's settings without a node."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from headrace.cli import exits
from headrace.cli.config import Checked, Explained, SettingRow, Written
from headrace.node.settings import SETTINGS
from tests.cli.running import Run, checked
from tools import settings_page


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No file of whoever runs the tests is read, and none of their variables."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    for name in [name for name in os.environ if name.startswith("HEADRACE_")]:
        monkeypatch.delenv(name)


def test_show_lists_every_setting_with_its_value_and_who_said_so(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("headrace.toml").write_text("[node]\nid = 4\n")
    monkeypatch.setenv("HEADRACE_IDLE_MS", "5m")
    rows = {row.key: row for row in run("config", "show", "-o", "json").rows(SettingRow)}
    assert list(rows) == [setting.key for setting in SETTINGS]
    assert (rows["node.id"].value, rows["node.id"].source, rows["node.id"].where) == (4, "file", "headrace.toml:2")
    idle = rows["kafka.idle-ms"]
    assert (idle.value, idle.shown, idle.where, idle.default) == (300_000, "5m", "HEADRACE_IDLE_MS", "10m")
    table = run("config", "show")
    assert "KEY" in table.out and "node.id" in table.out and "MEANING" not in table.out
    assert "MEANING" in run("config", "show", "-o", "wide").out


def test_show_changed_leaves_out_what_is_at_its_default(run: Run) -> None:
    assert run("config", "show", "--changed").out == ""
    assert run("config", "show", "--changed").err == "Everything is at its default.\n"
    changed = run("config", "show", "--changed", "-o", "json", "--", "--kafka", "off").rows(SettingRow)
    assert [(row.key, row.value, row.source, row.where) for row in changed] == [
        ("kafka.listen", "off", "flag", "--kafka")
    ]


def test_show_takes_a_section_and_refuses_one_that_is_not_there(run: Run) -> None:
    keys = [row.key for row in run("config", "show", "log", "-o", "json").rows(SettingRow)]
    assert keys == ["log.format", "log.level", "log.levels"]
    refused = run("config", "show", "kafak")
    assert (refused.code, refused.out) == (exits.NOT_FOUND, "")
    assert "no setting begins with 'kafak'" in refused.err


def test_explain_says_what_a_setting_is_and_why_its_value_is_what_it_is(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("headrace.toml").write_text('[kafka]\n\nidle-ms = "1h"\n')
    monkeypatch.setenv("HEADRACE_IDLE_MS", "5m")
    told = run("config", "explain", "HEADRACE_IDLE_MS", "-o", "json", "--", "--idle-ms", "30s").row(Explained)
    assert (told.key, told.value, told.source, told.where) == ("kafka.idle-ms", 30_000, "flag", "--idle-ms")
    assert [(one.where, one.value) for one in told.overruled] == [("HEADRACE_IDLE_MS", "5m"), ("headrace.toml:3", "1h")]
    assert (told.type, told.least, told.most, told.flag) == ("duration", 1000, None, "--idle-ms")
    table = run("config", "explain", "kafka.idle-ms").out
    for words in ("A connection on which nothing moves", "HEADRACE_IDLE_MS", "headrace.toml:3 (1h)", "at least 1s"):
        assert words in table
    assert "OVERRULED" not in run("config", "explain", "node.id").out


def test_explain_knows_every_setting(run: Run) -> None:
    for setting in SETTINGS:
        assert run("config", "explain", setting.key, "-o", "json").row(Explained).meaning == setting.meaning


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("log.retention.ms", "topic.defaults.retention.ms"),
        ("log.retention.hours", "topic.defaults.retention.ms"),
        ("log.retention.minutes", "topic.defaults.retention.ms"),
        ("log.roll.hours", "topic.defaults.segment.ms"),
        ("retention.ms", "topic.defaults.retention.ms"),
        ("topic.retention.ms", "topic.defaults.retention.ms"),
        ("num.partitions", "topics.default-partitions"),
        ("offsets.retention.minutes", "groups.retention-minutes"),
    ],
)
def test_explain_finds_a_setting_by_the_name_that_kafka_or_a_topic_has_for_it(run: Run, name: str, key: str) -> None:
    assert run("config", "explain", name, "-o", "json").row(Explained).key == key


def test_explain_finds_every_setting_by_its_kafka_name(run: Run) -> None:
    for setting in SETTINGS:
        if setting.kafka_name:
            assert run("config", "explain", setting.kafka_name, "-o", "json").row(Explained).key == setting.key


def test_a_file_with_a_kafka_name_in_another_unit_is_told_the_key(run: Run) -> None:
    Path("headrace.toml").write_text('"log.retention.hours" = 24\n')
    assert "did you mean topic.defaults.retention.ms" in run("config", "validate").err


def test_explain_names_the_nearest_when_there_is_no_such_setting(run: Run) -> None:
    refused = run("config", "explain", "kafka.lisen")
    assert refused.code == exits.NOT_FOUND
    assert "there is no setting 'kafka.lisen'" in refused.err
    assert "try: `headrace config explain kafka.listen`" in refused.err


def test_what_cannot_be_understood_is_told_before_values_are(run: Run) -> None:
    Path("headrace.toml").write_text("[node]\nid = -4\n")
    for verb in (["show"], ["explain", "node.id"]):
        refused = run("config", *verb)
        assert (refused.code, refused.out) == (exits.REFUSED, "")
        assert "headrace.toml:2: node.id: takes 0 to 2147483646, not -4" in refused.err
        assert "the settings have 1 problem" in refused.err


def test_validate_tells_every_problem_and_ends_with_its_code(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("headrace.toml").write_text("[node]\nid = -4\nidd = 5\n")
    monkeypatch.setenv("HEADRACE_KAFKA", "x")
    monkeypatch.setenv("HEADRACE_KAFAK", "x")
    found = run("config", "validate")
    assert found.code == exits.CHECK_FAILED
    assert found.out == "headrace.toml: 3 problems.\n"
    assert len(found.err.splitlines()) == 4  # and the variable that is none
    alone = run("config", "validate", "headrace.toml", "-o", "json")
    assert alone.code == exits.CHECK_FAILED
    told = checked(msgspec.json.decode(alone.out), Checked)
    assert [row.where for row in told.problems] == ["headrace.toml:2", "headrace.toml:3"]
    assert (told.valid, alone.err) == (False, "")


def test_validate_of_a_good_file_says_so(run: Run) -> None:
    Path("good.json").write_text('{"node": {"id": 4}}')
    assert run("config", "validate", "good.json").out == "good.json: valid.\n"
    told = run("config", "validate", "good.json", "-o", "json").row(Checked)
    assert told == Checked("good.json", True, [], [])
    assert run("config", "validate").out == "no file; the environment and the defaults: valid.\n"
    assert run("config", "validate", "missing.toml").code == exits.CHECK_FAILED


def test_init_writes_a_file_that_is_valid_and_changes_nothing(run: Run) -> None:
    assert run("config", "init").out.startswith("Wrote headrace.toml")
    assert run("config", "validate").out == "headrace.toml: valid.\n"
    assert run("config", "show", "--changed", "-o", "json").rows(SettingRow) == []
    again = run("config", "init")
    assert again.code == exits.REFUSED
    assert "--force" in again.err
    assert run("config", "init", "--force", "-o", "json").row(Written) == Written("headrace.toml", len(SETTINGS))
    assert run("config", "init", "-").out == Path("headrace.toml").read_text()
    assert run("config", "init", "x.json").code == exits.USAGE
    assert run("config", "init", "no/such/folder/x.toml").code == exits.STORAGE


@pytest.mark.parametrize("verb", ["show", "explain", "validate", "init"])
def test_every_verb_has_help_with_an_example(run: Run, verb: str) -> None:
    told = run("config", verb, "--help")
    assert told.code == 0
    assert "Examples:" in told.out and f"headrace config {verb}" in told.out


def test_the_pages_about_settings_are_what_the_tables_say() -> None:
    assert settings_page.REFERENCE.read_text() == settings_page.reference(), "run `make figures`"
    page = settings_page.PAGE.read_text()
    assert settings_page.page(page) == page, "run `make figures`"
    for setting in SETTINGS:
        assert f"`{setting.key}`" in settings_page.REFERENCE.read_text()
