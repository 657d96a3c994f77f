"""How a group's leader shares out partitions: `range` and `cooperative-sticky`, as Kafka's own clients understand them.
Pure functions of who wants what and how many partitions there are; the same question gives the same answer.

- `range`: of each topic, a run of neighbours to each member that wants it, in the order of their names.
- `cooperative-sticky`: as even as can be, and every partition stays where it is unless evenness asks for a move. A
  partition that is to move is left out of this round: its holder gives it up first, joins again, and the next round
  gives it away. So nobody stops reading what it keeps, and no partition is read by two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from headrace.client.memberships import Subscription
from headrace.client.values import TopicPartition

RANGE: Final = "range"
COOPERATIVE: Final = "cooperative-sticky"

Members = Mapping[str, Subscription]  # by member id
Counts = Mapping[str, int]  # partitions by topic; one that is not there has none
Shares = dict[str, list[TopicPartition]]


def by_range(members: Members, counts: Counts) -> Shares:
    shares: Shares = {member: [] for member in members}
    topics = sorted({topic for member in members.values() for topic in member.topics})
    for topic in topics:
        wanting = sorted(
            (name for name in members if topic in members[name].topics), key=lambda name: _rank(members, name)
        )
        each, more = divmod(counts.get(topic, 0), len(wanting))
        first = 0
        for index, name in enumerate(wanting):
            last = first + each + (index < more)
            shares[name] += [TopicPartition(topic, partition) for partition in range(first, last)]
            first = last
    return shares


def by_cooperative_sticky(members: Members, counts: Counts) -> Shares:
    shares, owners, disputed = _kept(members, counts)
    _give_out(shares, members, counts)
    _balance(shares, members)
    for name, share in shares.items():
        share[:] = sorted(one for one in share if owners.get(one, name) == name and one not in disputed)
    return shares


ASSIGNORS: Final[Mapping[str, Callable[[Members, Counts], Shares]]] = {
    RANGE: by_range,
    COOPERATIVE: by_cooperative_sticky,
}


def _rank(members: Members, name: str) -> tuple[bool, str]:
    """Static members first, by their own names, so that a restart changes nothing."""
    instance = members[name].instance
    return instance is None, instance if instance is not None else name


def _kept(members: Members, counts: Counts) -> tuple[Shares, dict[TopicPartition, str], set[TopicPartition]]:
    """What each member holds by right, who holds what, and what two say that they hold."""
    owners: dict[TopicPartition, str] = {}
    disputed: set[TopicPartition] = set()
    for name in sorted(members):
        for one in members[name].owned:
            if one.topic not in members[name].topics or not 0 <= one.partition < counts.get(one.topic, 0):
                continue
            other = owners.get(one)
            # Who has been away holds what it was given generations ago: the newer claim counts.
            if other is None or members[other].generation < members[name].generation:
                owners[one] = name
                disputed.discard(one)
            elif members[other].generation == members[name].generation and other != name:
                disputed.add(one)
    shares: Shares = {name: [] for name in members}
    for one, name in owners.items():
        if one not in disputed:
            shares[name].append(one)
    return shares, owners, disputed


def _give_out(shares: Shares, members: Members, counts: Counts) -> None:
    """What nobody holds goes to whoever has least, the partitions with the fewest takers first."""
    held = {one for share in shares.values() for one in share}
    wanting: dict[str, list[str]] = {}
    for name in sorted(members, key=lambda name: _rank(members, name)):
        for topic in members[name].topics:
            wanting.setdefault(topic, []).append(name)
    for topic in sorted(wanting, key=lambda topic: (len(wanting[topic]), topic)):
        for partition in range(counts.get(topic, 0)):
            one = TopicPartition(topic, partition)
            if one not in held:
                shares[min(wanting[topic], key=lambda name: len(shares[name]))].append(one)


def _balance(shares: Shares, members: Members) -> None:
    """Moves partitions from who has more to who has at least two less, until there is no such pair. Each move makes
    the sum of squares smaller, so it ends."""
    names = sorted(shares, key=lambda name: _rank(members, name))
    is_moving = True
    while is_moving:
        is_moving = False
        least = min(map(len, shares.values()), default=0)
        for giver in sorted(names, key=lambda name: -len(shares[name])):
            if len(shares[giver]) <= least + 1:
                break  # nobody has two less than this one, or those behind it
            for one in sorted(shares[giver], reverse=True):
                takers = [name for name in names if one.topic in members[name].topics]
                taker = min(takers, key=lambda name: len(shares[name]))
                if len(shares[taker]) + 1 < len(shares[giver]):
                    shares[giver].remove(one)
                    shares[taker].append(one)
                    is_moving = True
