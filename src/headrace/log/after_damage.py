"""Where the log goes on behind a damaged batch: the search for the next true one."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.log.overlap import last_in_doubt
from headrace.log.places import SEARCH_BYTES, Place, is_true, places
from headrace.log.walk import Fetch
from headrace.records.batch import HEADER_BYTES, BatchHeader, read_header
from headrace.records.header import CRC_FROM, MAX_BATCH_BYTES, implausible
from headrace.records.kernel import crc32c, scan

MOST_DOUBTFUL = 16  # true batches that are remembered while a certain one is looked for
NOWHERE = -1


def next_batch(
    fetch: Fetch, position: int, end: int, after_offset: int, known_offset: int, has_gaps: bool
) -> tuple[int, int] | None:
    """(position, base offset) of the first true batch after the one at `position`, which should have `after_offset` (in
    a segment with gaps: or a later one) and is damaged.

    A batch's checksum does not cover its offset, so that needs evidence of its own. It lies before `known_offset`, or
    goes on from there, and

    - is where the damaged batch's length leads to, with the offset that its count of records leads to (in a segment
      with gaps: or a later one, and its own checksum does not end true at a batch before it);
    - or is where the damaged batch's own checksum ends true: only its length, offset or epoch were changed. Should what
      is there not go on from it, its offset was changed, too, and the search begins anew behind that one;
    - or has the offset that the damaged batch's count leads to, or what is behind it does go on from it. The first such
      is taken, unless one before it leaves room for it and either has a true neighbour with an offset that cannot be,
      or is where the damaged batch's length leads to;
    - or, with no evidence at all, is the first of all.

    In a segment without gaps, the offset that a count leads to is no evidence for a batch that the true one right
    behind it contradicts.
    """
    while True:
        damaged = _Damaged(fetch, position, after_offset, has_gaps)
        search = _Search(fetch, damaged, end, after_offset, known_offset, has_gaps)
        found = search.where_it_leads() or search.run()
        if found is None:
            return None
        at, header = found
        doubt = None
        if has_gaps:
            first, behind = (at, header.base_offset, header.next_offset), at + header.size
            known = max(known_offset, header.next_offset)  # it may be the first that is not
            doubt = last_in_doubt(fetch, end, known, damaged.successor, first, behind)
        if not damaged.ends_at(at) or (damaged.leads_to(header) and doubt is None):
            return at, header.base_offset
        position, after_offset = at, damaged.successor


class _Damaged:
    """What a damaged batch still says."""

    __slots__ = ("_crc", "_fetch", "_has_gaps", "_is_true_up_to", "_seen", "_seen_crc", "hop", "position", "successor")

    def __init__(self, fetch: Fetch, position: int, offset: int, has_gaps: bool) -> None:
        self._fetch, self.position, self._has_gaps = fetch, position, has_gaps
        raw = fetch(HEADER_BYTES, position)
        self.hop = self.successor = self._crc = NOWHERE
        if len(raw) == HEADER_BYTES:
            header = read_header(raw)
            self.hop, self._crc = position + header.size, header.crc
            self.successor = offset + header.last_offset_delta + 1  # where there are gaps: or a later one
        self._seen, self._seen_crc = position + CRC_FROM, 0
        self._is_true_up_to = NOWHERE

    def leads_to(self, header: BatchHeader) -> bool:
        return header.base_offset == self.successor or (self._has_gaps and header.base_offset > self.successor)

    def ends_at(self, at: int) -> bool:
        """Whether its checksum is true, if this is its end. To be asked in rising order, or for one that it was."""
        if self._seen < at <= self.position + MAX_BATCH_BYTES:
            while self._seen < at:
                data = self._fetch(min(at - self._seen, SEARCH_BYTES), self._seen)
                if not data:
                    return False
                self._seen_crc = crc32c(data, self._seen_crc)
                self._seen += len(data)
            if self._seen_crc == self._crc:
                self._is_true_up_to = at
        return at == self._is_true_up_to


class _Search:
    """Through all that could be the batch behind a damaged one."""

    __slots__ = ("_after_offset", "_damaged", "_end", "_fetch", "_has_gaps", "_known_offset")

    def __init__(
        self, fetch: Fetch, damaged: _Damaged, end: int, after_offset: int, known_offset: int, has_gaps: bool
    ) -> None:
        self._fetch, self._damaged, self._end, self._has_gaps = fetch, damaged, end, has_gaps
        self._after_offset, self._known_offset = after_offset, known_offset

    def where_it_leads(self) -> Place | None:
        """By its length and its count of records, if both are true."""
        at = self._damaged.hop
        raw = self._fetch(HEADER_BYTES, at) if self._damaged.position < at < self._end else b""
        if len(raw) < HEADER_BYTES or not self._damaged.leads_to(header := read_header(raw)):
            return None
        if not self._may_be(at, header):
            return None
        if not self._has_gaps:
            return None if self._is_contradicted(at, header) else (at, header)
        return (self._sooner(at) or (at, header)) if self._goes_on(at, header) else None

    def _sooner(self, hop: int) -> Place | None:
        """Where there are gaps, a length that is too long may lead to a batch that could follow. The next one is before
        it, if the damaged one's checksum ends there."""
        for at, header in self._places():
            if at >= hop:
                break
            if self._damaged.ends_at(at) and self._may_be(at, header):
                return at, header
        return None

    def run(self) -> Place | None:
        best: Place | None = None  # certain, or else likely
        is_certain = False
        others: list[Place] = []
        first: Place | None = None
        for at, header in self._places():
            if is_certain and best is not None and at > best[0] + SEARCH_BYTES:
                break
            if not self._may_be(at, header):
                continue
            if self._damaged.ends_at(at):
                return at, header
            if is_certain:
                continue
            first = first or (at, header)
            is_next = header.base_offset == self._damaged.successor
            if self._goes_on(at, header) or (is_next and not self._is_contradicted(at, header)):
                best, is_certain = (at, header), True
                continue
            is_likely = is_next or self._has_impossible_neighbour(at, header)
            if is_likely and best is None:
                best = at, header
            if (is_likely or at == self._damaged.hop) and len(others) < MOST_DOUBTFUL:
                others.append((at, header))
        if best is None:
            return first
        return next((other for other in others if _leaves_room(other, best, self._has_gaps)), best)

    def _may_be(self, at: int, header: BatchHeader) -> bool:
        """It is a true batch, with an offset that could be."""
        is_known = header.next_offset <= self._known_offset or header.base_offset == self._known_offset
        fits = is_known and header.base_offset > self._after_offset and header.size <= self._end - at
        if not fits or implausible(header) is not None:
            return False
        data = self._fetch(header.size, at)
        return len(data) == header.size and scan(data, 0, len(data), -1, True)[2] is None

    def _goes_on(self, at: int, header: BatchHeader) -> bool:
        """What is behind it, if there is anything, has the offset that comes next. Where there are gaps: a true batch
        with a later one."""
        raw = self._behind(at, header)
        if len(raw) < HEADER_BYTES:
            is_last = self._has_gaps or header.next_offset >= self._known_offset
            return is_last and at + header.size == self._end
        behind = read_header(raw)
        if behind.base_offset == header.next_offset or not self._has_gaps:
            return behind.base_offset == header.next_offset
        return header.next_offset < behind.base_offset <= self._known_offset and is_true(
            self._fetch, at + header.size, behind, self._end
        )

    def _is_contradicted(self, at: int, header: BatchHeader) -> bool:
        """What is right behind it is true, and has another offset than the one that comes next."""
        if self._has_gaps or len(raw := self._behind(at, header)) < HEADER_BYTES:
            return False
        behind = read_header(raw)
        return behind.base_offset != header.next_offset and is_true(self._fetch, at + header.size, behind, self._end)

    def _has_impossible_neighbour(self, at: int, header: BatchHeader) -> bool:
        raw = self._behind(at, header)
        if len(raw) < HEADER_BYTES:
            return False
        behind = read_header(raw)
        is_possible = header.next_offset <= behind.base_offset <= self._known_offset
        return not is_possible and is_true(self._fetch, at + header.size, behind, self._end)

    def _behind(self, at: int, header: BatchHeader) -> bytes:
        at += header.size
        return self._fetch(HEADER_BYTES, at) if at < self._end else b""

    def _places(self) -> Iterator[Place]:
        return places(self._fetch, self._damaged.position + 1, self._end)


def _leaves_room(sooner: Place, later: Place, has_gaps: bool) -> bool:
    """Both can be true: the later one comes after it, or is only a batch that somebody had put into its records."""
    (at, header), (at_later, behind) = sooner, later
    if at + header.size == at_later and not has_gaps:
        return header.next_offset == behind.base_offset
    return header.next_offset <= behind.base_offset or at <= at_later < at + header.size
