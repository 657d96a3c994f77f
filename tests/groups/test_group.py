"""The life of a group, as scripts: see script.py for the words."""

from __future__ import annotations

import pytest

from headrace.broker.groups.settings import GroupSettings
from tests.groups.script import Script

SCENARIOS = {
    "a member asks twice and then has the group to itself": """
        > join a new
        a: MemberIdRequired a
        > join a
        a: a in generation 1 by range leads a
        > commit a 1
        RebalanceInProgress
        > sync a 1 a=p0,p1
        save generation 1: a=p0,p1
        > state
        CompletingRebalance generation 1 leader a: a
        > saved
        a: has p0,p1
        > beat a 1
        a: ok
        > commit a 1
        ok
        > commit - -1
        UnknownMember
        > commit a 0
        IllegalGeneration
        """,
    "a second member makes the first join again, and both share": """
        > join a old
        a: a in generation 1 by range leads a
        > sync a 1 a=p0,p1
        save generation 1: a=p0,p1
        > saved
        a: has p0,p1
        > join b old
        > beat a 1
        a: RebalanceInProgress
        > commit a 1
        ok
        > join a
        a: a in generation 2 by range leads a,b
        b: b in generation 2 by range follows a
        > sync b 2
        > sync a 2 a=p0 b=p1
        save generation 2: a=p0 b=p1
        > saved
        a: has p0
        b: has p1
        > sync b 2
        b: has p1
        > beat a 1
        a: IllegalGeneration
        """,
    "who does not join again within the rebalance timeout is out": """
        > join a old rebalance=30
        a: a in generation 1 by range leads a
        > sync a 1
        save generation 1: a=
        > saved
        a: has
        > join b old rebalance=20
        > time 9
        > beat a 1
        a: RebalanceInProgress
        > time 9
        > beat a 1
        a: RebalanceInProgress
        > time 9
        > beat a 1
        a: RebalanceInProgress
        > time 4
        b: b in generation 2 by range leads b
        > beat a 1
        a: UnknownMember
        """,
    "a member that is not heard of for its session is removed, and the rest share": """
        > join a old session=10
        a: a in generation 1 by range leads a
        > sync a 1
        save generation 1: a=
        > saved
        a: has
        > join b old session=60
        > join a session=10
        a: a in generation 2 by range leads a,b
        b: b in generation 2 by range follows a
        > sync b 2
        > sync a 2 b=p
        save generation 2: a= b=p
        > saved
        a: has
        b: has p
        > time 6
        > beat a 2
        a: ok
        > time 6
        > beat b 2
        b: ok
        > time 4
        > state
        PreparingRebalance generation 2 leader b: b
        > beat a 2
        a: UnknownMember
        > join b
        b: b in generation 3 by range leads b
        """,
    "who joined and never syncs is removed after the rebalance timeout": """
        > join a old session=300 rebalance=30
        a: a in generation 1 by range leads a
        > time 31
        save generation 2
        > state
        Empty generation 2 leader None:
        """,
    "followers wait for the leader, and are told to join again when it dies": """
        > join a old session=10
        a: a in generation 1 by range leads a
        > join b old session=10
        > join a
        a: a in generation 2 by range leads a,b
        b: b in generation 2 by range follows a
        > sync b 2
        > time 11
        b: RebalanceInProgress
        > join b
        b: b in generation 3 by range leads b
        """,
    "the last member that leaves leaves an empty group": """
        > join a old
        a: a in generation 1 by range leads a
        > sync a 1
        save generation 1: a=
        > saved
        a: has
        > leave x
        x: left UnknownMember
        > leave a
        a: left ok
        save generation 2
        > state
        Empty generation 2 leader None:
        > commit - -1
        ok
        > commit a 1
        UnknownMember
        > join a
        a: UnknownMember a
        """,
    "an assignment that could not be kept is given to nobody": """
        > join a old
        a: a in generation 1 by range leads a
        > sync a 1 a=p
        save generation 1: a=p
        > lost
        a: CoordinatorUnavailable
        > state
        PreparingRebalance generation 1 leader a: a
        > join a
        a: a in generation 2 by range leads a
        """,
    "an assignment of an older generation is given to nobody": """
        > join a old
        a: a in generation 1 by range leads a
        > sync a 1 a=old
        save generation 1: a=old
        > join b old
        a: RebalanceInProgress
        > join a
        a: a in generation 2 by range leads a,b
        b: b in generation 2 by range follows a
        > saved
        > sync a 2 a=new b=new
        save generation 2: a=new b=new
        > saved
        a: has new
        """,
    "a member whose answer was lost gets it again": """
        > join a old
        a: a in generation 1 by range leads a
        > join a
        a: a in generation 1 by range leads a
        > sync a 1 a=p
        save generation 1: a=p
        > sync a 1 a=q
        a: RebalanceInProgress
        > saved
        a: has p
        """,
    "a follower that joins again with the same wishes disturbs nobody, a leader does": """
        > join a old
        a: a in generation 1 by range leads a
        > join b old
        > join a
        a: a in generation 2 by range leads a,b
        b: b in generation 2 by range follows a
        > sync b 2
        > sync a 2 a=p b=q
        save generation 2: a=p b=q
        > saved
        a: has p
        b: has q
        > join b
        b: b in generation 2 by range follows a
        > join b protocols=range,sticky
        > join a
        a: a in generation 3 by range leads a,b
        b: b in generation 3 by range follows a
        """,
    "the protocol that most like best, of those that all have": """
        > join a old protocols=range,sticky
        a: a in generation 1 by range leads a
        > join b old protocols=other
        b: InconsistentProtocol
        > join c old protocols=range type=connect
        c: InconsistentProtocol
        > join b old protocols=sticky,range
        > join c old protocols=sticky,range,other
        > join a protocols=range,sticky
        a: a in generation 2 by sticky leads a,b,c
        b: b in generation 2 by sticky follows a
        c: c in generation 2 by sticky follows a
        """,
    "an id that was given out is waited for, as long as its session": """
        > join a old
        a: a in generation 1 by range leads a
        > join b new session=10
        b: MemberIdRequired b
        > sync a 1
        save generation 1: a=
        > saved
        a: has
        > join c old session=60
        > join a session=60
        > state
        PreparingRebalance generation 1 leader a: a c
        > time 11
        a: a in generation 2 by range leads a,c
        c: c in generation 2 by range follows a
        > join b
        b: UnknownMember b
        """,
}

STATIC = {
    "a static member comes back as another process, with what it had, and nobody is disturbed": """
        > join a as one
        a: UnknownMember a
        > join a new as one
        a: a in generation 1 by range leads a
        > join b new as two
        > join a as one
        a: a in generation 2 by range leads a,b
        b: b in generation 2 by range follows a
        > sync b 2
        > sync a 2 a=p b=q
        save generation 2: a=p b=q
        > saved
        a: has p
        b: has q
        > join b2 new as two
        save generation 2: a=p b2=q
        > saved
        b2: b2 in generation 2 by range follows a
        > sync b2 2
        b2: has q
        > join a2 new as one
        save generation 2: a2=p b2=q
        > saved
        a2: a2 in generation 2 by range leads a2,b2 skip
        > join a3 new as one noskip
        save generation 2: a3=p b2=q
        > saved
        a3: a3 in generation 2 by range follows a2
        > join a2 as one
        a2: FencedMember a2
        """,
    "two processes with one instance id: the older one is fenced, also while it waits": """
        > join a old
        a: a in generation 1 by range leads a
        > join b new as two
        > join c new as two
        b: FencedMember b
        > join a
        a: a in generation 2 by range leads a,c
        c: c in generation 2 by range follows a
        """,
    "a static member that comes back during a sync begins a new generation": """
        > join a old
        a: a in generation 1 by range leads a
        > join b new as two
        > join a
        a: a in generation 2 by range leads a,b
        b: b in generation 2 by range follows a
        > sync b 2
        > join c new as two
        b: FencedMember
        > join a
        a: a in generation 3 by range leads a,c
        c: c in generation 3 by range follows a
        """,
    "an administrator removes a static member by its instance": """
        > join a new as one
        a: a in generation 1 by range leads a
        > leave - as two
        admin: left UnknownMember
        > leave - as one
        admin: left ok
        save generation 2
        """,
    "a static member that is late keeps its place while its session lasts": """
        > join a new as one session=100 rebalance=30
        a: a in generation 1 by range leads a
        > join b old session=100 rebalance=30
        > time 31
        b: b in generation 2 by range leads a,b
        > state
        CompletingRebalance generation 2 leader b: a b
        """,
}


@pytest.mark.parametrize("name", SCENARIOS | STATIC)
def test_a_group_says_what_the_scenario_says(name):
    text = (SCENARIOS | STATIC)[name]
    wanted = "\n".join(line.strip() for line in text.strip().splitlines())
    assert Script().run(text) == wanted


def test_a_first_generation_waits_for_more_members_if_it_is_told_to():
    script = Script(GroupSettings(initial_rebalance_delay_ms=3000))
    text = """
        > join a old
        > time 2
        > join b old
        > time 1
        > state
        PreparingRebalance generation 0 leader a: a b
        > time 3
        a: a in generation 1 by range leads a,b
        b: b in generation 1 by range follows a
        """
    assert script.run(text) == "\n".join(line.strip() for line in text.strip().splitlines())


def test_a_group_takes_only_as_many_members_as_it_may():
    script = Script(GroupSettings(max_size=1))
    text = """
        > join a old
        a: a in generation 1 by range leads a
        > join b old
        b: GroupFull
        > join a
        a: a in generation 1 by range leads a
        """
    assert script.run(text) == "\n".join(line.strip() for line in text.strip().splitlines())
