"""The ledgers that the sink writes by: how each is named, and what their answers mean. A ledger knows the last batch
that was committed, and takes every batch up to it for written. Rows that it leaves out are never left out in silence:

- A stream runs one batch again at the most, the last that its checkpoint has planned. So the ledger's last batch is
  such a repetition, and is passed over; an older one comes from a checkpoint that was put back, has other rows than
  were written under its number, and is an error.
- A write with a `writeId` may be repeated as often as one likes. That is what the id is for; but two writes may have
  one by mistake, so a repetition is a warning with the number of its rows.

The topic is in the name of a write's ledger, since what one micro-batch writes to two topics is two writes. Ledgers of
before had the id alone: a batch that is in such a one is written, too.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from headrace.spark.errors import CheckpointTooOld

if TYPE_CHECKING:
    from headrace.client.blocking import Client
    from headrace.client.sinks import Member
    from headrace.spark.sink_options import SinkOptions

logger = logging.getLogger("headrace.spark")

STREAM: Final = "spark:"
WRITE: Final = "spark-write:"
WITHOUT_TOPIC: Final = "spark-batch:"  # of before
ONCE: Final = "once:spark:"  # a ledger that need not stay


def of_stream(query: str) -> str:
    return STREAM + query


def of_write(options: SinkOptions) -> str:
    """The topic's name is written so that neither `#` nor a second `/` comes from it: no two writes share a ledger."""
    if options.write_id is None:
        return ONCE + str(uuid.uuid4())
    return f"{WRITE}{options.write_id}/{quote(options.topic or '', safe='')}"


def commit(client: Client, options: SinkOptions, ledger: str, batch: int, members: Sequence[Member], rows: int) -> None:
    """Or nothing, when the batch is there: its members are aborted then."""
    known = _with_batch(client, options.write_id, ledger, batch) if options.write_id is not None else None
    if known is not None:
        words = "was written before, as %r says: the %d rows of this repetition were left out"
        logger.warning(f"batch %d of writeId %r {words}", batch, options.write_id, known, rows)
    if known not in (None, ledger):
        client.admin.abort_batch(ledger, batch, members)
        return
    last = client.admin.commit_batch(ledger, batch, members)
    if last > batch and ledger.startswith(STREAM):
        raise CheckpointTooOld(
            f"the checkpoint is older than what was written: it comes with batch {batch}, and batch {last} of"
            f" {ledger} is committed; put the newer checkpoint back, or start with a new one from where it is to go"
            f" on, or let `headrace txn forget {ledger}` make it write batches {batch} to {last} a second time"
        )


def _with_batch(client: Client, write_id: str, ledger: str, batch: int) -> str | None:
    """Which ledger has the batch. To abort it with no members is to ask, and changes nothing."""
    names = (ledger, WITHOUT_TOPIC + write_id)
    return next((name for name in names if client.admin.abort_batch(name, batch, ())), None)
