"""`headrace log-metrics`: what the msgpack door publishes about itself every ten seconds, as it comes."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli.options import current
from headrace.cli.speakers import speaker
from headrace.cli.speaking.saying import Saying
from headrace.cli.speaking.wishes import Subscribe

PATTERN = "!system/metrics/*"


def command(
    address: Annotated[
        str | None, typer.Option("-a", "--address", metavar="HOST:PORT", help="of the msgpack door")
    ] = None,
    count: Annotated[int | None, typer.Option(metavar="N", min=1, help="end after so many")] = None,
) -> None:
    """Log the metrics that the msgpack door publishes, until Ctrl-C.

    They are those of its own protocol: connections, commands and messages sent, every ten seconds. `headrace top` shows
    the whole node.

    Examples:
      headrace log-metrics
      headrace log-metrics --address 127.0.0.1:36912 -o jsonl
    """
    with Saying(current()) as say, speaker("msgpack", address) as at:
        at.subscribe(Subscribe(PATTERN, count=count), say)
