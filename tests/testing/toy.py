"""A broker of a hundred lines that keeps its promises, or breaks one on request: what the simulation's own
tests run.

The disk is two numbers: what is written, what is synced. `bug` names the promise to break.
"""

import asyncio
import bisect
import struct
from collections import deque

from headrace.records.batch import assign, read_header, validate
from headrace.wire.kafka import fetch, header, produce
from headrace.wire.kafka.header import CREATE_TOPICS, FETCH, INIT_PRODUCER_ID, LIST_OFFSETS, PRODUCE, answer
from headrace.wire.kafka.primitives import Reader, array, string

BUGS = ("ack before sync", "forget producers", "reorder", "lose on kill", "invent", "shrink")


class Partition:
    def __init__(self, machine):
        self.machine, self.batches, self.synced = machine, [], 0
        self.reset()

    def reset(self):
        self.producers, self.syncing, self.waiters = {}, False, []
        for batch in self.batches:
            self.remember(read_header(batch))

    @property
    def end(self):
        return read_header(self.batches[-1]).next_offset if self.batches else 0

    def remember(self, batch):
        if self.machine.bug != "forget producers":
            self.producers.setdefault(batch.producer_id, deque(maxlen=5)).append(batch)

    def append(self, data):
        """The base offset and how many batches must be synced for it; None for a gap."""
        new = validate(data)
        known = self.producers.get(new.producer_id) if new.producer_id >= 0 else None
        for old in known or ():
            if old.base_sequence == new.base_sequence:
                place = [read_header(batch).base_offset for batch in self.batches].index(old.base_offset)
                return old.base_offset, place + 1
        if known and known[-1].last_sequence + 1 != new.base_sequence:
            return None
        assign(data, 0, self.end, self.machine.epoch)
        self.batches.append(data)
        if new.producer_id >= 0:
            self.remember(read_header(data))
        if self.machine.bug == "reorder" and len(self.batches) % 7 == 0:
            self.swap()
        if self.machine.bug == "invent" and len(self.batches) == 20:
            data[-1] ^= 1
            struct.pack_into(">I", data, 17, 0)
        return read_header(data).base_offset, len(self.batches)

    def swap(self):
        one, other = self.batches[-2:]
        self.batches[-2:] = other, one
        first = read_header(one).base_offset
        assign(other, 0, first, self.machine.epoch)
        assign(one, 0, read_header(other).next_offset, self.machine.epoch)

    def when_synced(self, count, done):
        self.waiters.append((count, done))
        self.sync()

    def sync(self):
        if not self.syncing and self.waiters:
            self.syncing = True
            target = len(self.batches)
            self.machine.loop.call_later(self.machine.random.uniform(0.001, 0.02), self.finish, target)

    def finish(self, target):
        self.syncing, self.synced = False, max(self.synced, target)
        ready = [done for count, done in self.waiters if count <= self.synced]
        self.waiters = [waiter for waiter in self.waiters if waiter[0] > self.synced]
        for done in ready:
            done()
        self.sync()

    def read(self, offset):
        first = bisect.bisect_right(self.batches, offset, key=lambda batch: read_header(batch).next_offset)
        return self.batches[first : first + 10]


class Connection(asyncio.Protocol):
    def __init__(self, machine):
        self.machine, self.received, self.answers = machine, bytearray(), deque()

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.received += data
        while len(self.received) >= 4:
            size = int.from_bytes(self.received[:4], "big")
            if len(self.received) < size + 4:
                break
            frame = self.received[4 : size + 4]
            del self.received[: size + 4]
            place = [None]
            self.answers.append(place)
            self.handle(frame, header.read_header(frame, 0, len(frame)), place)

    def reply(self, place, data):
        place[0] = data
        while self.answers and self.answers[0][0] is not None:
            self.transport.write(self.answers.popleft()[0])

    def handle(self, frame, head, place):
        reader = Reader(frame, head.end, len(frame), False)
        if head.api_key == PRODUCE:
            self.produce(frame, head, place)
            return
        if head.api_key == FETCH:
            self.fetch(frame, head, place)
            return
        if head.api_key == CREATE_TOPICS:
            body = struct.pack(">i", 0) + array(0, False)
        elif head.api_key == INIT_PRODUCER_ID:
            self.machine.next_producer += 1
            body = struct.pack(">ihqh", 0, 0, self.machine.next_producer, 0)
        else:
            assert head.api_key == LIST_OFFSETS
            reader.int32(), reader.array()
            topic, _, index, when = reader.string(), reader.array(), reader.int32(), reader.int64()
            offset = 0 if when == -2 or topic != "simulated" else self.machine.partitions[index].end
            body = array(1, False) + string(topic, False) + array(1, False)
            body += struct.pack(">ihqq", index, 0, -1, offset)
        self.reply(place, answer(head.api_key, head.version, head.correlation_id, body))

    def produce(self, frame, head, place):
        request = produce.decode_request(frame, head.end, len(frame), head.version)
        ((name, _, ((index, start, end),)),) = request.topics
        partition = self.machine.partitions[index]
        appended = partition.append(frame[start:end])

        def respond():
            code, base_offset = (45, -1) if appended is None else (0, appended[0])
            result = produce.PartitionResult(index, code, base_offset)
            topics = [produce.TopicResult(name, None, [result])]
            self.reply(place, produce.encode_response(head.version, head.correlation_id, topics))

        if request.acks == 0:
            self.reply(place, b"")
        elif request.acks == 1 or appended is None or self.machine.bug == "ack before sync":
            respond()
        else:
            partition.when_synced(appended[1], respond)

    def fetch(self, frame, head, place):
        request = fetch.decode_request(frame, head.end, len(frame), head.version)
        topics = []
        for name, _, asked in request.topics:
            fetched = []
            for one in asked:
                partition = self.machine.partitions[one.partition]
                shown = partition.end - (self.machine.bug == "shrink" and partition.end > 50)
                pieces = partition.read(one.fetch_offset)
                error = 1 if one.fetch_offset > partition.end else 0
                fetched.append(
                    fetch.FetchedPartition(one.partition, error, shown, shown, 0, pieces, sum(map(len, pieces)))
                )
            topics.append(fetch.FetchedTopic(name, None, fetched))
        data = b"".join(fetch.encode_response(head.version, head.correlation_id, 0, 0, 0, topics))
        self.machine.loop.call_later(0.01, self.reply, place, data)


class ToyMachine:
    def __init__(self, loop, bug=None):
        self.loop, self.bug, self.random = loop, bug, loop.random_for("toy")
        self.partitions = [Partition(self) for _ in range(2)]
        self.next_producer = self.epoch = 0

    async def start(self, loop, host, port):
        self.epoch += 1
        for partition in self.partitions:
            partition.reset()
        self.server = await loop.create_server(lambda: Connection(self), host, port)

    async def stop(self):
        self.server.close()

    def crash(self):
        for partition in self.partitions:
            if self.bug == "lose on kill":
                del partition.batches[partition.synced :]

    def lose_power(self):
        for partition in self.partitions:
            del partition.batches[self.random.randint(partition.synced, len(partition.batches)) :]
            partition.synced = len(partition.batches)

    def lose_power_at(self, changes, on_power_loss):
        """There is no disk whose changes could be counted."""

    def strike(self, kind):
        pass

    def heal(self, kind):
        pass
