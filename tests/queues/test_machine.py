"""A queue's machine in scenarios: each text is what happens, and what the machine wants done about it.

Here: who gets what, and how it ends. What is kept, and comes back, is in test_machine_keeping.py."""

from __future__ import annotations

import textwrap

import pytest

from headrace.broker.queues.settings import Policy
from tests.queues.script import Script

PLAIN = Policy(lock_s=30, max_attempts=3, backoff_s=0)
PATIENT = PLAIN._replace(backoff_s=1)

SCENARIOS = {
    "records go round, and what is acknowledged is settled when it is kept": (
        PLAIN,
        """
        > join a
        reads from 0
        > came 0..1
        a gets 0 1
        > join b
        > again
        reads from 2
        > came 2..5
        a gets 2 4
        b gets 3 5
        > ack a 0 2
        held 2
        is to be saved
        > ack b 3
        held 1
        > begin
        all before 6 is settled, but 1(1) 4(0) 5(1)
        > ack a 1
        held 1
        > kept
        tells a ok
        tells b ok
        is to be saved
        > save
        all before 6 is settled, but 4(1) 5(1)
        tells a ok
        > start
        4
        """,
    ),
    "only who holds a record settles it": (
        PLAIN,
        """
        > join a
        reads from 0
        > join b
        > came 0
        a gets 0
        > ack b 0
        held 0
        tells b ok
        > time 30
        is to be saved
        b gets 0(2)
        > ack a 0
        held 0
        tells a ok
        > ack b 0
        held 1
        > ack b 0
        held 0
        tells b ok
        """,
    ),
    "a renewed lock runs anew": (
        PLAIN,
        """
        > join a
        reads from 0
        > came 0..1
        a gets 0 1
        > time 20
        nothing is due
        > renew a 0
        held 1
        > time 10
        is to be saved
        a gets 1(2)
        > time 20
        a gets 0(2)
        """,
    ),
    "an attempt that came to nothing is followed by another, later each time": (
        PATIENT,
        """
        > join a
        reads from 0
        > came 0
        a gets 0
        > release a 0
        held 1
        is to be saved
        > time 0.5
        nothing is due
        > time 0.5
        a gets 0(2)
        > release a 0
        held 1
        > time 1
        nothing is due
        > time 1
        a gets 0(3)
        > release a 0
        held 1
        buries 0 after 3: released
        """,
    ),
    "a dead record is settled when it is safe, not before": (
        PLAIN,
        """
        > join a
        reads from 0
        > came 0..1
        a gets 0 1
        > reject a 0 not an order
        buries 0 after 1: not an order
        held 1
        is to be saved
        > save
        all before 2 is settled, but 0(1) 1(1)
        tells a ok
        > unburied 0
        > time 0.5
        nothing is due
        > time 0.5
        buries 0 after 1: not an order
        > buried 0
        is to be saved
        > save
        all before 2 is settled, but 1(1)
        """,
    ),
    "without a dead-letter topic it is dropped": (
        PLAIN._replace(has_dead_letter=False),
        """
        > join a
        reads from 0
        > came 0
        a gets 0
        > reject a 0 no
        drops 0 after 1: no
        is to be saved
        held 1
        > save
        all before 1 is settled
        tells a ok
        """,
    ),
    "who leaves gives back, and the next gets it at once": (
        PATIENT,
        """
        > join a
        reads from 0
        > join b
        > came 0..3
        a gets 0 2
        b gets 1 3
        > leave a
        is to be saved
        b gets 0(2) 2
        > leave b
        > join c
        reads from 0
        > came 0..3
        c gets 0(2) 1(2) 2 3
        """,
    ),
    "who leaves again and again spends attempts of the first that it had, and of no other": (
        PATIENT,
        """
        > join a
        reads from 0
        > came 0..2
        a gets 0 1 2
        > leave a
        is to be saved
        > join a
        reads from 0
        > came 0..2
        a gets 0(2) 1 2
        > leave a
        > join a
        reads from 0
        > came 0..2
        a gets 0(3) 1 2
        > leave a
        buries 0 after 3: the member left
        > buried 0
        > join a
        reads from 1
        > came 1..2
        a gets 1 2
        > ack a 1
        held 1
        > leave a
        > join a
        reads from 2
        > came 2
        a gets 2(2)
        """,
    ),
    "who asked for more time for a record, and left, had come to it": (
        PATIENT,
        """
        > join a
        reads from 0
        > join b 1
        > came 0..4
        a gets 0 2 3 4
        b gets 1
        > renew a 3
        held 1
        > ack b 1
        held 1
        is to be saved
        > leave b
        > leave a
        > join c
        reads from 0
        > came 0..4
        c gets 0(2) 2 3(2) 4
        """,
    ),
    "nobody has room": (
        PLAIN,
        """
        > join a 1
        reads from 0
        > join b 2
        > came 0..4
        a gets 0
        b gets 1 2
        > ack b 1
        held 1
        is to be saved
        b gets 3
        > full b
        > ack b 2
        held 1
        > ack a 0
        held 1
        a gets 4
        > ack a 4
        held 1
        > again
        reads from 5
        > resume b
        """,
    ),
    "a queue has its own bound, whatever room members have": (
        PLAIN._replace(records=2),
        """
        > join a
        reads from 0
        > came 0..9
        a gets 0 1
        > ack a 1
        held 1
        is to be saved
        a gets 2
        > start
        0
        """,
    ),
    "offsets without records are settled by the way": (
        PLAIN,
        """
        > join a
        reads from 0
        > came 1,3 to 6
        a gets 1 3
        > start
        1
        > ack a 1 3
        held 2
        is to be saved
        > save
        all before 6 is settled
        tells a ok
        """,
    ),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_what_the_machine_wants_done_is_what_the_scenario_tells(name):
    policy, text = SCENARIOS[name]
    text = textwrap.dedent(text).strip()
    assert Script(policy).run(text) == text
