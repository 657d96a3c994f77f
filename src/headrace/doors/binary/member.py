"""Queue groups through the binary door, which is ours: a SUBSCRIBE with `group` joins the topic's queue of that name.

- Each record of the topic, of all its partitions, goes to one member of the group. The message is as a plain
  subscriber's, with `partition`, `group` and `attempt` behind its own properties.
- `auto_ack=true` (as clients send it) settles a record before it is sent: at most once. `auto_ack=false` waits for the
  member: it sends an ACK with the message's sequence number and its `topic`, `partition` and `group`. `settle` says
  otherwise: `release` (for another member, or later), `reject` (a dead letter, with `reason`), `renew` (more time).
- An ACK gets no reply, unless the member does not hold the record (any more). It has its place among the replies all
  the same: one that comes later says that what the ACKs before it settled is kept. ACKs that came together are settled
  together, and get one such reply, to the last of them.
- A new group begins with what comes, or with `replay=true` at the topic's start.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from headrace.broker.queues.settings import MEMBER_RECORDS, QueueSettings
from headrace.doors.binary import replies
from headrace.doors.binary.data import message, properties_of
from headrace.doors.binary.replies import Refused, number
from headrace.errors import HeadraceError
from headrace.log.config import Done
from headrace.wire.binary.frame import Frame

if TYPE_CHECKING:
    from headrace.broker.queues.events import Delivery
    from headrace.broker.queues.membership import Membership
    from headrace.doors.binary.connection import BinaryConnection
    from headrace.doors.binary.subscriber import Key

MAX_PREFETCH = 10_000  # records that a member may hold: `prefetch` asks for more or fewer than the usual
SETTLE = ("ack", "release", "reject", "renew")


class GroupMember:
    """One member of a queue: takes what the queue gives it, and settles it."""

    def __init__(self, connection: BinaryConnection, topic: str, group: str) -> None:
        self.connection, self.topic, self.group = connection, topic, group
        self.membership: Membership | None = None
        self._early: list[bytes] | None = []  # what comes before the client has its reply

    def take(self, deliveries: Sequence[Delivery]) -> bool:
        connection = self.connection
        data = b"".join([self._message(delivery) for delivery in deliveries])
        connection.door.metrics.delivered += len(deliveries)
        if self._early is not None:
            self._early.append(data)
        else:
            connection.send_soon(data)
        return not connection.is_full

    def begin(self) -> None:
        early, self._early = self._early, None
        for data in early or ():
            self.connection.send_soon(data)

    def _message(self, delivery: Delivery) -> bytes:
        partition, record, attempt = delivery
        properties = properties_of(self.topic, partition, record)
        properties |= {"partition": str(partition), "group": self.group, "attempt": str(attempt)}
        return message(record, properties)


class GroupMembers:
    """Those of one connection, by topic and group."""

    def __init__(self, connection: BinaryConnection) -> None:
        self._connection = connection
        self._members: dict[tuple[str, str], GroupMember] = {}

    def __len__(self) -> int:
        return len(self._members)

    async def join(self, frame: Frame, key: Key) -> bytes:
        """Says itself that it has joined, before the first record; there is no other reply then."""
        topic, partition, client = key
        properties, connection = frame.properties, self._connection
        place = topic, properties["group"]
        if place in self._members:
            raise Refused(replies.already_subscribed(client, topic, partition))
        prefetch = number(properties.get("prefetch", str(MEMBER_RECORDS)))
        settings = QueueSettings(
            at_most_once=properties.get("auto_ack", "true") == "true",
            start="start" if properties.get("replay") == "true" else "end",
        )
        member = self._members[place] = GroupMember(connection, *place)
        try:
            queue = await connection.door.broker.queues.open("binary", *place, settings)
            if connection.closed:  # meanwhile: it will never leave
                return b""
            member.membership = queue.join(client, member, max_records=max(1, min(prefetch, MAX_PREFETCH)))
        except BaseException:
            self._members.pop(place, None)
            raise
        own = {"topic": topic, "partition": str(partition), "client_id": client, "group": place[1]}
        connection.send_soon(replies.success(frame.sequence, connection.now_ms, **own))
        member.begin()
        return b""

    def settle(self, frames: list[Frame], reply: Callable[[bytes], None]) -> None:
        """ACKs of a member's, all for one queue and of one kind. `reply` is called when what they say is kept; it is
        empty when all is well."""
        first = frames[0].properties
        topic, group, partition = first.get("topic", ""), first["group"], number(first.get("partition", "0"))
        member = self._members.get((topic, group))
        places = [(partition, frame.sequence) for frame in frames]
        held, last = 0, frames[-1].sequence

        def kept(error: HeadraceError | None) -> None:
            text = ""
            if held < len(places):
                self._connection.door.metrics.errors += len(places) - held
                if len(places) == 1:
                    text = replies.not_held(last, topic, partition, group)
                else:
                    text = replies.some_not_held(len(places) - held, len(places), last, topic, partition, group)
            elif error is not None:
                self._connection.door.metrics.errors += len(places)
                text = str(error)
            reply(replies.refusal(last, self._connection.now_ms, text, group=group) if text else b"")

        if member is None or member.membership is None:
            kept(None)
        else:
            held = self._settle(member.membership, places, first, kept)

    def _settle(
        self, membership: Membership, places: Sequence[tuple[int, int]], properties: dict[str, str], kept: Done
    ) -> int:
        """How many of them it held."""
        match properties.get("settle", "ack"):
            case "ack":
                return membership.acknowledge(places, kept)
            case "release":
                return membership.release(places, kept)
            case "reject":
                return membership.reject(places, properties.get("reason", ""), kept)
            case "renew":
                held = membership.renew(places)
                self._connection.door.broker.timers.after(0, partial(kept, None))  # of that nothing is kept
                return held
            case other:
                raise Refused(f"Unknown settle '{other}': one of {', '.join(SETTLE)}")

    def leave(self, frame: Frame, key: Key) -> None:
        topic, partition, client = key
        member = self._members.pop((topic, frame.properties["group"]), None)
        if member is None or member.membership is None:
            raise Refused(replies.not_subscribed(client, topic, partition))
        member.membership.leave()

    def leave_all(self) -> None:
        members, self._members = self._members, {}
        for member in members.values():
            if member.membership is not None:
                member.membership.leave()

    def resume(self) -> None:
        for member in list(self._members.values()):
            if member.membership is not None:
                member.membership.resume()
