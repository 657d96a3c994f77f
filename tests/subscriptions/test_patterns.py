"""What a pattern matches, and how quickly it is found among many."""

from __future__ import annotations

import gc
import time
import tracemalloc
import weakref
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.broker.subscriptions import index as index_module
from headrace.broker.subscriptions.index import CHANGES_KEPT, PatternIndex
from headrace.broker.subscriptions.long_name import LongName
from headrace.broker.subscriptions.pattern import SYSTEM, Pattern, _last

FEW = st.text(alphabet="ab/é!", max_size=8)
WILD = st.text(alphabet="ab/é!*?", max_size=8)
SYSTEMS = st.sampled_from(["", "!system", "!system/", "!sys"])
LONGER = st.text(alphabet="ab*?", min_size=8, max_size=24)  # long enough for drawers of every size
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


@given(
    st.lists(
        st.one_of(
            st.tuples(st.sampled_from(["add", "remove"]), st.one_of(patterns, LONGER), st.integers(0, 3)),
            st.tuples(st.just("many"), st.sampled_from(["x", "a"]), st.integers(1, 2 * CHANGES_KEPT)),
            st.tuples(st.just("look"), st.just(""), st.just(0)),
        ),
        max_size=40,
    ),
    st.lists(st.one_of(names, st.text(alphabet="ab", min_size=8, max_size=24)), min_size=1, max_size=4),
)
def test_what_the_index_remembers_of_names_is_right_while_patterns_come_and_go(
    steps: list[tuple[str, str, int]], asked: list[str]
) -> None:
    index: PatternIndex[int] = PatternIndex()
    held: dict[tuple[str, int], None] = {}
    for what, pattern, number in (*steps, ("look", "", 0)):
        if what == "look":
            for name in asked:
                found = list(index.owners(name))
                assert sorted(found) == sorted({owner for text, owner in held if wanted(text, name)})
        elif what == "many":
            for count in range(number):  # more than the index remembers
                index.add(f"{pattern}{count % 3}*", 4)
                index.remove(f"{pattern}{count % 3}*", 4)
        elif what == "add":
            index.add(pattern, number)
            held[pattern, number] = None
        else:
            found_pattern = index.remove(pattern, number)
            assert (found_pattern is not None) == ((pattern, number) in held)
            held.pop((pattern, number), None)
    for pattern, owner in held:
        index.remove(pattern, owner)
    assert not len(index)
    assert not any(drawers._by_length for drawers in index._all)
    assert not index._found
    assert not index._weight


def quickest(*tries: Callable[[], object]) -> float:
    """Seconds of this thread's own work: whatever else the machine does is not counted."""
    times = []
    for one in tries:
        began = time.thread_time()
        one()
        times.append(time.thread_time() - began)
    return min(times)


SLOW = [
    "*a" * 100 + "*b",
    "*a?" * 60 + "*b",
    "*" + "a?" * 60 + "b*",
    "*a?b*",
    "*" + "?" * 100 + "b*",
    "a*" * 100 + "?b",
]


@pytest.mark.parametrize("text", SLOW)
def test_a_pattern_made_to_be_slow_is_not(text: str) -> None:
    def tries(name: str) -> None:
        assert not Pattern(text).matches(name)

    assert quickest(*(lambda: tries("a" * 249) for _ in range(3))) < 0.02
    for name in ("a" * 1_000_000, "é" * 500_000 + "\N{SNOWMAN}" * 2):
        assert quickest(*(lambda name=name: tries(name) for _ in range(3))) < 0.5


@pytest.mark.parametrize("text", ["*a?b*", "*/sensor-??/*"])
def test_a_name_of_a_megabyte_is_found_in_the_time_that_it_takes_to_read_it(text: str) -> None:
    index: PatternIndex[int] = PatternIndex()
    index.add(text, 1)
    for number in range(100):
        index.add(f"*/inner-{number}/*", 2)
    name = "ab" * 500_000
    tracemalloc.start()
    try:
        assert not index.owners(name)
        now, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 16 * len(name)
    assert now < len(name) // 10, "nothing of it is kept"
    assert quickest(*(lambda: index.owners(name) for _ in range(3))) < 1
    assert list(index.owners(name + "a-b" + "/inner-7/" + "/sensor-12/" + name)) == [1, 2]


@given(st.one_of(patterns, LONGER), st.text(alphabet="ab/é!☃😀", max_size=24))
def test_a_long_name_is_matched_as_any_other(pattern: str, name: str) -> None:
    assert _last(Pattern(pattern).steps(LongName(name))) == wanted(pattern, name)


def test_a_search_for_a_long_name_does_no_more_than_it_is_asked_to_and_survives_changes() -> None:
    index: PatternIndex[int] = PatternIndex()
    for number in range(1_000):
        index.add(f"*-{number}-*", number)
    name = "x" * 10_000 + "-7--500--998--999-x"
    search = index.search(name)
    turns = 0
    while search.go_on(100_000):
        turns += 1
        if turns == 10:
            index.add("x*", 2_000)
            index.remove("*-998-*", 998)
            index.remove("*-3-*", 3)
    assert turns > 90
    assert sorted(search.owners) == [7, 500, 999]
    assert sorted(index.owners(name)) == [7, 500, 999, 2_000]


def test_among_ten_thousand_patterns_a_topic_is_found_in_less_than_a_millisecond() -> None:
    index: PatternIndex[int] = PatternIndex()
    for number in range(2_500):
        index.add(f"plain/{number}", number)
        index.add(f"site/{number}/*", number)
        index.add(f"*/sensor-{number}", number)
        index.add(f"room-{number}-?/temp*", number)
    assert len(index) == 10_000

    def look(first: int) -> None:
        """Names that nobody asked for yet."""
        for number in range(first, 2_500, 250):
            assert list(index.owners(f"plain/{number}")) == [number]
            assert list(index.owners(f"site/{number}/x")) == [number]
            assert list(index.owners(f"x/sensor-{number}")) == [number]
            assert list(index.owners(f"room-{number}-a/temperature")) == [number]

    assert quickest(*(lambda first=first: look(first) for first in range(5))) / 40 < 0.001
    assert len(index._found) == 5 * 40


class Tries:
    """Counts how often a pattern is tried."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count, matches = 0, Pattern.matches

        def counted(pattern: Pattern, name: str) -> bool:
            self.count += 1
            return matches(pattern, name)

        monkeypatch.setattr(Pattern, "matches", counted)

    def taken(self) -> int:
        count, self.count = self.count, 0
        return count


CLASSES: dict[str, tuple[Callable[[int], str], Callable[[int], str]]] = {  # of patterns, with names that they match
    "literal": (lambda n: f"plain/{n}", lambda n: f"plain/{n}"),
    "prefix": (lambda n: f"site/{n}/*", lambda n: f"site/{n}/x"),
    "suffix": (lambda n: f"*/sensor-{n}", lambda n: f"x/sensor-{n}"),
    "inner": (lambda n: f"*/sensor-{n}/*", lambda n: f"x/sensor-{n}/y"),
    "inner of long names": (lambda n: f"*/sensor-{n}/*", lambda n: f"{'x' * 120}/sensor-{n}/{'y' * 110}"),
    "one character": (lambda n: f"?ensor-{n}/?", lambda n: f"sensor-{n}/y"),
    "every second character": (lambda n: "?".join(f"{n:05}"), lambda n: "-".join(f"{n:05}")),
    "the same and a star": (lambda n: "*" + "?".join(f"{n:05}"), lambda n: "x" + "-".join(f"{n:05}")),
    "mixed": (lambda n: f"s*te/{n}/?ensor*nd", lambda n: f"site/{n}/sensor/end"),
    "the same ends": (lambda n: f"site/*/{n}-?/*/end", lambda n: f"site/x/{n}-a/y/end"),
    "one character inside": (
        lambda n: f"*-{n // 100:02}?{n % 100:02}-*",
        lambda n: f"a-{n // 100:02}x{n % 100:02}-b",
    ),
}


@pytest.mark.parametrize("kind", CLASSES)
def test_of_ten_thousand_patterns_of_one_kind_few_are_tried(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pattern, name = CLASSES[kind]
    index: PatternIndex[int] = PatternIndex()
    tries = Tries(monkeypatch)
    for number in range(10_000):
        index.add(pattern(number), number)
    assert tries.taken() == 0
    asked = range(0, 10_000, 50)
    for number in asked:
        assert number in index.owners(name(number))
    assert tries.taken() < (200 if kind == "one character inside" else 50) * len(asked)
    for number in asked:
        index.owners(name(number))
    assert tries.taken() == 0, "what was found is kept"
    for number in range(10_000):
        index.remove(pattern(number), number)
    assert tries.taken() == 0


def test_whoever_subscribes_all_the_time_makes_nobody_look_again(monkeypatch: pytest.MonkeyPatch) -> None:
    index: PatternIndex[int] = PatternIndex()
    for number in range(1_000):
        index.add(f"*/sensor-{number}/*", number)
    asked = [f"x/sensor-{number}/y" for number in range(1_000)]
    for name in asked:
        index.owners(name)
    looks: list[str] = []
    look = index._look
    monkeypatch.setattr(index, "_look", lambda name: looks.append(name) or look(name))  # type: ignore[func-returns-value]
    for turn in range(20):
        index.add(f"other-{turn}-*", 7)
        for name in asked:
            assert list(index.owners(name)) == [asked.index(name)]
        index.remove(f"other-{turn}-*", 7)
    assert looks == []
    index.add("x/sensor-5/?", 7)
    assert [sorted(index.owners(name)) for name in asked[4:7]] == [[4], [5, 7], [6]]
    assert looks == [asked[5]]


def test_ten_thousand_patterns_of_one_owner_that_all_match_are_found_by_the_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    index: PatternIndex[int] = PatternIndex()
    for number in range(5_000):
        index.add("".join("a?"[int(bit)] for bit in f"{number:013b}") + "*", 1)
        index.add("".join("?*"[int(bit)] for bit in f"{number:013b}"), 1)
    tries = Tries(monkeypatch)
    for number in range(100):
        assert list(index.owners(f"{'a' * 20}-{number}")) == [1]
    assert tries.taken() <= 100 * 20


def test_what_is_kept_of_names_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_module, "NAMES_KEPT", 50)
    monkeypatch.setattr(index_module, "OWNERS_KEPT", 100)
    index: PatternIndex[int] = PatternIndex()
    for owner in range(10):
        index.add("*", owner)
    for number in range(1_000):
        assert len(index.owners(f"n{number}")) == 10
    assert len(index._found) == 50
    index.add("?*", 10)
    for number in range(1_000):
        assert len(index.owners(f"n{number}")) == 11
    assert len(index._found) == 9, "each has a list of its own, of eleven"
    index.owners("n" * 1_000)
    assert len(index._found) == 9


def test_a_pattern_longer_than_any_name_costs_nothing_but_its_text() -> None:
    index: PatternIndex[int] = PatternIndex()

    def add(number: int) -> None:
        index.add("a" + "*" * 1_000_000 + f"{number}", number)
        index.add("a?" * 500_000 + f"{number}", number)
        assert not index.owners(f"aaaaaa{number}")

    def add_all() -> None:
        for number in range(4):
            add(number)

    assert quickest(add_all) < 2


class Client:
    """Who subscribes."""


@pytest.mark.parametrize("own", ["*", "?*", "topic-*"], ids=["of the same pattern", "of another", "of one apart"])
def test_the_index_does_not_hold_on_to_who_is_gone(own: str) -> None:
    index: PatternIndex[Client] = PatternIndex()
    stays = Client()
    index.add("*", stays)
    gone = []
    for number in range(1_000):
        client = Client()
        gone.append(weakref.ref(client))
        index.add(own, client)
        assert set(index.owners(f"topic-{number}")) == {stays, client}
        index.remove(own, client)
    del client
    gc.collect()
    held = sum(one() is not None for one in gone)
    assert held <= (0 if own == "*" else CHANGES_KEPT // 2 + 1)
    assert len(index._found) <= CHANGES_KEPT
    for _ in range(CHANGES_KEPT):
        index.add("other", stays)
    index.add("other", stays)
    gc.collect()
    assert not any(one() is not None for one in gone)
