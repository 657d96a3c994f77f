"""The forms of output: the same rows as a table, JSON, JSON lines, YAML and CSV; plain where there is no terminal."""

from __future__ import annotations

import json

import msgspec
import pytest
import yaml

from headrace.cli.options import Options, Output
from headrace.cli.output import Column, done, show, show_one


class Thing(msgspec.Struct, frozen=True):
    name: str
    count: int
    note: str | None = None


THINGS = [Thing("a", 1), Thing("long-name", 1000, "x,y")]
COLUMNS = [Column("name"), Column("count", align="right"), Column("note", wide=True)]


def shown(capsys: pytest.CaptureFixture[str], rows: list[Thing], output: Output | None, **more: bool) -> str:
    show(rows, COLUMNS, Options(output=output, **more), empty="nothing yet")  # type: ignore[arg-type]
    return capsys.readouterr().out


def test_a_table_without_a_terminal_is_plain_columns(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, THINGS, None) == "NAME       COUNT\na              1\nlong-name   1000\n"


def test_wide_has_the_columns_that_a_table_leaves_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, THINGS, "wide").splitlines()[0].split() == ["NAME", "COUNT", "NOTE"]


def test_an_empty_table_says_what_to_do_next_and_empty_json_is_a_list(capsys: pytest.CaptureFixture[str]) -> None:
    show([], COLUMNS, Options(), empty="nothing yet")
    assert capsys.readouterr() == ("", "nothing yet\n")
    assert shown(capsys, [], "json").strip() == "[]"
    assert shown(capsys, [], "jsonl") == ""
    assert yaml.safe_load(shown(capsys, [], "yaml")) == []
    assert shown(capsys, [], "csv") == "name,count,note\n"


def test_json_yaml_and_csv_carry_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    plain = [msgspec.to_builtins(thing) for thing in THINGS]
    assert json.loads(shown(capsys, THINGS, "json")) == plain
    assert [json.loads(line) for line in shown(capsys, THINGS, "jsonl").splitlines()] == plain
    assert yaml.safe_load(shown(capsys, THINGS, "yaml")) == plain
    assert shown(capsys, THINGS, "csv") == 'name,count,note\na,1,\nlong-name,1000,"x,y"\n'


def test_one_thing_is_an_object_or_a_line_for_each_field(capsys: pytest.CaptureFixture[str]) -> None:
    show_one(THINGS[1], COLUMNS, Options())
    assert capsys.readouterr().out == "NAME   long-name\nCOUNT  1000\n"
    show_one(THINGS[1], COLUMNS, Options(output="json"))
    assert json.loads(capsys.readouterr().out) == msgspec.to_builtins(THINGS[1])


def test_what_was_done_is_words_for_people_and_the_result_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    done("Done.", THINGS[0], Options())
    done("Done.", THINGS[0], Options(verbosity=-1))
    done("Done.", THINGS[0], Options(output="jsonl"))
    done("Done.", THINGS[0], Options(output="csv"))
    assert capsys.readouterr().out == 'Done.\n{"name":"a","count":1,"note":null}\nname,count,note\na,1,\n'


def test_no_text_from_a_server_can_move_the_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    out = shown(capsys, [Thing("\x1b[2Jgone\r\n", 1)], None)
    assert "\x1b" not in out
    assert out.splitlines()[1].startswith("\\x1b[2Jgone\\r\\n")


def test_wide_characters_keep_the_columns_in_line(capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(capsys, [Thing("日本", 1), Thing("abcd", 2)], None).splitlines()
    assert lines[1] == "日本      1"
    assert lines[2] == "abcd      2"


def test_colour_draws_the_table_and_hides_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    out = shown(capsys, THINGS, None, color=True)
    assert "long-name" in out
    assert "1000" in out
