"""Every error of ours: the cause in plain words, then what to do about it.

A door maps a class to its protocol's own code; the text travels with it. An error that a caller cannot act on
differently does not get a class of its own.
"""

from __future__ import annotations


class HeadraceError(Exception):
    """The root. Catch this to catch everything that Headrace says no to."""


# Records


class CorruptBatch(HeadraceError):
    """Bytes that are not the batch they claim to be: a wrong checksum, length or count."""


class UnsupportedMagic(CorruptBatch):
    """A record format from before RecordBatch v2."""


class DecompressionLimit(CorruptBatch):
    """A compressed body that grows past the limit."""


# The log


class StorageFailed(HeadraceError):
    """The disk failed in a way that leaves what was written in doubt; the log is closed until it is recovered."""


class DiskFull(HeadraceError):
    """No space left. Nothing was kept of the refused write; writing resumes when there is space."""


class DirectoryLocked(HeadraceError):
    """Another process holds the data directory."""


class DirectoryUnusable(HeadraceError):
    """A data directory that cannot be made or written in."""


class FormatTooNew(HeadraceError):
    """The data was written by a newer program than this one."""


class FormatTooOld(HeadraceError):
    """The data has a format that this program no longer reads."""


class OffsetOutOfRange(HeadraceError):
    def __init__(self, offset: int, start: int, end: int) -> None:
        self.cause = f"offset {offset} is outside of what the log holds, {start} to {end}"  # without any advice
        super().__init__(self.cause)
        self.offset, self.start, self.end = offset, start, end


class DamagedRange(HeadraceError):
    """Synced bytes that no longer read back: kept aside, never cut. Reading goes on after `next_offset`."""

    def __init__(self, offset: int, next_offset: int, why: str) -> None:
        super().__init__(f"offsets {offset} to {next_offset - 1} are damaged ({why}); read on from {next_offset}")
        self.offset, self.next_offset = offset, next_offset


# Idempotent producers


class OutOfOrderSequence(HeadraceError):
    """A producer's batch that does not follow its last one."""


class StaleProducerEpoch(HeadraceError):
    """A producer that a newer one with the same id has fenced."""


# Transactions


class InvalidTransactionState(HeadraceError):
    """What is asked for does not go with the state that the transaction is in."""


class ProducerFenced(HeadraceError):
    """Another producer with the same transactional id has begun since: this one is over."""


class UnknownProducerId(HeadraceError):
    """The producer id does not belong to that transactional id, or no longer."""


class ConcurrentTransactions(HeadraceError):
    """The transaction before is just being ended: ask again in a moment."""


class InvalidTransactionTimeout(HeadraceError):
    """A transaction's timeout that is not positive, or over the limit."""


class CoordinatorFenced(HeadraceError):
    """A marker of a coordinator that another has taken over from."""


class UnknownTransactionalId(HeadraceError):
    """No transaction is known by that id."""


class UnknownLedger(HeadraceError):
    """No query of that name has a ledger."""


class TransactionAbortable(HeadraceError):
    """The transaction cannot go on; it can be aborted, and the producer goes on with the next."""


# Topics


class UnknownTopic(HeadraceError):
    """No topic of that name, or no such partition of it."""


class UnknownPartition(UnknownTopic):
    """The topic is there, and has no partition of that number."""


class UnknownTopicId(HeadraceError):
    """No topic with that id: it was deleted, or never was."""


class TopicExists(HeadraceError):
    """The name is taken."""


class InvalidTopicName(HeadraceError):
    """A name that no topic can have."""


class InvalidPartitions(HeadraceError):
    """A count of partitions that is not positive, or over the limit."""


class InvalidReplication(HeadraceError):
    """More replicas than there are nodes, or an assignment that does not add up."""


class InvalidConfig(HeadraceError):
    """A setting that does not exist, or a value that it does not take."""


class KeptForever(HeadraceError):
    """A topic that is only compacted: nobody deletes its records."""


class UnknownNode(HeadraceError):
    """No node of that number in the cluster."""


class MessageTooLarge(HeadraceError):
    """A batch over the topic's `max.message.bytes`."""


class InvalidTimestamp(HeadraceError):
    """A timestamp outside of what the topic accepts."""


class NotEnoughReplicas(HeadraceError):
    """Fewer replicas in sync than `min.insync.replicas` asks for."""


class InvalidAcks(HeadraceError):
    """A level of acknowledgement that there is not."""


class InvalidRecord(HeadraceError):
    """A batch that is whole, but that a producer may not send."""


class Unsettled(HeadraceError):
    """What is asked for hangs on something that is just being written or read back: in a moment it can be said."""


class FencedLeaderEpoch(HeadraceError):
    """The client's leader epoch is older than ours: it should refresh its metadata."""


class UnknownLeaderEpoch(HeadraceError):
    """The client's leader epoch is newer than ours."""


class NotLeader(HeadraceError):
    """The partition is not served here (any more)."""


class ShuttingDown(HeadraceError):
    """The node is stopping; another attempt belongs to its successor."""


class LimitReached(HeadraceError):
    """A named limit of this node was reached; the text names it."""


# Groups


class CoordinatorLoading(HeadraceError):
    """What is asked for is being read back after a start; in a moment it is there."""


class CoordinatorUnavailable(HeadraceError):
    """The state of groups or transactions cannot be written, or not be read, at present; the text says why."""


class NotCoordinator(HeadraceError):
    """This node does not keep the group or transaction (any more); who asks finds out anew which one does."""


class InvalidGroupId(HeadraceError):
    """A name that no group can have."""


class GroupNotFound(HeadraceError):
    """No group of that name."""


class GroupNotEmpty(HeadraceError):
    """A group with members, where one without is needed."""


class GroupFull(HeadraceError):
    """The group has as many members as it may."""


class GroupDataTooLarge(HeadraceError):
    """What a member says of itself, or what its leader gives out, is more than a group can keep."""


class GroupSubscribed(HeadraceError):
    """Members of the group still read the topic."""


class UnknownMember(HeadraceError):
    """No such member of the group (any more): it joins anew."""


class MemberIdRequired(HeadraceError):
    """A new member joins once more, with the id that it was given."""


class FencedMember(HeadraceError):
    """Another process has taken the place of this static member."""


class IllegalGeneration(HeadraceError):
    """The member speaks of a generation of the group that is over, or has not begun."""


class InconsistentProtocol(HeadraceError):
    """A member that has no protocol in common with its group."""


class InvalidSessionTimeout(HeadraceError):
    """A session timeout outside of what the node takes."""


class RebalanceInProgress(HeadraceError):
    """Partitions are being given out anew: the member joins again."""


class PositionTooLarge(HeadraceError):
    """The text beside a position is longer than `offset.metadata.max.bytes`."""


class CommitTooLarge(HeadraceError):
    """More positions at once than can be kept together."""


class UnstablePosition(HeadraceError):
    """A transaction that would move the position has not ended."""


class QueueModeConflict(HeadraceError):
    """A queue whose members get records at most once, where at least once is asked for, or the other way."""


class LeaseHeld(HeadraceError):
    """Another consumer of the group has the lease; it runs out when that one is silent."""


# The client


class ClientError(HeadraceError):
    """What the client cannot do: no broker ever sends these."""


class ConnectionFailed(ClientError):
    """No connection, or one that ended before the answer came; the text names the address, why, and what to check."""


class RequestTimedOut(ClientError):
    """The time for a request is over; whether the broker did what was asked is not known."""


class BrokerRefused(ClientError):
    """A broker's refusal that has no class of its own here: Kafka's code and name for it, and the broker's words."""

    def __init__(self, code: int, name: str, words: str) -> None:
        super().__init__(f"{words} ({name}, code {code})")
        self.code, self.name = code, name


class UnsupportedByBroker(ClientError):
    """The broker does not speak a request, or no version of it that we speak."""


class ClientClosed(ClientError):
    """The client, producer or consumer was closed, or belongs to another process or event loop."""


class BufferFull(ClientError):
    """A producer's buffer had no room in time: the broker takes records slower than they are put."""


class DeliveryFailed(ClientError):
    """Records that were put could not be delivered; the text says how many, and why the first of them."""

    def __init__(self, count: int, first: BaseException) -> None:
        were = "record was" if count == 1 else "records were"
        super().__init__(f"{count} {were} not delivered; the first failed with: {first}")
        self.count, self.first = count, first


# Backups


class BackupError(HeadraceError):
    """What backing up or restoring stops at."""


class NotABackup(BackupError):
    """No backup is there, or one that was never finished."""


class BackupDamaged(BackupError):
    """A backup whose files are not those that it was finished with."""


class BackupUnsettled(BackupError):
    """What is to be copied changed while it was looked at: once more may go well."""


class NotEmpty(BackupError):
    """A folder that has to be new or empty, and is not."""
