"""Kafka's error codes, and which of them says what an error of ours says.

A code decides what a client does next (retry, refresh its metadata, give up), so the choice is made by that
and not by the likeness of names. The text of our error travels along wherever the protocol has room for it, cut
to a bounded length: it may quote what a stranger sent, and goes out once for each partition.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from headrace import errors

# Room for the longest of our texts with a topic's name in it, 249 bytes at most, and little enough that a request
# whose every partition is refused, MAX_ASKED of them, gets an answer of some megabytes.
MAX_MESSAGE_CHARS: Final = 500


class MalformedRequest(errors.HeadraceError):
    """Bytes that are not the message they claim to be. There is no answer: the connection is closed."""


class InvalidRequest(errors.HeadraceError):
    """A request that can be read, and contradicts itself or asks for what nobody can mean."""


class RequestTimedOut(errors.HeadraceError):
    """The time that the client gave us is over."""


class UnsupportedCompression(errors.HeadraceError):
    """A codec that came later than the version the client speaks."""


class Code(IntEnum):
    """The codes that we send."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    MESSAGE_TOO_LARGE = 10
    OFFSET_METADATA_TOO_LARGE = 12
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    INVALID_TOPIC_EXCEPTION = 17
    NOT_ENOUGH_REPLICAS = 19
    INVALID_REQUIRED_ACKS = 21
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    INVALID_COMMIT_OFFSET_SIZE = 28
    INVALID_TIMESTAMP = 32
    UNSUPPORTED_VERSION = 35
    TOPIC_ALREADY_EXISTS = 36
    INVALID_PARTITIONS = 37
    INVALID_REPLICATION_FACTOR = 38
    INVALID_REPLICA_ASSIGNMENT = 39
    INVALID_CONFIG = 40
    INVALID_REQUEST = 42
    POLICY_VIOLATION = 44
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    INVALID_PRODUCER_EPOCH = 47
    INVALID_TXN_STATE = 48
    INVALID_PRODUCER_ID_MAPPING = 49
    INVALID_TRANSACTION_TIMEOUT = 50
    CONCURRENT_TRANSACTIONS = 51
    TRANSACTION_COORDINATOR_FENCED = 52
    OPERATION_NOT_ATTEMPTED = 55
    KAFKA_STORAGE_ERROR = 56
    LOG_DIR_NOT_FOUND = 57
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    FETCH_SESSION_ID_NOT_FOUND = 70
    INVALID_FETCH_SESSION_EPOCH = 71
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    UNSUPPORTED_COMPRESSION_TYPE = 76
    MEMBER_ID_REQUIRED = 79
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82
    ELECTION_NOT_NEEDED = 84
    NO_REASSIGNMENT_IN_PROGRESS = 85
    GROUP_SUBSCRIBED_TO_TOPIC = 86
    INVALID_RECORD = 87
    UNSTABLE_OFFSET_COMMIT = 88
    PRODUCER_FENCED = 90
    INVALID_UPDATE_VERSION = 95
    UNKNOWN_TOPIC_ID = 100
    BROKER_ID_NOT_REGISTERED = 102
    TRANSACTIONAL_ID_NOT_FOUND = 105
    FETCH_SESSION_TOPIC_ID_ERROR = 106
    MISMATCHED_ENDPOINT_TYPE = 114
    UNSUPPORTED_ENDPOINT_TYPE = 115
    TRANSACTION_ABORTABLE = 120
    INVALID_REGULAR_EXPRESSION = 128


_CODES: dict[type[BaseException], Code] = {
    MalformedRequest: Code.INVALID_REQUEST,
    InvalidRequest: Code.INVALID_REQUEST,
    errors.InvalidAcks: Code.INVALID_REQUIRED_ACKS,
    errors.Unsettled: Code.REQUEST_TIMED_OUT,
    RequestTimedOut: Code.REQUEST_TIMED_OUT,
    UnsupportedCompression: Code.UNSUPPORTED_COMPRESSION_TYPE,
    errors.NotEnoughReplicas: Code.NOT_ENOUGH_REPLICAS,
    errors.CorruptBatch: Code.CORRUPT_MESSAGE,
    # Not CORRUPT_MESSAGE: a client repeats that, and an old format stays old.
    errors.UnsupportedMagic: Code.INVALID_RECORD,
    errors.DecompressionLimit: Code.INVALID_RECORD,
    # Both are repeated by clients, and both end by themselves: with recovery, with space.
    errors.StorageFailed: Code.KAFKA_STORAGE_ERROR,
    errors.DiskFull: Code.KAFKA_STORAGE_ERROR,
    errors.OffsetOutOfRange: Code.OFFSET_OUT_OF_RANGE,
    errors.DamagedRange: Code.CORRUPT_MESSAGE,
    errors.OutOfOrderSequence: Code.OUT_OF_ORDER_SEQUENCE_NUMBER,
    errors.StaleProducerEpoch: Code.INVALID_PRODUCER_EPOCH,
    errors.InvalidTransactionState: Code.INVALID_TXN_STATE,
    errors.ProducerFenced: Code.PRODUCER_FENCED,
    errors.UnknownProducerId: Code.INVALID_PRODUCER_ID_MAPPING,
    errors.ConcurrentTransactions: Code.CONCURRENT_TRANSACTIONS,
    errors.InvalidTransactionTimeout: Code.INVALID_TRANSACTION_TIMEOUT,
    errors.CoordinatorFenced: Code.TRANSACTION_COORDINATOR_FENCED,
    errors.UnknownTransactionalId: Code.TRANSACTIONAL_ID_NOT_FOUND,
    errors.UnknownLedger: Code.TRANSACTIONAL_ID_NOT_FOUND,
    errors.TransactionAbortable: Code.TRANSACTION_ABORTABLE,
    errors.UnknownTopic: Code.UNKNOWN_TOPIC_OR_PARTITION,
    errors.UnknownTopicId: Code.UNKNOWN_TOPIC_ID,
    errors.TopicExists: Code.TOPIC_ALREADY_EXISTS,
    errors.InvalidTopicName: Code.INVALID_TOPIC_EXCEPTION,
    errors.InvalidPartitions: Code.INVALID_PARTITIONS,
    errors.InvalidReplication: Code.INVALID_REPLICATION_FACTOR,
    errors.InvalidConfig: Code.INVALID_CONFIG,
    errors.KeptForever: Code.POLICY_VIOLATION,
    errors.UnknownNode: Code.BROKER_ID_NOT_REGISTERED,
    errors.MessageTooLarge: Code.MESSAGE_TOO_LARGE,
    errors.InvalidTimestamp: Code.INVALID_TIMESTAMP,
    errors.InvalidRecord: Code.INVALID_RECORD,
    errors.FencedLeaderEpoch: Code.FENCED_LEADER_EPOCH,
    errors.UnknownLeaderEpoch: Code.UNKNOWN_LEADER_EPOCH,
    # A client answers both by asking for metadata and trying again, here or where the partition went.
    errors.NotLeader: Code.NOT_LEADER_OR_FOLLOWER,
    errors.ShuttingDown: Code.NOT_LEADER_OR_FOLLOWER,
    errors.LimitReached: Code.POLICY_VIOLATION,
    errors.CoordinatorLoading: Code.COORDINATOR_LOAD_IN_PROGRESS,
    errors.CoordinatorUnavailable: Code.COORDINATOR_NOT_AVAILABLE,
    errors.NotCoordinator: Code.NOT_COORDINATOR,
    errors.InvalidGroupId: Code.INVALID_GROUP_ID,
    errors.GroupNotFound: Code.GROUP_ID_NOT_FOUND,
    errors.GroupNotEmpty: Code.NON_EMPTY_GROUP,
    errors.GroupFull: Code.GROUP_MAX_SIZE_REACHED,
    errors.GroupDataTooLarge: Code.INVALID_REQUEST,
    errors.GroupSubscribed: Code.GROUP_SUBSCRIBED_TO_TOPIC,
    errors.UnknownMember: Code.UNKNOWN_MEMBER_ID,
    errors.MemberIdRequired: Code.MEMBER_ID_REQUIRED,
    errors.FencedMember: Code.FENCED_INSTANCE_ID,
    errors.IllegalGeneration: Code.ILLEGAL_GENERATION,
    errors.InconsistentProtocol: Code.INCONSISTENT_GROUP_PROTOCOL,
    errors.QueueModeConflict: Code.INCONSISTENT_GROUP_PROTOCOL,
    errors.LeaseHeld: Code.GROUP_MAX_SIZE_REACHED,  # which is one
    errors.InvalidSessionTimeout: Code.INVALID_SESSION_TIMEOUT,
    errors.RebalanceInProgress: Code.REBALANCE_IN_PROGRESS,
    errors.PositionTooLarge: Code.OFFSET_METADATA_TOO_LARGE,
    errors.CommitTooLarge: Code.INVALID_COMMIT_OFFSET_SIZE,
    errors.UnstablePosition: Code.UNSTABLE_OFFSET_COMMIT,
}


def code_for(error: BaseException) -> tuple[Code, str]:
    """The code of the nearest class that has one, and the text, at most MAX_MESSAGE_CHARS of it."""
    text = str(error)
    if len(text) > MAX_MESSAGE_CHARS:
        text = text[: MAX_MESSAGE_CHARS - 1] + "…"
    for kind in type(error).__mro__:
        code = _CODES.get(kind)
        if code is not None:
            return code, text
    return Code.UNKNOWN_SERVER_ERROR, text
