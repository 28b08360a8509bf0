"""Goal: a carried file is believed frame by frame: damage costs what it hits and is named, and nobody but a known node can write one."""

from __future__ import annotations

import io
import struct
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import cast

import msgspec
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from landfall.offline.bundle_frames import BODY_BYTES_MAX, MAGIC, FrameWriter, SignedMessage, read_frames
from landfall.offline.bundle_messages import BundleEntry, BundleGone, Carried, Contents, End, Message
from landfall.offline.bundle_plan import wanted
from landfall.offline.bundle_reader import PROBLEMS_MAX, BundleReader, Lost, Taken
from landfall.offline.bundle_writer import BundleContents, write
from landfall.offline.sealed_box import OpeningKey, opening_key_from_text, opening_key_text
from landfall.storage.file_log import FileLog
from streams.codec import BlockCodec
from streams.config.roles import LAN, Peer, Role
from streams.config.stream_definitions import Definitions
from streams.integrity.signing_keys import SigningKey, key_text
from streams.log import Append
from streams.model.block import Block
from streams.model.clock import StillClock
from streams.model.errors import Misuse
from streams.model.identifiers import Origin
from streams.model.ledger import OriginLedger
from streams.model.ranges import RangeSet
from streams.model.records import Record, to_batch
from streams.replication import Key, Loaded, Terms
from tests.support.refusals import refusal

SHIP, TOKYO = Peer("ship-a", "ship", "9321483"), Peer("tokyo", "port", "JPTYO")
ROLES: dict[str, Role] = {"ship-a": "ship", "tokyo": "port", "hq": "hq"}
KEY, STRANGER = SigningKey.from_seed(bytes(32)), SigningKey.from_seed(bytes([7] * 32))
OPENING = OpeningKey.made()


def terms(me: Peer, other: Peer) -> Terms:
    return Terms(me, other, LAN, ROLES, definitions=Definitions())


def open_log(folder: Path, node: str) -> FileLog:
    return FileLog(folder / "log", folder / "marker", node, BlockCodec(), StillClock())


@pytest.fixture(scope="module")
def ship(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FileLog]:
    """A ship's log: 12 commits of readings, one of alerts, and readings that are thinned."""
    log = open_log(tmp_path_factory.mktemp("ship"), "ship-a")
    for commit in range(12):
        rows = [Record("MSKU1234565", "TRK-1", 1_777_000_000_000 + n, {"return_c": n / 7}) for n in range(100 * commit, 100 * commit + 100)]
        log.append([Append("containers", to_batch(rows))])
    log.append([Append("alerts", to_batch([Record("MSKU1234565", body={"alert_id": "1"})]))])
    log.declare_gone("containers", log.origin, 0, 100, "thinned")
    yield log
    log.close()


def file_of(log: FileLog, key: SigningKey = KEY, receiver: bytes | None = None) -> bytes:
    """What the ship carries to Tokyo, a frame for each stored block."""

    def load(stream: str, origin: Origin, first: int, end: int) -> Loaded | None:
        block = next(log.blocks(stream, origin, first, min(end, first + 100)))
        return Loaded(block.first, block.end, block.to_bytes(), b"")

    sink = io.BytesIO()
    about = Contents("ship-a", "tokyo", 1, [], last=True)
    assert write(FrameWriter(sink, key, receiver), about, list(wanted(log, terms(SHIP, TOKYO), {})), load) == BundleContents(12, 1101)
    return sink.getvalue()


class Into:
    """A port's log, taken into directly."""

    def __init__(self, log: FileLog) -> None:
        self.log = log

    def admit(self, blocks: list[bytes], bringer: str) -> int:
        return self.log.admit([Block.from_bytes(data) for data in blocks])

    def declare_gone(self, lost: Lost) -> None:
        self.log.declare_all_gone(*lost.key, lost.ranges, lost.reason)

    def held_end(self, key: Key) -> int:
        one = self.log.ledger(key[0]).get(key[1])
        return one.held.end() if one else 0


def take(log: FileLog, data: bytes, opening: OpeningKey | None = None, signers: Sequence[SigningKey] = (KEY,)) -> Taken:
    known = {key.public: terms(TOKYO, SHIP) for key in signers}
    return BundleReader(Into(log), known, key_text).take(read_frames(io.BytesIO(data), opening))


@pytest.fixture
def tokyo(tmp_path: Path) -> Iterator[FileLog]:
    log = open_log(tmp_path, "tokyo")
    yield log
    log.close()


def ledger(log: FileLog, stream: str, origin: Origin) -> OriginLedger:
    return log.ledger(stream)[origin]


@pytest.mark.parametrize("sealed", [False, True])
def test_everything_comes_and_taking_it_again_changes_nothing(ship: FileLog, tokyo: FileLog, sealed: bool) -> None:
    data = file_of(ship, receiver=OPENING.public if sealed else None)
    assert take(tokyo, data, OPENING) == Taken(12, 1101)
    assert take(tokyo, data, OPENING) == Taken(12, 0)
    for stream in ("containers", "alerts"):
        assert ledger(tokyo, stream, ship.origin) == ledger(ship, stream, ship.origin)
    assert tokyo.history("MSKU1234565").rows.equals(ship.history("MSKU1234565").rows)


def test_a_relays_word_on_what_is_gone_counts_only_below_the_last_record_that_is_here(ship: FileLog, tokyo: FileLog) -> None:
    sink, origin, endless = io.BytesIO(), ship.origin, (1 << 63) - 1
    writer = FrameWriter(sink, KEY, None)
    writer.write(Contents("singapore", "tokyo", 1, [], last=True))
    for stream in ("containers", "alerts"):
        writer.write(BundleGone(BundleEntry(stream, origin.node, origin.generation, [(0, endless)]), "lost"))
    writer.write(Carried(next(ship.blocks("containers", origin, 600, 700)).to_bytes()))
    writer.write(End())
    relay = terms(TOKYO, Peer("singapore", "port"))
    taken = BundleReader(Into(tokyo), {KEY.public: relay}, key_text).take(read_frames(io.BytesIO(sink.getvalue()), None))
    assert [problem.split("'")[1] for problem in taken.problems] == ["singapore", "singapore"]
    assert ledger(tokyo, "containers", origin).gone == {"lost": RangeSet([(0, 600)])}
    assert "alerts" not in tokyo.streams()
    assert take(tokyo, file_of(ship)).problems == []
    assert ledger(tokyo, "containers", origin) == OriginLedger(RangeSet([(100, 1200)]), {"lost": RangeSet([(0, 100)])}), (
        "what comes is taken"
    )


def test_a_sealed_file_tells_a_mule_nothing_and_opens_for_nobody_else(ship: FileLog, tokyo: FileLog) -> None:
    plain, sealed = file_of(ship), file_of(ship, receiver=OPENING.public)
    assert b"ship-a" in plain
    assert b"ship-a" not in sealed
    assert KEY.public not in sealed
    for opening, why in ((OpeningKey.made(), "it does not open with this node's key"), (None, "this node has no key to open anything")):
        taken = take(tokyo, sealed, opening)
        assert not taken.blocks
        assert all(why in problem or "is missing" in problem or "is not whole" in problem for problem in taken.problems)
        assert why in taken.problems[0]
    assert not tokyo.streams()


def frames(data: bytes) -> list[tuple[int, int]]:
    """Where each frame begins and ends."""
    starts = [at for at in range(len(data)) if data.startswith(b"\x89LFSTK1\n", at)]
    return list(zip(starts, [*starts[1:], len(data)], strict=True))


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 0x40]) + data[at + 1 :]


def test_a_damaged_frame_costs_that_frame_alone_and_is_named(ship: FileLog, tmp_path: Path) -> None:
    """Each frame in turn is hit near its start and at its end; a whole copy of the file mends all."""
    data = file_of(ship)
    for number, (first, end) in enumerate(frames(data)):
        for at in (first + 3 + 5 * number, end - 1):
            log = open_log(tmp_path / f"{at}", "tokyo")
            taken = take(log, flipped(data, at))
            assert any(f"bytes {first:,} to {end - 1:,}: " in problem for problem in taken.problems), (number, at, taken)
            is_block = 2 <= number < 14
            assert taken.blocks == 12 - is_block
            assert bool(taken.missing) == is_block
            assert take(log, data).problems == []
            assert ledger(log, "containers", ship.origin) == ledger(ship, "containers", ship.origin)
            log.close()


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda data: data[: len(data) // 2], "the file ends within it"),
        (lambda data: data[: frames(data)[5][0]], "its end is missing"),
        (lambda data: b"", "its end is missing"),
        (lambda data: b"a shopping list\n" * 9, "no frame can be read there"),
        (
            lambda data: data[: frames(data)[4][1] - 9] + b"\x89LFSTK1\n" * 400 + data[frames(data)[4][1] - 9 :],
            "not those that were written",
        ),
        (lambda data: data[: frames(data)[3][0]] + bytes(100) + data[frames(data)[3][0] :], "no frame can be read there"),
    ],
)
def test_a_torn_file_says_so(ship: FileLog, tokyo: FileLog, spoil: Callable[[bytes], bytes], told: str) -> None:
    taken = take(tokyo, spoil(file_of(ship)))
    assert any(told in problem for problem in taken.problems), taken.problems


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_whatever_is_changed_nothing_false_is_taken(ship: FileLog, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Cut, doubled, swapped and overwritten anywhere: what comes is what the ship has, or is named."""
    whole = bytearray(file_of(ship))
    for _ in range(data.draw(st.integers(1, 3))):
        first, end = sorted(data.draw(st.integers(0, len(whole))) for _ in range(2))
        match data.draw(st.sampled_from(["cut", "double", "overwrite", "swap"])):
            case "cut":
                del whole[first:end]
            case "double":
                whole[first:first] = whole[first:end]
            case "overwrite":
                whole[first : first + 20] = data.draw(st.binary(min_size=20, max_size=20))
            case "swap":
                whole = whole[end:] + whole[first:end] + whole[:first]
    log = open_log(tmp_path_factory.mktemp("tokyo"), "tokyo")
    taken = take(log, bytes(whole))
    for stream in log.streams():
        held = ledger(log, stream, ship.origin).held
        assert not held.without(ledger(ship, stream, ship.origin).held)
    if not taken.problems:
        assert not taken.missing
        assert ledger(log, "containers", ship.origin) == ledger(ship, "containers", ship.origin)
    log.close()


def test_nobody_can_write_in_a_ship_s_name(ship: FileLog, tokyo: FileLog) -> None:
    """A stranger's own key; the ship's key named over the stranger's signature; the ship's frames numbered anew."""
    taken = take(tokyo, file_of(ship, STRANGER))
    assert key_text(STRANGER.public) in taken.problems[0]

    class Forger(SigningKey):
        def sign(self, message: bytes) -> bytes:
            return STRANGER.sign(message)

    taken = take(tokyo, file_of(ship, Forger.from_seed(bytes(32))))
    assert "its signature is not of the key that it names" in taken.problems[0]
    assert not tokyo.streams()


def test_a_known_node_can_bring_only_what_it_may(ship: FileLog, tokyo: FileLog, tmp_path: Path) -> None:
    """A ship brings nothing that headquarters wrote, and a port has no customer's stream: refused and named, the rest is taken."""
    hq = open_log(tmp_path / "hq", "hq")
    hq.append([Append("registry", to_batch([Record("port/JPTYO", body={})]))])
    sink = io.BytesIO()
    writer = FrameWriter(sink, KEY, None)
    for log, stream in ((hq, "registry"), (ship, "alerts")):
        writer.write(Carried(next(log.blocks(stream, log.origin, 0, 10)).to_bytes()))
    writer.write(Carried(b"rubbish"))
    writer.write(Contents("ship-a", "tokyo", 1, [], last=True))
    writer.write(End())
    taken = take(tokyo, sink.getvalue())
    assert taken.blocks == 1
    [not_own, no_block] = taken.problems
    assert "'hq'" in not_own
    assert "b'rubb'" in no_block
    assert tokyo.streams() == ["alerts"]
    hq.close()


def test_neither_side_holds_more_than_a_frame(tmp_path: Path) -> None:
    piece = bytes(range(256)) * 4_096
    tracemalloc.start()
    with (tmp_path / "stick").open("w+b") as file:
        writer = FrameWriter(file, KEY, OPENING.public)
        for _ in range(40):
            writer.write(Carried(piece))
        found = sum(isinstance(frame, SignedMessage) for frame in read_frames(file, OPENING))
        _, peak_bytes = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        size_bytes = file.tell()
    assert found == 40
    assert peak_bytes < 12 * len(piece) < size_bytes


class Counting(io.BytesIO):
    """Counts the bytes that are read of it."""

    read_bytes = 0

    def read(self, size: int | None = -1, /) -> bytes:
        found = super().read(size)
        self.read_bytes += len(found)
        return found


def forged_head(number: int, claimed_bytes: int) -> bytes:
    """A head as anybody can write it: its checksum is right, and it claims so many of the bytes that follow, of another digest."""
    about = struct.pack(">8s?16sI32s", MAGIC, False, bytes(16), number, bytes(32)) + struct.pack(">I16s", claimed_bytes, bytes(16))
    return about + struct.pack(">I", xxhash.xxh3_64_intdigest(about) & 0xFFFFFFFF)


HEADS, TAIL = 3_000, bytes(1 << 20)


@pytest.mark.parametrize(
    "hostile",
    [
        b"".join(forged_head(number, len(TAIL)) for number in range(HEADS)) + TAIL,
        b"".join(forged_head(number, BODY_BYTES_MAX) for number in range(HEADS)) + TAIL,
        b"".join(forged_head(number, 1) for number in range(HEADS)) + TAIL,
        MAGIC * HEADS + TAIL,
    ],
    ids=["nested bodies", "bodies beyond the end", "a byte each", "the word that heads begin with"],
)
def test_forged_heads_cost_what_the_file_is_large(tokyo: FileLog, hostile: bytes) -> None:
    """Each head claims what follows for its own, up to the file's end: read for each of them it would be 3,000 times the file."""
    file = Counting(hostile)
    taken = BundleReader(Into(tokyo), {KEY.public: terms(TOKYO, SHIP)}, key_text).take(read_frames(file, OPENING))
    assert file.read_bytes <= 6 * len(hostile)
    assert taken.problems[0].startswith("bytes 0 to ")
    assert not taken.blocks


def test_of_a_hostile_file_s_problems_the_first_are_told_and_all_counted(ship: FileLog, tokyo: FileLog) -> None:
    """Whole frames on either side of 3,000 forged heads are taken."""
    whole = file_of(ship)
    taken = take(tokyo, whole + b"".join(forged_head(number, 0) for number in range(HEADS)) + whole)
    assert (taken.blocks, taken.new_records) == (24, 1101)
    assert len(taken.problems) == PROBLEMS_MAX
    assert len(taken.problems) + taken.problems_unreported == HEADS


def test_keys_to_seal_for_are_passed_on_as_text() -> None:
    assert opening_key_from_text(opening_key_text(OPENING.public)) == OPENING.public
    assert OpeningKey.from_pem(OPENING.to_pem()).public == OPENING.public
    for text in ("", "x25519:", key_text(KEY.public), "x25519:" + "A" * 42):
        with refusal(Misuse, "public_key_invalid"):
            opening_key_from_text(text)
    with refusal(Misuse, "private_key_invalid"):
        OpeningKey.from_pem(KEY.to_pem())


class Later(msgspec.Struct, array_like=True, tag=99):
    """A message that a later version of Landfall may write."""


def test_a_frame_of_a_later_kind_is_told_and_passed_over(ship: FileLog, tokyo: FileLog) -> None:
    sink = io.BytesIO()
    FrameWriter(sink, KEY, None).write(cast(Message, Later()))
    taken = take(tokyo, sink.getvalue() + file_of(ship))
    assert len(taken.problems) == 1
    assert "99" in taken.problems[0]
    assert taken.blocks == 12
