"""Goal: whatever bytes a program posts as Arrow IPC, the process goes on, and nothing is read but what they hold: bad ones have a code."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from landfall.node.http.request_bodies import appends_of
from landfall.storage.file_log import FileLog
from landfall.transport.http_client import APPENDS_MAX, WireAppend, WireAppends
from streams.arrow_ipc import METADATA_BYTES_MAX, read_ipc, to_ipc
from streams.codec import BlockCodec
from streams.model.clock import StillClock
from streams.model.errors import LandfallError, Misuse
from streams.model.records import Record, concat, to_batch
from tests.streams.logkit import NOW_MS
from tests.support.forked import FORKED

TOPICS = ["MSKU1234565", "MSKU7654321", "DUCU0000017"]
RECORDS = to_batch([Record(topic, "TRK", at, {"return_c": 4.5, "door": "open"}, {"n": at}) for at, topic in enumerate(TOPICS)])
MUTATIONS_A_TEST = 500
ENDED_WITHIN_S = 300


def with_offsets(*ends: int, valid: list[bool]) -> bytes:
    """A stream whose topics have these offsets into the 33 bytes of text."""
    honest = pa.array([topic if there else None for topic, there in zip(TOPICS, valid, strict=True)], pa.string())
    offsets = struct.pack("<4i", 0, *(sum(11 for one in valid[: at + 1] if one) for at in range(3)))
    data = to_ipc(pa.RecordBatch.from_arrays([honest], ["topic"]))
    assert data.count(offsets) == 1
    return data.replace(offsets, struct.pack("<4i", 0, *ends))


def code_of(data: bytes) -> str:
    with pytest.raises(Misuse) as refused:
        read_ipc(data)
    return refused.value.code


def test_what_was_written_is_read() -> None:
    assert read_ipc(to_ipc(RECORDS)).equals(RECORDS)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, RECORDS.schema) as writer:
        writer.write_batch(RECORDS)
        writer.write_batch(RECORDS)
    assert read_ipc(sink.getvalue().to_pybytes()).equals(concat([RECORDS, RECORDS]))
    assert read_ipc(to_ipc(RECORDS.slice(0, 0))).num_rows == 0


@pytest.mark.parametrize(
    ("ends", "valid"),
    [
        ((22, 11, 33), [True] * 3),
        ((11, -5, 22), [True, False, True]),
        ((11, 1 << 30, 22), [True, False, True]),
        ((11, 22, 1 << 30), [True] * 3),
        ((-11, 22, 33), [True] * 3),
    ],
)
def test_offsets_that_fall_or_lead_outside_are_refused(ends: tuple[int, ...], valid: list[bool]) -> None:
    """Of a value that is null too: it would be written with the bytes that its offsets span."""
    assert code_of(with_offsets(*ends, valid=valid)) == "ipc_invalid"


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_compressed_buffers_are_refused_before_they_are_unpacked(compression: str) -> None:
    bomb = pa.RecordBatch.from_arrays([pa.array(["x"]), pa.array(["a" * 200_000_000])], ["topic", "note"])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, bomb.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_batch(bomb)
    data = sink.getvalue().to_pybytes()
    del sink, bomb
    pool = pa.system_memory_pool()
    before, default = pool.max_memory(), pa.default_memory_pool()
    pa.set_memory_pool(pool)
    try:
        assert code_of(data) == "ipc_compressed"
    finally:
        pa.set_memory_pool(default)
    assert pool.max_memory() - before < 1_000_000


def empty_batches(stream_bytes: int) -> bytes:
    sink, empty = pa.BufferOutputStream(), RECORDS.slice(0, 0)
    with pa.ipc.new_stream(sink, empty.schema) as writer:
        while sink.tell() < stream_bytes:
            writer.write_batch(empty)
    return bytes(sink.getvalue().to_pybytes())


def test_streams_of_headers_alone_are_refused_before_they_are_read() -> None:
    """Of empty batches, or of columns without rows: in memory each takes a multiple of its header."""
    columns = 20_000
    wide = pa.RecordBatch.from_arrays([pa.array([], pa.bool_())] * columns, [f"s{n}" for n in range(columns)])
    for data in (empty_batches(2 * METADATA_BYTES_MAX), to_ipc(wide)):
        assert code_of(data) == "ipc_headers"
    assert read_ipc(empty_batches(METADATA_BYTES_MAX // 2)).num_rows == 0


def test_a_request_has_a_limited_number_of_appends() -> None:
    one = WireAppend("containers", None, None, to_ipc(RECORDS))
    assert len(appends_of(msgspec.msgpack.encode(WireAppends([one] * APPENDS_MAX)))) == APPENDS_MAX
    with pytest.raises(msgspec.ValidationError):
        appends_of(msgspec.msgpack.encode(WireAppends([one] * (APPENDS_MAX + 1))))


def test_dictionaries_other_types_and_repeated_names_are_refused() -> None:
    text, topic = pa.array(["x"]), pa.array(["MSKU1234565"])
    for column, code in (
        (text.dictionary_encode(), "ipc_dictionary"),
        (pa.array([[1]]), "column_type"),
        (pa.array(["x"], pa.string_view()), "column_type"),
        (pa.array([b"x"], pa.binary()), "column_type"),
        (pa.nulls(1), "column_type"),
    ):
        assert code_of(to_ipc(pa.RecordBatch.from_arrays([topic, column], ["topic", "note"]))) == code
    assert code_of(to_ipc(pa.RecordBatch.from_arrays([topic, topic], ["topic", "topic"]))) == "column_repeated"


@pytest.mark.parametrize("data", [b"", b"rubbish", b"\xff" * 8, b"\xff\xff\xff\xff\x00\x00\x00\x40", to_ipc(RECORDS)[:200], bytes(1_000)])
def test_what_is_no_stream_is_refused(data: bytes) -> None:
    assert code_of(data) == "ipc_invalid"


def mutated(chance: random.Random, data: bytes) -> bytes:
    """The same with some bytes changed, cut out, or put in."""
    spoiled = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 4, 16))):
        at = chance.randrange(len(spoiled))
        kind = chance.randrange(5)
        if kind == 0:
            spoiled[at] ^= 1 << chance.randrange(8)
        elif kind == 1:
            spoiled[at] = chance.randrange(256)
        elif kind == 2:
            spoiled[at & ~3 : (at & ~3) + 4] = struct.pack("<i", chance.choice((-1, 0, 1, 1 << 30, -(1 << 31), (1 << 31) - 1)))
        elif kind == 3:
            del spoiled[at : at + chance.choice((1, 4, 8, 64))]
        else:
            spoiled[at:at] = chance.randbytes(chance.choice((1, 4, 8, 64)))
        if not spoiled:
            return b""
    return bytes(spoiled)


def post_mutations(folder: Path, seed: int) -> None:
    """As the door does with bodies; each that is accepted is appended, and read again."""
    chance = random.Random(seed)
    nulls = to_batch([Record(TOPICS[0], signals={"note": "x"}), Record(TOPICS[1]), Record(TOPICS[2], "TRK", NOW_MS)])
    bodies = [to_ipc(records) for records in (RECORDS, nulls, concat([RECORDS, nulls]))]
    log = FileLog(folder / "log", folder / "marker", "ship-a", BlockCodec(), StillClock(NOW_MS))
    accepted = 0
    for _ in range(MUTATIONS_A_TEST):
        body = mutated(chance, chance.choice(bodies))
        try:
            appends = appends_of(msgpack(body) if chance.randrange(4) else mutated(chance, msgpack(body)))
            log.append(appends)
        except (LandfallError, ValueError):
            continue
        accepted += 1
    for topic in TOPICS:
        log.history(topic).rows.to_pylist()
    log.close()
    assert 0 < accepted < MUTATIONS_A_TEST


def msgpack(ipc: bytes) -> bytes:
    """A body of /append."""
    return msgspec.msgpack.encode(WireAppends([WireAppend("containers", None, None, ipc)]))


@pytest.mark.cases("seed", range(2), torture=range(2, 200))
def test_no_mutation_of_a_body_crashes_the_process(seed: int, tmp_path: Path) -> None:
    """In a process of its own, so that a crash is seen."""
    child = FORKED.Process(target=post_mutations, args=(tmp_path, seed))
    child.start()
    child.join(ENDED_WITHIN_S)
    assert child.exitcode == 0, f"seed {seed}"
