"""Any frames, cut anywhere, with any rubbish behind: the decoder gives the same as it would in one piece."""

from __future__ import annotations

import itertools

from hypothesis import example, given
from hypothesis import strategies as st

from headrace.wire.binary.decoder import Decoder
from headrace.wire.binary.frame import Frame, MalformedFrame, Type, complete, encode
from tests.wire_binary import vectors

MAX_BYTES = 4096
text = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=12)
keys = text.filter(lambda key: "=" not in key)
u64 = st.integers(0, (1 << 64) - 1)
frames = st.builds(
    Frame, st.sampled_from(sorted(Type)), u64, u64, st.dictionaries(keys, text, max_size=5), st.binary(max_size=200)
)


def events(pieces: list[bytes]) -> list[Frame | str]:
    decoder, found = Decoder(MAX_BYTES), []
    try:
        for piece in pieces:
            for frame in decoder.feed(piece):
                found.append(frame)
    except MalformedFrame as error:
        found.append(str(error))
    return found


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = sorted({place % (len(data) + 1) for place in places} | {0, len(data)})
    return [data[begin:end] for begin, end in itertools.pairwise(edges)]


@given(st.lists(frames, max_size=5), st.binary(max_size=80), st.lists(st.integers(0, 1 << 16), max_size=10))
@example([], vectors.PUBLISH + vectors.CREATE_TOPIC, [])
def test_whole_and_in_pieces_and_byte_by_byte_give_the_same(
    sent: list[Frame], rubbish: bytes, places: list[int]
) -> None:
    data = b"".join(encode(*frame[:5]) for frame in sent) + rubbish
    whole = events([data])
    assert events(cut(data, places)) == whole
    assert events([data[at : at + 1] for at in range(len(data))]) == whole
    for frame, meant in zip(whole, sent, strict=False):
        properties = dict(meant.properties)
        complete(properties, meant.timestamp_ms)
        assert frame == meant._replace(properties=properties, size=len(encode(*meant[:5])))
        assert isinstance(frame, Frame) and list(frame.properties) == list(properties)


@given(st.lists(frames, min_size=1, max_size=3), st.data())
def test_a_flipped_byte_gives_frames_or_an_error_and_never_anything_else(
    sent: list[Frame], data: st.DataObject
) -> None:
    whole = bytearray(b"".join(encode(*frame[:5]) for frame in sent))
    place = data.draw(st.integers(0, len(whole) - 1))
    whole[place] ^= data.draw(st.integers(1, 255))
    assert events([bytes(whole)]) == events([bytes(whole[at : at + 1]) for at in range(len(whole))])
