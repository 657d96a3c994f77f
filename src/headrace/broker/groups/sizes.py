"""What groups hold in memory, counted: of each member what it said, what it was given and its names; of each group its
members and those about to join; of the node all groups together. The limits are in settings.py.

Counts are above what the state topic needs for the same (a character is up to 4 bytes there and here), so a group
within its limit can always be kept.
"""

from __future__ import annotations

from headrace.broker.groups.events import Join, Protocols

MEMBER_BYTES = 1_000  # a member without its texts
PENDING_BYTES = 200  # an id that was given out, without its text
PROTOCOL_BYTES = 100  # a protocol of a member, without its texts
CHARACTER_BYTES = 4


def member_bytes(
    member_id: str, instance_id: str | None, client_id: str, client_host: str, protocols: Protocols
) -> int:
    characters = len(member_id) + len(instance_id or "") + len(client_id) + len(client_host)
    said = sum(len(name) * CHARACTER_BYTES + len(metadata) for name, metadata in protocols)
    return MEMBER_BYTES + characters * CHARACTER_BYTES + len(protocols) * PROTOCOL_BYTES + said


def joining_bytes(event: Join) -> int:
    """Of a member as it will be when it has joined."""
    member_id = event.member_id or event.new_id
    return member_bytes(member_id, event.instance_id, event.client_id, event.client_host, event.protocols)


def pending_bytes(member_id: str) -> int:
    return PENDING_BYTES + len(member_id) * CHARACTER_BYTES


def names_bytes(group_id: str, protocol_type: str | None) -> int:
    return (len(group_id) + len(protocol_type or "")) * CHARACTER_BYTES
