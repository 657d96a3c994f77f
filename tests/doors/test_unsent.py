"""The budget for answers that clients have not taken yet."""

from __future__ import annotations

from headrace.doors.tcp.unsent import LITTLE_BYTES, PATIENCE_S, Unsent

MIB = 1 << 20


class Client:
    """One that has so much to take."""

    def __init__(self, unsent: int) -> None:
        self.unsent = unsent

    def unsent_bytes(self) -> int:
        return self.unsent


def test_up_to_the_budget_there_is_plenty_past_it_little_and_at_twice_the_budget_nothing() -> None:
    unsent = Unsent(10 * MIB)
    client = Client(10 * MIB)
    unsent.slow(client, 0.0)
    assert unsent.room(5 * MIB) == 5 * MIB
    client.unsent += 1
    assert unsent.room(5 * MIB) == LITTLE_BYTES
    client.unsent = 20 * MIB + 1
    assert unsent.room(5 * MIB) == 0


def test_what_is_being_read_from_disk_counts() -> None:
    unsent = Unsent(MIB)
    unsent.reading_bytes += MIB + 1
    assert unsent.room(MIB) == LITTLE_BYTES


def test_little_that_is_unsent_is_found_by_looking_and_forgotten_when_it_is_taken() -> None:
    unsent = Unsent(MIB)
    client = Client(2 * MIB)
    assert unsent.room(MIB) == MIB
    unsent.look(client, 0.0)
    assert unsent.held_bytes() == 2 * MIB
    client.unsent = 0
    unsent.look(client, 1.0)
    client.unsent = 2 * MIB
    assert unsent.held_bytes() == 0


def test_past_the_budget_those_who_took_nothing_for_a_while_are_hopeless_the_longest_first() -> None:
    unsent = Unsent(4 * MIB)
    old, new, quick = Client(3 * MIB), Client(3 * MIB), Client(3 * MIB)
    for client, now in ((old, 0.0), (new, 1.0), (quick, 0.5)):
        unsent.slow(client, now)
    quick.unsent -= 1
    for client in (old, new, quick):
        unsent.look(client, 2.0)
    assert unsent.hopeless(PATIENCE_S - 1) == []
    assert unsent.hopeless(PATIENCE_S) == [old]
    assert unsent.hopeless(PATIENCE_S + 1) == [old, new], "one was not enough, and who takes something is spared"


def test_within_the_budget_nobody_is_hopeless_however_slow() -> None:
    unsent = Unsent(4 * MIB)
    unsent.slow(Client(4 * MIB), 0.0)
    assert unsent.hopeless(1000.0) == []
