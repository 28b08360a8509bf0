"""Goal: what a duel counts is what went over the link: messages read from its bytes however they were cut, repeats told from news."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pyarrow as pa
import pytest

from bench.duel.frames import Frames, Tap
from bench.duel.ours import compared as rows_compared
from bench.duel.side import Compared, Given, compare
from streams.model.records import OFFSET
from streams.replication.sync_messages import Begin, Digests, Fragment, Message, Track, encode
from tests.support.proxy import Connection, Piece

HEAD = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n"


def framed(payload: bytes, mask: bytes = b"") -> bytes:
    size, bit = len(payload), 128 if mask else 0
    head = bytes([0x82, bit | size]) if size < 126 else bytes([0x82, bit | 126]) + size.to_bytes(2)
    return head + mask + bytes(byte ^ mask[at % 4] if mask else byte for at, byte in enumerate(payload))


@pytest.mark.parametrize("mask", [b"", b"\x01\x80\xff\x00"])
@pytest.mark.parametrize("cut", [1, 7, 10_000])
def test_messages_are_read_however_their_bytes_were_cut(mask: bytes, cut: int) -> None:
    payloads = [random.Random(size).randbytes(size) for size in (0, 1, 125, 126, 4_097)]
    raw = HEAD + b"".join(framed(payload, mask) for payload in payloads)
    frames, read = Frames(), list[bytes]()
    for at in range(0, len(raw), cut):
        read += frames.feed(raw[at : at + cut])
    assert read == payloads
    assert frames.carried_bytes == len(raw) - len(HEAD)


def test_a_block_resumed_on_the_next_connection_is_counted_once_and_what_came_again_as_sent_twice() -> None:
    tap, digest = Tap(), bytes(16)

    def say(connection: Connection, at_s: float, *messages: Message) -> None:
        for message in messages:
            tap(connection, Piece(framed(encode(message), b"abcd"), True, at_s - 0.3, at_s))

    for number, start in ((0, 0), (1, 60)):
        connection = Connection(number, 10.0 * number)
        for outward in (True, False):
            tap(connection, Piece(HEAD, outward, 10.0 * number + 0.3, 10.0 * number + 0.6))
        say(connection, 10.0 * number + 1, Digests([], last=True), Track(0, "containers", "ship", 1))
        say(connection, 10.0 * number + 2, Begin(5, 0, 0, 9, 100, digest, start, bytes(20)), Fragment(5, bytes(20)))
        if number == 0:
            say(connection, 3.0, Fragment(5, bytes(40)))
    assert tap.block_bytes == tap.stream_bytes["containers"] == 120
    assert (tap.distinct_bytes("containers"), tap.resent_bytes()) == (100, 20)
    talk = tap.talks[1]
    assert (talk.upgraded_s, talk.first_block_left_s, talk.first_block_came_s) == (10.6, 11.7, 12.0)
    assert [said.kind for said in talk.said] == ["Digests", "Track", "Begin", "Fragment"]


def test_what_is_lost_repeated_and_changed_is_told_apart() -> None:
    given = [("A", b"1"), ("A", b"2"), ("B", b"1"), ("B", b"1")]
    assert compare(iter(given), given[::-1]) == Compared(0, 0, 0)
    assert compare(iter(given), [("A", b"1"), ("A", b"1"), ("B", b"1"), ("A", b"3")]) == Compared(lost=2, duplicated=1, changed=1)


@pytest.mark.parametrize("cut", [997, 10_000])
def test_of_our_rows_too_however_they_are_cut(cut: int) -> None:
    """A batch in memory at a time: 32 million fit in none."""
    given = Given(6_000, boxes=50)
    rows = pa.Table.from_batches(list(given.parts())).combine_chunks().append_column(OFFSET, pa.array(range(6_000)))
    assert rows_compared(cut_up(rows, cut), given) == Compared(0, 0, 0)
    without = pa.concat_tables([rows.slice(0, 2_395), rows.slice(2_405)])
    assert rows_compared(cut_up(without, cut), given) == Compared(lost=10, duplicated=0, changed=0)
    again = pa.concat_tables([rows.slice(0, 3_000), rows.slice(2_990, 10), rows.slice(3_000)])
    assert rows_compared(cut_up(again, cut), given) == Compared(lost=0, duplicated=10, changed=0)
    shifted = rows.slice(0, 5_999).set_column(rows.schema.get_field_index(OFFSET), OFFSET, pa.array(range(1, 6_000)))
    assert rows_compared(cut_up(shifted, cut), given) == Compared(lost=1, duplicated=0, changed=5_999)
    assert rows_compared(cut_up(rows, cut), Given(5_990, boxes=50)).changed == 10


def cut_up(rows: pa.Table, cut: int) -> Iterator[pa.RecordBatch]:
    return iter(rows.to_batches(max_chunksize=cut))


def test_every_side_is_given_the_same_readings_however_many_it_takes() -> None:
    few, many = list(Given(130, boxes=50).messages()), list(Given(3_000, boxes=50).messages())
    assert many[:130] == few
    assert len(many) == len(set(many)) == 3_000
