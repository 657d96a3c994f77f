"""A queue's machine in scenarios: what is kept before what, and what is known afterwards."""

from __future__ import annotations

import textwrap

import pytest

from headrace.broker.queues.settings import Policy
from tests.queues.script import Script

PLAIN = Policy(lock_s=30, max_attempts=3, backoff_s=0)
ONCE = Policy(at_most_once=True)

SCENARIOS = {
    "after a restart only what is pending comes again; it cost an attempt if its member may have died of it": (
        PLAIN,
        """
        > join a
        reads from 0
        > came 0..4
        a gets 0 1 2 3 4
        > ack a 1 3
        held 2
        is to be saved
        > save
        all before 5 is settled, but 0(1) 2(0) 4(0)
        tells a ok
        > restart
        > join b
        reads from 0
        > more 0..5
        reads from 6
        b gets 0(2) 2 4 5
        """,
    ),
    "what members asked more time for cost an attempt, and so does the oldest of each, however often a node dies": (
        PLAIN,
        """
        > join a
        reads from 0
        > join b
        > came 0..6
        a gets 0 2 4 6
        b gets 1 3 5
        > renew a 4
        held 1
        > ack b 1
        held 1
        is to be saved
        > save
        all before 7 is settled, but 0(1) 2(0) 3(1) 4(1) 5(0) 6(0)
        tells b ok
        > restart
        > join c
        reads from 0
        > came 0..6
        c gets 0(2) 2 3(2) 4(2) 5 6
        > ack c 3
        held 1
        is to be saved
        > save
        all before 7 is settled, but 0(2) 2(0) 4(1) 5(0) 6(0)
        tells c ok
        """,
    ),
    "what is pending and cannot be read any more is settled": (
        PLAIN,
        """
        > join a
        reads from 0
        > came 0..4
        a gets 0 1 2 3 4
        > ack a 3
        held 1
        is to be saved
        > save
        all before 5 is settled, but 0(1) 1(0) 2(0) 4(0)
        tells a ok
        > restart
        > join b
        reads from 0
        > trim 1
        lost 1
        is to be saved
        > came 2,4 to 5
        b gets 2 4
        > start
        2
        """,
    ),
    "an attempt limit that was reached before a restart is a dead letter after it": (
        PLAIN._replace(max_attempts=1),
        """
        > join a
        reads from 0
        > came 0..1
        a gets 0 1
        > ack a 1
        held 1
        is to be saved
        > save
        all before 2 is settled, but 0(1)
        tells a ok
        > restart
        > join b
        reads from 0
        > came 0..2
        buries 0 after 1: the last attempt had not ended when the queue was read back
        b gets 2
        """,
    ),
    "what is kept cannot be written: who asked is told, and it is tried on": (
        PLAIN,
        """
        > join a
        reads from 0
        > came 0
        a gets 0
        > ack a 0
        held 1
        is to be saved
        > begin
        all before 1 is settled
        > lost
        tells a no
        > time 0.5
        nothing is due
        > time 0.5
        is to be saved
        > save
        all before 1 is settled
        """,
    ),
    "at most once: it is kept before it is delivered": (
        ONCE,
        """
        > join a
        reads from 0
        > join b
        > came 0..2
        is to be saved
        > begin
        all before 3 is settled
        > kept
        a gets 0 2
        b gets 1
        """,
    ),
    "at most once: what cannot be kept does not go out": (
        ONCE,
        """
        > join a
        reads from 0
        > came 0..2
        is to be saved
        > begin
        all before 3 is settled
        > lost
        > time 1
        is to be saved
        > save
        all before 3 is settled
        a gets 0 1 2
        """,
    ),
    "at most once: who left before it went out got nothing, and the next gets it": (
        ONCE,
        """
        > join a
        reads from 0
        > came 0..2
        is to be saved
        > begin
        all before 3 is settled
        > leave a
        > kept
        is to be saved
        > save
        all before 3 is settled, but 0(0) 1(0) 2(0)
        > join b
        reads from 0
        > came 0..2
        is to be saved
        > save
        all before 3 is settled
        b gets 0 1 2
        """,
    ),
    "at most once: who asks is told when all that was there has gone out, not only what was on its way": (
        ONCE,
        """
        > join a
        reads from 0
        > came 0
        is to be saved
        > begin
        all before 1 is settled
        > reach x 3
        reads from 1
        > kept
        a gets 0
        > came 1..3
        is to be saved
        > save
        all before 4 is settled
        a gets 1 2 3
        tells x ok
        > reach x 4
        tells x ok
        """,
    ),
    "at most once: nobody waits for what cannot go out": (
        ONCE,
        """
        > reach x 1
        tells x ok
        > join a
        reads from 0
        > reach x 2
        > full a
        > came 0..1
        tells x ok
        > resume a
        is to be saved
        > reach y 2
        > begin
        all before 2 is settled
        > lost
        tells y ok
        > time 1
        is to be saved
        > reach z 2
        > leave a
        tells z ok
        """,
    ),
    "settled records come again when somebody asks for them": (
        PLAIN,
        """
        > join a
        reads from 0
        > came 0..3
        a gets 0 1 2 3
        > ack a 0..2
        held 3
        is to be saved
        > save
        all before 4 is settled, but 3(1)
        tells a ok
        > reopen 0 2 3 9
        held 2
        is to be saved
        reads from 0
        > save
        all before 4 is settled, but 0(0) 2(0) 3(1)
        > came 0..3
        a gets 0 2
        > start
        0
        """,
    ),
    "a log that lost its end gives these offsets to others": (
        PLAIN,
        """
        > join a
        reads from 0
        > came 0..5
        a gets 0 1 2 3 4 5
        > ack a 4 5
        held 2
        is to be saved
        > cut 3
        > save
        all before 3 is settled, but 0(1) 1(0) 2(0)
        tells a ok
        > again
        reads from 3
        > came 3..4
        a gets 3 4
        """,
    ),
    "nothing ready stays in memory when everybody has left": (
        PLAIN,
        """
        > join a 2
        reads from 0
        > came 0..9
        a gets 0 1
        > ack a 0
        held 1
        is to be saved
        a gets 2
        > leave a
        > save
        all before 3 is settled, but 1(1) 2(0)
        tells a ok
        > join b
        reads from 1
        > came 1..9
        b gets 1(2) 2 3 4 5 6 7 8 9
        """,
    ),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_what_the_machine_wants_done_is_what_the_scenario_tells(name):
    policy, text = SCENARIOS[name]
    text = textwrap.dedent(text).strip()
    assert Script(policy).run(text) == text
