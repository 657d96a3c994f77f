"""Configuration files: TOML and JSON, where a key stands, and everything that can be wrong with one."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.node.settings import PLACES, SETTINGS, load, read
from headrace.node.settings.file import MAX_FILE_BYTES
from headrace.node.settings.lines import in_json, in_toml
from headrace.node.settings.sample import sample


def problems(tmp_path: Path, text: str | bytes, name: str = "node.toml") -> list[str]:
    file = tmp_path / name
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return [str(problem).removeprefix(f"{tmp_path}/") for problem in load({"config": str(file)}, {}).problems]


def test_toml_and_json_of_the_same_shape_say_the_same(tmp_path: Path) -> None:
    toml = """
        [node]
        data = "d"
        tail_memory_bytes = "2MiB"
        [kafka]
        listen = "off"
        idle-ms = 60000
        [topics]
        auto-create = false
        default = ["a:2", { name = "b", config = { retention.ms = "1d" } }]
        [topic.defaults]
        retention.ms = "2d"
        "segment.bytes" = "1MiB"
        [log.levels]
        kafka = "debug"
    """
    (tmp_path / "n.toml").write_text(toml)
    (tmp_path / "n.json").write_text(json.dumps(tomllib.loads(toml), indent=2))
    first, second = (read({"config": str(tmp_path / name)}, {}) for name in ("n.toml", "n.json"))
    assert first == second
    assert (first.kafka, first.tail_memory_bytes, first.broker.auto_create_topics) == (None, 2 << 20, False)
    assert first.broker.topic_defaults == {"retention.ms": "172800000", "segment.bytes": "1048576"}
    assert [topic.name for topic in first.default_topics] == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[kafka]\nlisen = 'x:1'", "node.toml:2: kafka.lisen is not a setting; did you mean kafka.listen (HOST:PORT"),
        ("[kafak]\nlisten = 'x:1'", "node.toml:1: [kafak] is not a section; did you mean [kafka]?"),
        ("kafka = 'x:1'", "node.toml:1: kafka is a section, not a setting; in it are kafka.listen,"),
        ("idle-ms = 5", "node.toml:1: idle-ms is not a setting; did you mean kafka.idle-ms ("),
        ("num.partitions = 5", "node.toml:1: num.partitions is not a setting; did you mean topics.default-partitions"),
        ('"num.partitions" = 5', "did you mean topics.default-partitions"),
        ("[topic]\nretention.ms = 5", "did you mean topic.defaults.retention.ms"),
        ("[node]\nx = '''a\nb", "node.toml:3: Expected"),
        ("zebra = 5", "node.toml:1: zebra is not a setting; `headrace config show` lists them all"),
        ("[node]\n\nid = true", "node.toml:3: node.id: takes a whole number, 0 to 2147483646, not true"),
        ("[node]\nid = [1]", "node.toml:2: node.id: takes a whole number, 0 to 2147483646, not a list"),
        ("[node]\nid = 1.5", "not 1.5"),
        ("[node]\nid = 1979-05-27", "not 1979-05-27"),
        ("[node.id]\nx = 1", "node.toml:1: node.id: takes a whole number, 0 to 2147483646, not a section"),
        ("[node]\nid = 1\nid = 2", "node.toml:3: is there already: a key or section is given twice: 'id = 2'"),
        ("[kafka]\nidle-ms = 1000\nidle_ms = 2000", "node.toml:3: kafka.idle-ms was given before, at "),
        ("[node]\nid = ", "node.toml:2: Invalid value: 'id ='"),
        ("[topics]\ndefault = [\n 'a',\n 'a'\n]", "node.toml:2: topics.default: names the topic 'a' twice"),
        ("[topic.defaults]\ncompression.type = 'lz4'", "topic.defaults.compression.type: takes 'producer' alone"),
        (b"\xff", "node.toml: is not UTF-8 text"),
        (b"#" * (MAX_FILE_BYTES + 1), "node.toml: is over 1048576 bytes"),
    ],
)
def test_what_is_wrong_is_told_with_its_line_and_what_was_perhaps_meant(
    tmp_path: Path, text: str | bytes, words: str
) -> None:
    (problem,) = problems(tmp_path, text)
    assert words in problem


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{\n"node": {"id": 1,\n"id": 2}}', "n.json:3: node.id was given before, at line 2"),
        ('{"node": {"id": 1}, "node": {}}', "n.json:1: node was given before, at line 1"),
        ('{"node":\n', "n.json:2: is not JSON: Expecting value"),
        ("[]", "n.json: holds no object"),
        ('{"node": {"id": null}}', "n.json:1: node.id: takes a whole number, 0 to 2147483646, not None"),
        ("[" * 100_000, "n.json: is nested too deeply"),
    ],
)
def test_json_is_held_to_the_same(tmp_path: Path, text: str, words: str) -> None:
    (problem,) = problems(tmp_path, text, "n.json")
    assert words in problem


def test_a_file_that_was_named_must_be_there(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing.toml")
    for flags, environment in (({"config": missing}, {}), ({}, {"HEADRACE_CONFIG": missing})):
        (problem,) = load(flags, environment).problems
        assert str(problem) == f"{missing}: cannot be read: No such file or directory"
    (problem,) = load({"config": str(tmp_path)}, {}).problems
    assert "Is a directory" in str(problem)


def test_a_file_in_a_usual_place_is_found_and_off_leaves_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert load({}, {}, PLACES[:2]).problems == []
    Path(PLACES[1]).write_text('{"node": {"id": 2}}')
    assert read({}, {}, PLACES).node_id == 2
    Path(PLACES[0]).write_text("node.id = 1")
    assert read({}, {}, PLACES).node_id == 1
    assert read({"config": "off"}, {}, PLACES).node_id == 0
    assert read({"config": PLACES[1]}, {"HEADRACE_CONFIG": PLACES[0]}, PLACES).node_id == 2


def test_a_file_with_windows_line_ends_and_a_byte_order_mark_reads(tmp_path: Path) -> None:
    assert problems(tmp_path, b"\xef\xbb\xbf[node]\r\nid = 5\r\n") == []


def test_the_file_to_begin_with_names_every_setting_and_uncommented_it_changes_nothing(tmp_path: Path) -> None:
    text = sample()
    file = tmp_path / "headrace.toml"
    file.write_text(text)
    assert read({"config": str(file)}, {}) == read({}, {})
    keys = [
        line[2:]
        for line in text.splitlines()
        if line.startswith("# ") and " = " in line and line[2] in '"abcdefhilmrstu'
    ]
    uncommented = "\n".join(line.removeprefix("# ") if line[2:] in keys else line for line in text.splitlines())
    file.write_text(uncommented)
    tree = load({"config": str(file)}, {})
    assert tree.problems == []
    assert all(tree.held(setting).origin.source == "file" for setting in SETTINGS)
    assert all(tree.held(setting).value == setting.kind.parse(setting.default) for setting in SETTINGS)


TRICKY = '''
# [not.a.section]
top = 1
"quoted.key" = "a # no comment"
a.b = {c = 1, d = "}"} # x = 2
list = [
  "x = 1", # ]
  [1, 2],
  """
fake = 1
"""
]
text = \'\'\'
fake = 2\'\'\'
[ one . "two" ]
x="\\""
[[many]]
name = 1
[[many]]
name = 2
'''


def test_keys_are_found_where_they_stand_whatever_stands_around_them() -> None:
    tomllib.loads(TRICKY)
    found = list(in_toml(TRICKY))
    assert found == [
        (("top",), 3),
        (("quoted.key",), 4),
        (("a", "b"), 5),
        (("list",), 6),
        (("text",), 13),
        (("one", "two"), 15),
        (("one", "two", "x"), 16),
        (("many",), 17),
        (("many", "name"), 18),
        (("many",), 19),
        (("many", "name"), 20),
    ]


trees = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.lists(st.text() | st.integers(), max_size=3),
    lambda inner: st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.text(), trees, max_size=4), st.sampled_from([None, 0, 2]))
def test_every_key_of_any_json_is_found(tree: dict[str, object], indent: int | None) -> None:
    def paths(node: object, above: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
        if not isinstance(node, dict):
            return []
        return [path for key, value in node.items() for path in ((*above, key), *paths(value, (*above, key)))]

    text = json.dumps(tree, indent=indent)
    found = list(in_json(text))
    assert [path for path, _ in found] == paths(tree)
    for path, line in found:
        assert json.dumps(path[-1]) in text.split("\n")[line - 1]


@given(st.binary(max_size=200))
def test_no_file_is_a_fault_of_ours(tmp_path_factory: pytest.TempPathFactory, raw: bytes) -> None:
    file = tmp_path_factory.getbasetemp() / "any.toml"
    file.write_bytes(raw)
    load({"config": os.fspath(file)}, {})
