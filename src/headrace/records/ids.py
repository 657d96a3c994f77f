"""What a record is called: the text of its header `id`, else a name made of its place, which costs no byte of the log
and is the same at every reading, on every node and in every client.

Two records of a topic never have the same name of this kind; the topic itself stands in it as a checksum. A topic that
is deleted and made anew begins anew with its names, too, as with its offsets.
"""

from __future__ import annotations

from typing import Final

from headrace.records.kernel import crc32c
from headrace.records.record import Headers

ID: Final = "id"  # the header


def id_of(topic: str, partition: int, offset: int, headers: Headers) -> str:
    return own_id(headers) or derived_id(topic, partition, offset)


def own_id(headers: Headers) -> str | None:
    """The first header of that name counts; what is empty, or no text, is none."""
    for name, value in headers:
        if name == ID:
            try:
                return (value or b"").decode() or None
            except UnicodeDecodeError:
                return None
    return None


def derived_id(topic: str, partition: int, offset: int) -> str:
    return f"msg_{partition}-{offset}_{crc32c(topic.encode('utf-8', 'surrogatepass')):08x}"
