"""Two true batches side by side whose offsets overlap, so that one of them lies about its own.

A checksum does not cover the offset. Without gaps it is what the one before leads to, and nothing else. Where
compaction has left gaps it may be any later one: a batch whose offset is too high is told only by the one behind it,
and if it is that one whose offset is too low, it looks just the same. One in between that is damaged tells nothing:
then it is the one behind that.
"""

from __future__ import annotations

from headrace.log.places import SEARCH_BYTES, Place, ReadBytes, header_at, is_true, places

MOST_CHECKED_BYTES = 16 << 20  # of what only looks like batches; bytes that somebody made to look so are many


def last_in_doubt(
    fetch: ReadBytes,
    end: int,
    known_offset: int,
    before: int,
    first: tuple[int, int, int],
    behind: int,
) -> int | None:
    """`first`: position, base and next offset of a batch that comes after the offset `before`; what is behind it is at
    `behind`. All end at `known_offset`. None: the first is not to be doubted. Its own position: it is the one that
    lies. Another: nothing tells whether it or the one there does, and neither is to be believed."""
    at, base_offset, next_offset = first
    if next_offset > known_offset:
        return at
    following = header_at(fetch, behind, end)
    if following is not None and following.base_offset >= next_offset:
        return None
    second = _next_true(fetch, behind, end, before, known_offset)
    if second is None or second[1].base_offset >= next_offset:
        return None
    place, header = second
    damaged = place > behind  # at least one offset is that one's
    if before + next_offset - base_offset + damaged > header.base_offset:
        return None  # there is no room for it but where it says
    third = header_at(fetch, place + header.size, end)
    is_known = third is not None and is_true(fetch, place + header.size, third, end)
    limit = third.base_offset if third is not None and is_known else known_offset
    has_room = next_offset + damaged + header.next_offset - header.base_offset <= limit
    return place if has_room else at


def _next_true(fetch: ReadBytes, position: int, end: int, before: int, known_offset: int) -> Place | None:
    """At the position, or where the length of the damaged one there leads, or the first of all that is near and whose
    offset could be."""
    header = header_at(fetch, position, end)
    if header is not None and is_true(fetch, position, header, end):
        return position, header
    hop = position + header.size if header is not None else end
    led_to = header_at(fetch, hop, end)
    if led_to is not None and is_true(fetch, hop, led_to, end):
        return hop, led_to
    left = MOST_CHECKED_BYTES
    for at, found in places(fetch, position + 1, min(end, position + SEARCH_BYTES)):
        if before <= found.base_offset and found.next_offset <= known_offset and found.size <= left:
            left -= found.size
            if is_true(fetch, at, found, end):
                return at, found
    return None
