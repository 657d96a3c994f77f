"""`headrace bench`: what a server gives, measured with our client from where it is run. Works on any Kafka-compatible
server, so the same command compares two of them.

load.py says what is sent, works.py does it, figures.py counts it, plot.py draws it. fanout.py is another load, on the
msgpack door.
"""

from __future__ import annotations

from headrace.cli.bench.verbs import app

__all__ = ["app"]
