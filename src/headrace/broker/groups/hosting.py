"""The groups of this node: read back from `__consumer_offsets`, found by name, stepped, and woken when it is time.

- While a partition of that topic is read back, its groups are answered that they load; one that cannot be read back is
  tried again.
- One timer for each group, at the earliest time that matters to it. Heartbeats move deadlines back and touch no timer:
  one that goes off early looks, and is set anew.
- Who waits is a function that is called with the answer, once; often before the call returns.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import inf
from typing import TYPE_CHECKING, cast

from headrace.broker.groups import records
from headrace.broker.groups.burials import Burials
from headrace.broker.groups.events import Effect, Event, Save, Saved, Tell, Tick
from headrace.broker.groups.group import Group
from headrace.broker.groups.hosted import Hosted
from headrace.broker.groups.positions import Tally
from headrace.broker.groups.replay import Replay
from headrace.broker.groups.settings import MAX_BARE_GROUPS, MAX_GROUPS, MAX_MEMBERS_BYTES, GroupSettings
from headrace.broker.state_topic import Entry, StateTopic
from headrace.errors import (
    CoordinatorLoading,
    CoordinatorUnavailable,
    HeadraceError,
    IllegalGeneration,
    InvalidGroupId,
    LimitReached,
    MessageTooLarge,
    NotCoordinator,
    UnknownMember,
    Unsettled,
)
from headrace.log.config import Done
from headrace.ports import Promise
from headrace.records.codec import Producer

if TYPE_CHECKING:
    from headrace.broker.broker import Broker

TOPIC = "__consumer_offsets"
RETRY_S = 5.0  # until a partition that did not read is tried again


class Hosting:
    def __init__(self, broker: Broker, settings: GroupSettings) -> None:
        self._broker, self.settings = broker, settings
        config = {"segment.bytes": str(settings.topic_segment_bytes)}
        self.state = StateTopic(broker, TOPIC, settings.topic_partitions, config)
        self.hosted: dict[str, Hosted] = {}
        topic = self.state.topic
        partitions = range(len(topic.partitions) if topic is not None else 0)
        loading = CoordinatorLoading("groups are being read back")
        self._unready: dict[int, HeadraceError] = dict.fromkeys(partitions, loading)  # not read back, and why
        self._transactions: dict[tuple[int, int], set[str]] = {}  # open ones: groups by partition and producer
        self._ended: dict[int, list[tuple[int, bool]]] = {}  # while it was read back: producer, is it a commit
        self._at_start = {topic.name for topic in broker.topics()} if self._unready else set()
        self._deleted: set[str] = set()  # topics, while some positions were not read back
        self._readings = 0  # under way
        self._waiting: list[Promise[None]] = []  # for their end: one for each, who gives up takes nobody along
        self._burials = Burials(broker.new_promise, self._append)
        self._is_stopped = False
        self.tally = Tally()  # of positions
        self.members_bytes = 0  # of all groups, and of what is being saved
        self._bare: dict[str, None] = {}  # groups without members and positions, the oldest first
        self.saves = 0  # how often a group gave out its partitions, or lost its last member

    # Coming and going

    def start(self) -> None:
        """Reads back what is kept, in the background."""
        self._load(list(self._unready))

    def stop(self) -> None:
        """Nobody is kept waiting: another node, or the next life of this one, goes on."""
        self._is_stopped = True
        for hosted in self.hosted.values():
            hosted.disarm()
            self._carry_out(hosted, hosted.group.let_go(NotCoordinator("the node is stopping")))
        self._answer_waiting()

    def _load(self, partitions: list[int]) -> None:
        self._readings += 1
        self._load_next(partitions)

    def _load_next(self, partitions: list[int]) -> None:
        if partitions and not self._is_stopped:
            index, replay = partitions[0], Replay()
            self.state.load_batches(index, replay.apply, partial(self._loaded, partitions, replay))
            return
        self._readings -= 1
        if not self._readings:
            self._answer_waiting()

    async def _read_back(self) -> None:
        """What is under way, whether it succeeds or not."""
        if self._readings and not self._is_stopped:
            self._waiting.append(promise := self._broker.new_promise())
            await promise
        if self._is_stopped:
            raise Unsettled("the node is stopping")

    def _answer_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        for promise in waiting:
            if not promise.done():
                promise.set_result(None)

    def _loaded(self, partitions: list[int], replay: Replay, error: HeadraceError | None) -> None:
        index, rest = partitions[0], partitions[1:]
        if error is None:
            self._install(index, replay)
        else:
            self._unready[index] = CoordinatorUnavailable(f"its groups do not read back: {error}")
            self._broker.on_event("group.not-loaded", {"partition": index, "error": str(error)})
            self._broker.timers.after(RETRY_S, partial(self._load, [index]))
        self._load_next(rest)

    def _install(self, index: int, replay: Replay) -> None:
        found = replay.hosted(index, self.settings, self._broker.clock.monotonic())
        self.hosted.update(found)
        for hosted in found.values():
            hosted.positions.count_in(self.tally)
            self._weigh(hosted)
        for producer_id, groups in replay.transactions.items():
            self._transactions[index, producer_id] = groups
        del self._unready[index]
        for producer_id, committed in self._ended.pop(index, ()):  # its marker may lie behind what was read
            self.end_transaction(producer_id, index, committed)
        for hosted in found.values():
            self._arm(hosted)
        # Of topics that were deleted meanwhile, or whose deletion was not over when the node died. One that was made
        # since the start has no positions here: nobody could commit any yet.
        self._burials.begin([(one, one.positions.places(name)) for one in found.values() for name in self._gone(one)])
        if not self._unready:
            self._deleted.clear()
            self._at_start.clear()

    def _gone(self, hosted: Hosted) -> list[str]:
        return [
            name
            for name in hosted.positions.names()
            if name in self._deleted or name not in self._at_start or self._broker.topic(name) is None
        ]

    def end_transaction(self, producer_id: int, partition: int, committed: bool) -> None:
        """Its marker is in that partition of the topic."""
        if partition in self._unready:
            self._ended.setdefault(partition, []).append((producer_id, committed))
        for group_id in self._transactions.pop((partition, producer_id), ()):
            hosted = self.hosted.get(group_id)
            if hosted is not None:
                hosted.positions.end_transaction(producer_id, committed)

    # Finding them

    def _check_ready(self, group_id: str) -> None:
        if self._is_stopped:
            raise NotCoordinator("the node is stopping")
        if self._unready and (error := self._unready.get(self.state.partition_for(group_id))):
            raise error

    def _find(self, group_id: str, create: bool = False) -> Hosted:
        hosted = self.hosted.get(group_id)
        if hosted is not None and not self._is_stopped:
            return hosted
        if not group_id:
            raise InvalidGroupId("a group has a name")
        self._check_ready(group_id)
        if not create:
            raise UnknownMember(f"there is no group {group_id!r}")
        return self._create(group_id)

    def _find_for_commit(self, group_id: str, generation: int) -> Hosted:
        self._check_ready(group_id)
        hosted = self.hosted.get(group_id)
        if hosted is None and generation >= 0:
            raise IllegalGeneration(f"there is no group {group_id!r}")
        return hosted or self._create(group_id)

    def _create(self, group_id: str) -> Hosted:
        if len(self.hosted) >= MAX_GROUPS:
            raise LimitReached(f"this node keeps at most {MAX_GROUPS} groups (max_groups)")
        hosted = Hosted(Group(group_id, self.settings), self.state.partition_for(group_id))
        if hosted.group.held_bytes > self.room_bytes:
            raise LimitReached(f"the groups of this node hold {MAX_MEMBERS_BYTES} bytes (max_members_bytes)")
        hosted.positions.count_in(self.tally)
        self._host(hosted)
        return hosted

    def _host(self, hosted: Hosted) -> Hosted:
        """The group of that name, which is this one if there is none."""
        found = self.hosted.setdefault(hosted.group.id, hosted)
        if not found.held_bytes:
            self._weigh(found)
        return found

    def _drop(self, hosted: Hosted) -> None:
        hosted.disarm()
        del self.hosted[hosted.group.id]
        self._bare.pop(hosted.group.id, None)
        self.members_bytes -= hosted.held_bytes
        hosted.held_bytes = 0

    def _dismiss_vacant(self, hosted: Hosted) -> None:
        if hosted.is_vacant and self.hosted.get(hosted.group.id) is hosted:
            self._drop(hosted)

    # Room

    @property
    def room_bytes(self) -> int:
        return MAX_MEMBERS_BYTES - self.members_bytes

    def _weigh(self, hosted: Hosted) -> None:
        """Counts it anew: something has changed."""
        group = hosted.group
        if self.hosted.get(group.id) is hosted:
            self.members_bytes += group.held_bytes - hosted.held_bytes
            hosted.held_bytes = group.held_bytes
            if not hosted.is_bare:
                self._bare.pop(group.id, None)
            elif group.id not in self._bare:
                self._bare[group.id] = None
                self._thin_out()

    def _thin_out(self) -> None:
        """Nobody comes back to the oldest of many; who does joins anew."""
        while len(self._bare) > MAX_BARE_GROUPS:
            group_id = next(iter(self._bare))
            del self._bare[group_id]
            hosted = self.hosted.get(group_id)
            if hosted is not None and hosted.is_bare:
                hosted.group.pending.clear()
                if hosted.is_vacant:
                    self._drop(hosted)
                else:
                    self.delete(hosted, lambda error: None)

    def delete(self, hosted: Hosted, done: Done) -> None:
        """The group and all its positions; the caller has seen that it has no members."""
        places = [(topic, partition) for topic, partition, _ in hosted.positions]
        entries = [hosted.entry(*place, None) for place in places]
        entries.append((records.group_key(hosted.group.id), None))

        def kept(error: HeadraceError | None) -> None:
            if error is None:
                for place in places:
                    hosted.positions.remove(*place)
                if hosted.is_idle and self.hosted.get(hosted.group.id) is hosted:  # nobody has joined meanwhile
                    self._drop(hosted)
            done(error)

        self._append(hosted, entries, kept)

    # Driving them

    def _step(self, hosted: Hosted, event: Event) -> None:
        self._carry_out(hosted, hosted.group.step(self._broker.clock.monotonic(), event))
        self._dismiss_vacant(hosted)
        self._weigh(hosted)
        self._arm(hosted)

    def _carry_out(self, hosted: Hosted, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Tell(who, answer):
                    call(who, answer)
                case Save(ticket, snapshot):
                    told = {"group": hosted.group.id, "generation": snapshot.generation}
                    self._broker.on_event("group.generation", told | {"members": len(snapshot.members)})
                    self.saves += 1
                    hosted.since_ms = self._broker.clock.now_ms()
                    value = records.group_value(snapshot, hosted.since_ms)
                    entry = (records.group_key(hosted.group.id), value)
                    self.members_bytes += len(value)
                    self._append(hosted, [entry], partial(self._saved, hosted, ticket, len(value)))

    def _saved(self, hosted: Hosted, ticket: int, size: int, error: HeadraceError | None) -> None:
        self.members_bytes -= size
        self._step(hosted, Saved(ticket, error))

    def _append(self, hosted: Hosted, entries: list[Entry], done: Done, producer: Producer | None = None) -> None:
        def kept(error: HeadraceError | None) -> None:
            if error is not None and not isinstance(error, MessageTooLarge):
                error = CoordinatorUnavailable(f"{TOPIC} cannot be written: {error}")
            done(error)

        self.state.append(hosted.partition, entries, kept, producer)

    def _arm(self, hosted: Hosted) -> None:
        """One timer at a time; it may go off early, never late."""
        at = hosted.group.wake_at
        if at >= hosted.armed_at or at == inf or self.hosted.get(hosted.group.id) is not hosted or self._is_stopped:
            return
        hosted.disarm()
        hosted.armed_at = at
        wait_s = max(0.0, at - self._broker.clock.monotonic())
        hosted.cancel = self._broker.timers.after(wait_s, partial(self._wake, hosted))

    def _wake(self, hosted: Hosted) -> None:
        hosted.cancel, hosted.armed_at = None, inf
        if hosted.group.wake_at <= self._broker.clock.monotonic():
            self._step(hosted, Tick())
        else:
            self._arm(hosted)


def call(who: object, answer: object) -> None:
    cast(Callable[[object], None], who)(answer)
