"""Groups that strangers fill: what members say is bounded like everything else, and what they leave behind goes."""

from __future__ import annotations

import struct

from headrace.broker.groups.settings import MAX_BARE_GROUPS, MAX_MEMBERS_BYTES
from headrace.testing.served import ServedBroker
from headrace.wire.kafka import header
from headrace.wire.kafka.errors import Code
from headrace.wire.kafka.primitives import string
from tests.support import MIB, Bystander, Peak, Wire, no_leak, wait_until

BESIDES_BYTES = 64 * MIB
SESSION_MS = 5_000


def question(group: str, metadata: bytes, *, version: int = 3, session_ms: int = SESSION_MS) -> bytes:
    body = string(group, False) + struct.pack(">ii", session_ms, 60_000) + string("", False)
    if version >= 5:
        body += struct.pack(">h", -1)
    body += string("consumer", False) + struct.pack(">i", 1) + string("range", False)
    return header.question(header.JOIN_GROUP, version, 1, "x", body + struct.pack(">i", len(metadata)) + metadata)


def join(wire: Wire, group: str, metadata: bytes, **more: int) -> int:
    """The code that is answered, behind the correlation id and the throttle time."""
    wire.send(question(group, metadata, **more))
    return int.from_bytes(wire.receive()[8:10])


def test_members_that_say_ten_mebibytes_each_are_refused_and_leave_nothing(node: ServedBroker) -> None:
    with no_leak(node.pid, node.address), Bystander(node.address) as other, Peak(node.pid) as peak:
        with Wire(node.address) as wire:
            codes = {join(wire, f"large-{number}", bytes(10 * MIB)) for number in range(40)}
            assert codes == {Code.INVALID_REQUEST}
        other.assert_undisturbed()
    assert peak.grown_bytes < 2 * BESIDES_BYTES, f"{peak.grown_bytes >> 20} MiB"


def test_many_members_that_say_as_much_as_one_may_share_a_bound_and_give_it_back(node: ServedBroker) -> None:
    metadata = bytes(3 * MIB)
    with no_leak(node.pid, node.address), Peak(node.pid) as peak, Wire(node.address) as wire:
        # Long enough that nobody leaves before the last has come, on a busy machine too.
        codes = [join(wire, f"many-{number}", metadata, session_ms=20_000) for number in range(130)]
        assert set(codes) == {Code.NONE, Code.GROUP_MAX_SIZE_REACHED}
        assert codes.count(Code.NONE) <= MAX_MEMBERS_BYTES // len(metadata)
        assert join(wire, "small", b"small") == Code.NONE
        wait_until(lambda: join(wire, "later", metadata) == Code.NONE, 60)
    assert peak.grown_bytes < MAX_MEMBERS_BYTES + 2 * BESIDES_BYTES, f"{peak.grown_bytes >> 20} MiB"


def test_groups_that_somebody_only_asked_to_join_stand_in_nobodys_way(node: ServedBroker) -> None:
    """Half an hour of session each, and an id that never comes back."""
    with no_leak(node.pid, node.address), Bystander(node.address) as other, Peak(node.pid) as peak:
        with Wire(node.address) as wire:
            for start in range(0, MAX_BARE_GROUPS + 5_000, 500):
                frames = [
                    question(f"asked-{number}", b"", version=5, session_ms=1_800_000)
                    for number in range(start, start + 500)
                ]
                wire.send(b"".join(frames))
                assert {int.from_bytes(wire.receive()[8:10]) for _ in frames} == {Code.MEMBER_ID_REQUIRED}
        with Wire(node.address) as wire:
            wire.send(header.question(header.LIST_GROUPS, 0, 1, "x", b""))
            listed = int.from_bytes(wire.receive()[6:10])
        assert listed <= MAX_BARE_GROUPS + 10
        other.assert_undisturbed()
    assert peak.grown_bytes < 2 * BESIDES_BYTES, f"{peak.grown_bytes >> 20} MiB"
