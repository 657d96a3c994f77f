"""What a pattern matches, and how quickly it is found among many."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.broker.subscriptions.index import PatternIndex
from headrace.broker.subscriptions.pattern import SYSTEM, Pattern

FEW = st.text(alphabet="ab/é!", max_size=8)
WILD = st.text(alphabet="ab/é!*?", max_size=8)
SYSTEMS = st.sampled_from(["", "!system", "!system/", "!sys"])
names = st.builds(str.__add__, SYSTEMS, FEW)
patterns = st.builds(str.__add__, SYSTEMS, WILD)


def naive(pattern: str, name: str) -> bool:
    """By the rules, one character at a time."""
    if not pattern:
        return not name
    if pattern[0] == "*":
        return any(naive(pattern[1:], name[taken:]) for taken in range(1, len(name) + 1))
    return bool(name) and pattern[0] in ("?", name[0]) and naive(pattern[1:], name[1:])


def wanted(pattern: str, name: str) -> bool:
    return naive(pattern, name) and (not name.startswith(SYSTEM) or pattern.startswith(SYSTEM))


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("foo*", "food foo/ foo/bar", "foo fo"),
        ("**", "ab abc", "a"),
        ("fo*l", "fool foil fo/l", "fol focus"),
        ("*/temp", "a/temp a/b/temp", "/temp temp"),
        ("a*b*c", "aXbYc aXbbc aXbYcc", "abc aXXbc"),
        ("?", "a é /", "ab"),
        ("a?c", "abc a/c aéc", "ac abbc"),
        ("*", "a a/b !sys", "!system !system/metrics/connections"),
        ("!system*", "!system/metrics/connections !systems", "!system"),
        ("!system", "!system", "!system/"),
        ("!?ystem/x", "", "!system/x"),
        ("a.b", "a.b", "axb"),
        ("[ab]", "[ab]", "a"),
    ],
)
def test_patterns_match_as_documented(pattern: str, yes: str, no: str) -> None:
    for name in yes.split():
        assert Pattern(pattern).matches(name), name
    for name in no.split():
        assert not Pattern(pattern).matches(name), name
    assert not Pattern(pattern).matches("")


def test_the_empty_pattern_matches_the_empty_name_alone() -> None:
    assert Pattern("").matches("")
    assert not Pattern("").matches("a")


def test_a_line_end_is_a_character_as_any_other() -> None:
    assert Pattern("a?b").matches("a\nb")
    assert Pattern("a*").matches("a\n")


@given(patterns, names)
def test_a_pattern_matches_exactly_what_the_rules_say(pattern: str, name: str) -> None:
    assert Pattern(pattern).matches(name) == wanted(pattern, name)


@given(st.lists(st.tuples(patterns, st.integers(0, 3))), st.lists(st.tuples(patterns, st.integers(0, 3))), names)
def test_the_index_finds_everybody_whose_pattern_matches_once(
    added: list[tuple[str, int]], removed: list[tuple[str, int]], name: str
) -> None:
    index: PatternIndex[int] = PatternIndex()
    left = dict.fromkeys(added)
    for pattern, owner in added:
        index.add(pattern, owner)
    for pattern, owner in removed + added[:2]:
        index.remove(pattern, owner)
        left.pop((pattern, owner), None)
    found = list(index.owners(name))
    assert sorted(found) == sorted({owner for pattern, owner in left if wanted(pattern, name)})
    for pattern, owner in left:
        index.remove(pattern, owner)
    assert not len(index)
    assert not index._prefixes._by_length
    assert not index._suffixes._by_length


def test_a_pattern_made_to_be_slow_is_not() -> None:
    pattern = Pattern("*a" * 100 + "*b")
    began = time.perf_counter()
    assert not pattern.matches("a" * 249)
    assert time.perf_counter() - began < 0.05


def test_among_ten_thousand_patterns_a_topic_is_found_in_less_than_a_millisecond() -> None:
    index: PatternIndex[int] = PatternIndex()
    for number in range(2_500):
        index.add(f"plain/{number}", number)
        index.add(f"site/{number}/*", number)
        index.add(f"*/sensor-{number}", number)
        index.add(f"room-{number}-?/temp*", number)
    assert len(index) == 10_000
    quickest = 1.0
    for _ in range(5):
        began = time.perf_counter()
        for number in range(0, 2_500, 250):
            assert list(index.owners(f"plain/{number}")) == [number]
            assert list(index.owners(f"site/{number}/x")) == [number]
            assert list(index.owners(f"x/sensor-{number}")) == [number]
            assert list(index.owners(f"room-{number}-a/temperature")) == [number]
        quickest = min(quickest, (time.perf_counter() - began) / 40)
    assert quickest < 0.001
