"""How a leader shares out: all is given, evenly, to who wants it, and cooperative members keep what they have."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headrace.client.assignors import Shares, by_cooperative_sticky, by_range
from headrace.client.memberships import (
    Subscription,
    given_partitions,
    put_assignment,
    put_subscription,
    read_subscription,
    wanted_topics,
)
from headrace.client.values import TopicPartition


def places(topic: str, *partitions: int) -> list[TopicPartition]:
    return [TopicPartition(topic, partition) for partition in partitions]


def test_range_gives_neighbours_in_the_order_of_names() -> None:
    wish = Subscription(("t", "u"))
    shares = by_range({"b": wish, "a": wish, "c": Subscription(("u",))}, {"t": 3, "u": 3})
    assert shares["a"] == [*places("t", 0, 1), *places("u", 0)]
    assert shares["b"] == [*places("t", 2), *places("u", 1)]
    assert shares["c"] == places("u", 2)


def test_range_puts_static_members_first_by_their_own_names() -> None:
    members = {"a": Subscription(("t",)), "z": Subscription(("t",), instance="one")}
    assert by_range(members, {"t": 2}) == {"z": places("t", 0), "a": places("t", 1)}


def test_a_newcomer_is_given_nothing_that_somebody_still_holds() -> None:
    held = Subscription(("t",), tuple(places("t", 0, 1, 2, 3)), 4)
    shares = by_cooperative_sticky({"a": held, "b": Subscription(("t",))}, {"t": 4})
    assert shares == {"a": places("t", 0, 1), "b": []}
    after = {"a": Subscription(("t",), tuple(shares["a"]), 5), "b": Subscription(("t",), (), 5)}
    assert by_cooperative_sticky(after, {"t": 4}) == {"a": places("t", 0, 1), "b": places("t", 2, 3)}


def test_of_two_claims_the_newer_counts_and_of_two_equal_ones_none() -> None:
    both = tuple(places("t", 0))
    old, new = Subscription(("t",), both, 3), Subscription(("t",), both, 4)
    assert by_cooperative_sticky({"a": old, "b": new}, {"t": 1}) == {"a": [], "b": places("t", 0)}
    assert by_cooperative_sticky({"a": new, "b": new}, {"t": 1}) == {"a": [], "b": []}


def test_what_is_gone_or_not_wanted_any_more_is_not_kept() -> None:
    held = Subscription(("t",), (*places("t", 0, 7), *places("u", 0)), 1)
    assert by_cooperative_sticky({"a": held}, {"t": 1, "u": 1}) == {"a": places("t", 0)}


TOPICS = st.sampled_from(["t", "u", "v"])
COUNTS = st.dictionaries(TOPICS, st.integers(0, 12))
WISHES = st.dictionaries(
    st.sampled_from([f"m{n}" for n in range(7)]), st.lists(TOPICS, unique=True, min_size=1), min_size=1
)


def settled(members: dict[str, Subscription], counts: dict[str, int]) -> tuple[Shares, int]:
    """As rounds go: who gave up joins again, until nothing changes."""
    for rounds in range(1, 5):
        shares = by_cooperative_sticky(members, counts)
        claimed = [one for share in shares.values() for one in share]
        assert len(claimed) == len(set(claimed)), "given to two"
        held = {name: set(member.owned) for name, member in members.items()}
        for name, share in shares.items():
            others = set().union(*(owned for other, owned in held.items() if other != name))
            assert not others & set(share), "given away while it is held"
        after = {name: member._replace(owned=tuple(shares[name])) for name, member in members.items()}
        if after == members:
            return shares, rounds
        members = after
    raise AssertionError("it does not settle")


@given(WISHES, COUNTS, st.randoms(use_true_random=False))
def test_cooperative_rounds_end_with_everything_given_and_evenly(wishes, counts, chance) -> None:  # type: ignore[no-untyped-def]
    members = {name: Subscription(tuple(topics), (), 1) for name, topics in wishes.items()}
    for topic, count in counts.items():  # some hold something, at most one each
        for one in places(topic, *range(count)):
            name = chance.choice(sorted(members))
            if topic in members[name].topics and chance.random() < 0.7:
                members[name] = members[name]._replace(owned=(*members[name].owned, one))
    shares, _ = settled(members, counts)
    given_out = {one for share in shares.values() for one in share}
    wanted = {topic for topics in wishes.values() for topic in topics}
    assert given_out == {one for topic in wanted for one in places(topic, *range(counts.get(topic, 0)))}
    for name, share in shares.items():
        for one in share:
            others = [other for other in members if one.topic in members[other].topics]
            assert len(share) - min(len(shares[other]) for other in others) <= 1, f"{name} has too many"


@given(st.integers(1, 8), st.integers(0, 30))
def test_who_leaves_costs_the_others_nothing_that_they_have(count: int, partitions: int) -> None:
    members = {f"m{n}": Subscription(("t",), (), 1) for n in range(count + 1)}
    before, _ = settled(members, {"t": partitions})
    left = {name: Subscription(("t",), tuple(before[name]), 2) for name in list(members)[1:]}
    after, rounds = settled(left, {"t": partitions})
    assert rounds <= 2 and all(set(before[name]) <= set(after[name]) for name in left)


def test_what_is_written_is_read_back() -> None:
    said = Subscription(("t", "ü"), tuple(places("t", 3, 1)), 7)
    assert read_subscription(put_subscription(said), None) == said
    assert wanted_topics(put_subscription(said)) == ("t", "ü")
    assert given_partitions(put_assignment(places("t", 2, 0))) == tuple(places("t", 0, 2))


def test_a_subscription_of_any_version_is_read_as_far_as_it_goes() -> None:
    whole = put_subscription(Subscription(("t",), tuple(places("t", 1)), 7))
    zero = b"\0\0" + whole[2 : 2 + 4 + 3] + b"\xff\xff\xff\xff"
    assert read_subscription(zero) == Subscription(("t",))
    one = b"\0\1" + whole[2:-6]
    assert read_subscription(one) == Subscription(("t",), tuple(places("t", 1)), 7)  # from the assignor's own data
    assert read_subscription(b"connect") == Subscription(())
