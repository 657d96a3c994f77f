"""A load driver as fast as C: the librdkafka that comes inside the confluent-kafka wheel, called by ctypes.

Why not confluent-kafka's own Producer: one Python call per message tops out near a million messages a second,
less than either broker takes. `rd_kafka_produce_batch` takes ten thousand messages per call, so Python is not
part of what is measured, and the client is still somebody else's.

Payloads are handed over without a copy; the one buffer they share lives as long as its producer.
"""

from __future__ import annotations

import ctypes
from ctypes import c_char_p, c_int, c_int32, c_int64, c_size_t, c_void_p
from pathlib import Path

import confluent_kafka

MESSAGES_PER_CALL = 10_000
ERROR_TEXT_BYTES = 512
PRODUCER, CONSUMER = 0, 1
OFFSET_BEGINNING = -2
QUEUE_FULL = -184
FLUSH_LIMIT_MS = 120_000  # a broker that needs longer than this to take what is queued has failed
QUEUED_MESSAGES = 1_000_000  # enough that the broker is never waited for by Python, small enough for memory
PARTITION_FETCH_BYTES = 1_048_576  # librdkafka's own default, named because both sides depend on it


class Message(ctypes.Structure):
    _fields_ = [
        ("err", c_int),
        ("topic", c_void_p),
        ("partition", c_int32),
        ("payload", c_void_p),
        ("len", c_size_t),
        ("key", c_void_p),
        ("key_len", c_size_t),
        ("offset", c_int64),
        ("private", c_void_p),
    ]


class LoadError(Exception):
    """The client could not do its part; the text is librdkafka's own."""


DeliveryCallback = ctypes.CFUNCTYPE(None, c_void_p, ctypes.POINTER(Message), c_void_p)
ErrorCallback = ctypes.CFUNCTYPE(None, c_void_p, c_int, c_char_p, c_void_p)


def load_library() -> ctypes.CDLL:
    package = Path(confluent_kafka.__file__).parent
    folders = [package.parent / "confluent_kafka.libs", package / ".dylibs", package]
    for folder in folders:
        for path in sorted(folder.glob("librdkafka*")):
            return declare(ctypes.CDLL(str(path)))
    raise LoadError(f"no librdkafka beside {package}: install the confluent-kafka wheel")


def declare(library: ctypes.CDLL) -> ctypes.CDLL:
    signatures: dict[str, tuple[object, list[object]]] = {
        "conf_new": (c_void_p, []),
        "conf_set": (c_int, [c_void_p, c_char_p, c_char_p, c_char_p, c_size_t]),
        "conf_set_dr_msg_cb": (None, [c_void_p, DeliveryCallback]),
        "conf_set_error_cb": (None, [c_void_p, ErrorCallback]),
        "new": (c_void_p, [c_int, c_void_p, c_char_p, c_size_t]),
        "destroy": (None, [c_void_p]),
        "topic_new": (c_void_p, [c_void_p, c_char_p, c_void_p]),
        "topic_destroy": (None, [c_void_p]),
        "produce_batch": (c_int, [c_void_p, c_int32, c_int, c_void_p, c_int]),
        "poll": (c_int, [c_void_p, c_int]),
        "flush": (c_int, [c_void_p, c_int]),
        "outq_len": (c_int, [c_void_p]),
        "err2str": (c_char_p, [c_int]),
        "last_error": (c_int, []),
        "queue_new": (c_void_p, [c_void_p]),
        "queue_destroy": (None, [c_void_p]),
        "consume_start_queue": (c_int, [c_void_p, c_int32, c_int64, c_void_p]),
        "consume_stop": (c_int, [c_void_p, c_int32]),
        "consume_callback_queue": (c_int, [c_void_p, c_int, c_void_p, c_void_p]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, f"rd_kafka_{name}")
        function.restype, function.argtypes = result, arguments
    return library


LIBRARY = load_library()


class Client:
    """What producer and consumer share: a handle, its settings, and the errors that librdkafka reports."""

    def __init__(self, kind: int, settings: dict[str, str]) -> None:
        self.failures: list[str] = []
        self._on_delivery = DeliveryCallback(self._delivered)
        self._on_error = ErrorCallback(self._error)
        text = ctypes.create_string_buffer(ERROR_TEXT_BYTES)
        conf = LIBRARY.rd_kafka_conf_new()
        for key, value in settings.items():
            if LIBRARY.rd_kafka_conf_set(conf, key.encode(), value.encode(), text, ERROR_TEXT_BYTES):
                raise LoadError(f"{key}={value}: {text.value.decode()}")
        if kind == PRODUCER:
            LIBRARY.rd_kafka_conf_set_dr_msg_cb(conf, self._on_delivery)
        LIBRARY.rd_kafka_conf_set_error_cb(conf, self._on_error)
        self.handle = LIBRARY.rd_kafka_new(kind, conf, text, ERROR_TEXT_BYTES)
        if not self.handle:
            raise LoadError(text.value.decode())

    def _delivered(self, _handle: int, message: ctypes._Pointer[Message], _opaque: int) -> None:
        self.failures.append(error_text(message.contents.err))

    def _error(self, _handle: int, code: int, reason: bytes, _opaque: int) -> None:
        self.failures.append(f"{error_text(code)}: {reason.decode()}")

    def check(self) -> None:
        if self.failures:
            raise LoadError(f"{len(self.failures)} errors, the first: {self.failures[0]}")


class Producer(Client):
    """Identical messages to one topic, as fast as the broker takes them."""

    def __init__(self, address: str, topic: str, message_bytes: int, **settings: object) -> None:
        options = {
            "bootstrap.servers": address,
            "linger.ms": "5",
            "acks": "1",
            "queue.buffering.max.messages": str(QUEUED_MESSAGES),
            "queue.buffering.max.kbytes": str(2 << 20),
            "delivery.report.only.error": "true",
        }
        options |= {key.replace("_", "."): str(value) for key, value in settings.items()}
        super().__init__(PRODUCER, options)
        self._topic = LIBRARY.rd_kafka_topic_new(self.handle, topic.encode(), None)
        self._payload = ctypes.create_string_buffer(bytes(i % 251 for i in range(message_bytes)), message_bytes)
        self._messages = (Message * MESSAGES_PER_CALL)()
        for message in self._messages:
            message.payload, message.len = ctypes.addressof(self._payload), message_bytes

    def produce(self, count: int, partition: int = 0) -> None:
        """Queues `count` messages; waits only while the queue is full."""
        while count:
            taken = LIBRARY.rd_kafka_produce_batch(
                self._topic, partition, 0, ctypes.byref(self._messages), min(count, MESSAGES_PER_CALL)
            )
            count -= taken
            LIBRARY.rd_kafka_poll(self.handle, 0 if taken else 1)
            self.check()

    def flush(self) -> None:
        code = LIBRARY.rd_kafka_flush(self.handle, FLUSH_LIMIT_MS)
        self.check()
        if code:
            raise LoadError(f"flush: {error_text(code)}, {LIBRARY.rd_kafka_outq_len(self.handle)} messages left")

    def close(self) -> None:
        LIBRARY.rd_kafka_topic_destroy(self._topic)
        LIBRARY.rd_kafka_destroy(self.handle)


class Consumer(Client):
    """Reads partition 0 from its first record and counts.

    librdkafka destroys each message after its callback. The callback is a function of the library itself that
    only looks (`rd_kafka_message_timestamp`), so no message ever becomes a Python object.
    """

    def __init__(self, address: str, topic: str) -> None:
        fetch = {"fetch.message.max.bytes": str(PARTITION_FETCH_BYTES), "fetch.wait.max.ms": "500"}
        queued = {"queued.min.messages": "1000000", "queued.max.messages.kbytes": "262144"}
        super().__init__(CONSUMER, {"bootstrap.servers": address, "group.id": "bench"} | fetch | queued)
        self._look = ctypes.cast(LIBRARY.rd_kafka_message_timestamp, c_void_p)
        self._topic = LIBRARY.rd_kafka_topic_new(self.handle, topic.encode(), None)
        self._queue = LIBRARY.rd_kafka_queue_new(self.handle)

    def consume(self, count: int) -> None:
        if LIBRARY.rd_kafka_consume_start_queue(self._topic, 0, OFFSET_BEGINNING, self._queue):
            raise LoadError(error_text(LIBRARY.rd_kafka_last_error()))
        silent = 0
        while count > 0:
            got = LIBRARY.rd_kafka_consume_callback_queue(self._queue, 1000, self._look, None)
            LIBRARY.rd_kafka_poll(self.handle, 0)
            self.check()
            silent = 0 if got else silent + 1
            if silent > FLUSH_LIMIT_MS // 1000:
                raise LoadError(f"{count} messages never came")
            count -= got

    def close(self) -> None:
        LIBRARY.rd_kafka_consume_stop(self._topic, 0)
        LIBRARY.rd_kafka_queue_destroy(self._queue)
        LIBRARY.rd_kafka_topic_destroy(self._topic)
        LIBRARY.rd_kafka_destroy(self.handle)


def error_text(code: int) -> str:
    text: bytes = LIBRARY.rd_kafka_err2str(code)
    return text.decode()
