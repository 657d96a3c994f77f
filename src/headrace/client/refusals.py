"""A broker's refusal as an error of ours. Its words come first where it sent any, ours where it did not."""

from __future__ import annotations

from typing import Final

from headrace import errors
from headrace.wire.kafka.codes_client import name_of
from headrace.wire.kafka.errors import Code

_CLASSES: Final[dict[int, type[errors.HeadraceError]]] = {
    Code.CORRUPT_MESSAGE: errors.CorruptBatch,
    Code.UNKNOWN_TOPIC_OR_PARTITION: errors.UnknownTopic,
    Code.NOT_LEADER_OR_FOLLOWER: errors.NotLeader,
    Code.REQUEST_TIMED_OUT: errors.RequestTimedOut,
    Code.MESSAGE_TOO_LARGE: errors.MessageTooLarge,
    Code.INVALID_TOPIC_EXCEPTION: errors.InvalidTopicName,
    Code.NOT_ENOUGH_REPLICAS: errors.NotEnoughReplicas,
    Code.INVALID_TIMESTAMP: errors.InvalidTimestamp,
    Code.TOPIC_ALREADY_EXISTS: errors.TopicExists,
    Code.INVALID_PARTITIONS: errors.InvalidPartitions,
    Code.INVALID_REPLICATION_FACTOR: errors.InvalidReplication,
    Code.INVALID_REPLICA_ASSIGNMENT: errors.InvalidReplication,
    Code.INVALID_CONFIG: errors.InvalidConfig,
    Code.POLICY_VIOLATION: errors.LimitReached,
    Code.OUT_OF_ORDER_SEQUENCE_NUMBER: errors.OutOfOrderSequence,
    Code.INVALID_PRODUCER_EPOCH: errors.StaleProducerEpoch,
    Code.KAFKA_STORAGE_ERROR: errors.StorageFailed,
    Code.FENCED_LEADER_EPOCH: errors.FencedLeaderEpoch,
    Code.UNKNOWN_LEADER_EPOCH: errors.UnknownLeaderEpoch,
    Code.INVALID_RECORD: errors.InvalidRecord,
    Code.UNKNOWN_TOPIC_ID: errors.UnknownTopicId,
    Code.INVALID_GROUP_ID: errors.InvalidGroupId,
    Code.NON_EMPTY_GROUP: errors.GroupNotEmpty,
    Code.GROUP_ID_NOT_FOUND: errors.GroupNotFound,
    Code.GROUP_SUBSCRIBED_TO_TOPIC: errors.GroupSubscribed,
    Code.OFFSET_METADATA_TOO_LARGE: errors.PositionTooLarge,
    Code.UNSTABLE_OFFSET_COMMIT: errors.UnstablePosition,
    Code.ILLEGAL_GENERATION: errors.IllegalGeneration,
    Code.UNKNOWN_MEMBER_ID: errors.UnknownMember,
    Code.REBALANCE_IN_PROGRESS: errors.RebalanceInProgress,
    Code.FENCED_INSTANCE_ID: errors.FencedMember,
    Code.INCONSISTENT_GROUP_PROTOCOL: errors.InconsistentProtocol,
    Code.INVALID_SESSION_TIMEOUT: errors.InvalidSessionTimeout,
    Code.GROUP_MAX_SIZE_REACHED: errors.GroupFull,
    Code.COORDINATOR_LOAD_IN_PROGRESS: errors.CoordinatorLoading,
    Code.COORDINATOR_NOT_AVAILABLE: errors.CoordinatorUnavailable,
    Code.NOT_COORDINATOR: errors.NotCoordinator,
    Code.TRANSACTIONAL_ID_NOT_FOUND: errors.UnknownTransactionalId,
    Code.CONCURRENT_TRANSACTIONS: errors.ConcurrentTransactions,
    Code.INVALID_TRANSACTION_TIMEOUT: errors.InvalidTransactionTimeout,
    Code.INVALID_TXN_STATE: errors.InvalidTransactionState,
    Code.PRODUCER_FENCED: errors.ProducerFenced,
    Code.TRANSACTION_COORDINATOR_FENCED: errors.CoordinatorFenced,
    Code.INVALID_PRODUCER_ID_MAPPING: errors.UnknownProducerId,
    Code.TRANSACTION_ABORTABLE: errors.TransactionAbortable,
}

NOT_ENOUGH_REPLICAS_AFTER_APPEND: Final = 20
LEADER_NOT_AVAILABLE: Final = 5
NOT_CONTROLLER: Final = 41
DUPLICATE_SEQUENCE_NUMBER: Final = 46
UNKNOWN_PRODUCER_ID: Final = 59

# What says that a coordinator is elsewhere, or not ready.
MOVING: Final = frozenset(
    {int(Code.COORDINATOR_LOAD_IN_PROGRESS), int(Code.COORDINATOR_NOT_AVAILABLE), int(Code.NOT_COORDINATOR)}
)

# What says that our idea of who leads a partition is old.
MISDIRECTED: Final = frozenset(
    {
        int(Code.UNKNOWN_TOPIC_OR_PARTITION),
        LEADER_NOT_AVAILABLE,
        int(Code.NOT_LEADER_OR_FOLLOWER),
        int(Code.KAFKA_STORAGE_ERROR),  # the leader's disk: another may lead soon
        int(Code.FENCED_LEADER_EPOCH),
        int(Code.UNKNOWN_LEADER_EPOCH),
        int(Code.UNKNOWN_TOPIC_ID),
        103,  # INCONSISTENT_TOPIC_ID
    }
)


def error_of(code: int, what: str, words: str | None = None) -> errors.HeadraceError:
    """`what` is what was asked, as in "topic orders"; `words` is what the broker said of it."""
    kind = _CLASSES.get(code)
    if words is not None and words.startswith(f"{what} "):  # it has said already of what it speaks
        told = words
    else:
        told = f"{what}: {words or _OWN.get(code) or name_of(code)}"
    if kind is not None:
        return kind(told)
    return errors.BrokerRefused(code, name_of(code), told if words else f"{what} was refused")


_OWN: Final[dict[int, str]] = {
    Code.UNKNOWN_TOPIC_OR_PARTITION: "there is no such topic or partition",
    Code.NOT_LEADER_OR_FOLLOWER: "the node that was asked does not lead it",
    Code.REQUEST_TIMED_OUT: "the broker did not finish in the time that it was given",
    Code.MESSAGE_TOO_LARGE: "larger than the topic takes; raise its max.message.bytes or send less at once",
    Code.INVALID_TOPIC_EXCEPTION: "no topic can have that name: it is 1 to 249 of A-Z a-z 0-9 . _ -",
    Code.NOT_ENOUGH_REPLICAS: "fewer replicas are in sync than min.insync.replicas asks for",
    Code.INVALID_TIMESTAMP: "a timestamp outside of what the topic accepts",
    Code.TOPIC_ALREADY_EXISTS: "the name is taken",
    Code.KAFKA_STORAGE_ERROR: "the broker's disk failed or is full; see its log",
    Code.UNKNOWN_TOPIC_ID: "the topic was deleted, or deleted and made again",
    Code.CORRUPT_MESSAGE: "the broker read bytes that are not a batch",
    Code.INVALID_GROUP_ID: "no group can have that name",
    Code.NON_EMPTY_GROUP: "it has members; stop them first",
    Code.GROUP_ID_NOT_FOUND: "there is no such group",
    Code.GROUP_SUBSCRIBED_TO_TOPIC: "members read that topic; stop them first",
    Code.ILLEGAL_GENERATION: "the group went on without this member; what it read since is read again by others",
    Code.UNKNOWN_MEMBER_ID: "the group does not know this member any more; what it read since is read again by others",
    Code.REBALANCE_IN_PROGRESS: "partitions are just being given out anew",
    Code.FENCED_INSTANCE_ID: "another process has joined with the same instance name; this one is over",
    Code.INCONSISTENT_GROUP_PROTOCOL: "its members share out partitions in other ways than this one's `assignors`",
    Code.INVALID_SESSION_TIMEOUT: "the broker does not take that session timeout",
    Code.GROUP_MAX_SIZE_REACHED: "it has as many members as the broker lets it have",
    Code.UNSTABLE_OFFSET_COMMIT: "a transaction that would move the position has not ended",
    Code.TRANSACTIONAL_ID_NOT_FOUND: "there is no such transactional id",
}
