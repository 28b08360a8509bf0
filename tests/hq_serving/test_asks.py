"""Goal: operations ask a ship and see her price and her answer; what she brings is in the timeline's store, once, before the rest comes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from cargo.shore_rules.ship_queries import Allowance, QueryMatch, answered, read_ask
from hq.serving.database import ServingDatabase
from hq.serving.projection_loop import Projector
from hq.serving.routes import routes
from landfall.runtime.log_wait import judged_reader
from landfall.storage.file_log import FileLog, FileLogReader
from landfall.storage.peers_file import keep_peers
from landfall.transport.http_client import AdmitDoor
from streams.codec import BlockCodec
from streams.config.roles import Peer
from streams.log import Append
from streams.model.block import Block
from streams.model.identifiers import Position
from streams.model.metrics import Metrics
from streams.model.records import Batch, Record, read_body, to_batch
from streams.row_subset import CARRIER, blocks_of, pack, unpack
from tests.hq_serving.conftest import api_of, log_in, make_projector, project, settings_for, sqlite_url, table_rows
from tests.hq_serving.fleet import DUCKS, NOW_MS, OTHER_SHIP, PLACES, SHIP, Fleet, ship
from tests.hq_serving.test_registry import running_node
from tests.streams.logkit import open_log

CODEC = BlockCodec()
HOUR_MS = 3_600_000
BOX = DUCKS[0]


class Desk:
    """A real node of headquarters, an API over its log, and operations logged in."""

    def __init__(self, folder: Path, client: httpx.Client, door: str) -> None:
        self.folder, self.log, self.client = folder, folder / "log", client
        self.admits = AdmitDoor(door, "door")
        self.mira = log_in(client, "mira")
        entry = {"type": "ship", "id": SHIP, "value": ship(SHIP, "One")}
        assert client.post("/api/registry", json={"entries": [entry]}, headers=self.mira).status_code == 200

    def get(self, path: str = "") -> Any:
        return self.client.get(f"/api/asks{path}", headers=self.mira).json()

    def post(self, **changes: Any) -> httpx.Response:
        return self.client.post("/api/asks", json=wish(**changes), headers=self.mira)

    def admit(self, blocks: Iterable[Block]) -> None:
        self.admits.admit([block.to_bytes() for block in blocks])

    def store(self, name: str = "serving") -> dict[str, list[str]]:
        """The serving store's rows, once all is projected."""
        project(make_projector(self.log, sqlite_url(self.folder, name)))
        return table_rows(sqlite_url(self.folder, name))


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    folder = tmp_path_factory.mktemp("asks")
    with running_node(folder) as door, api_of(settings_for(folder / "log", folder, door)) as client:
        yield Desk(folder, client, door)


@pytest.fixture
def vessel(tmp_path: Path) -> Iterator[FileLog]:
    """A ship's log with half an hour of every box."""
    log = open_log(tmp_path / "vessel", "ship-one")
    log.append([readings()])
    yield log
    log.close()


def wish(**changes: Any) -> dict[str, Any]:
    return {"ship": SHIP, "container": BOX, "since_at_ms": NOW_MS - HOUR_MS, "until_at_ms": NOW_MS, **changes}


def asked(log: Path) -> list[dict[str, Any]]:
    """The questions to the ship, as she gets them."""
    with closing(FileLogReader(log, CODEC)) as reader:
        batches = list(reader.read(f"aboard/{SHIP}", Position()))
    return [read_body(body) for batch in batches for body in batch.records.column("body").to_pylist()]


def answer(vessel: FileLog, desk: Desk, ask: dict[str, Any]) -> list[Batch]:
    """What the ship of this log says and brings, admitted as a session would."""
    question = read_ask(ask)
    rows = list(vessel.topic_rows("containers", question.container, question.since_at_ms, question.until_at_ms))
    found = QueryMatch(sum(batch.records.num_rows for batch in rows), 0, 500)
    said = answered(question, found, Allowance("satellite", "2026-05-01", 100_000, 500_000, 8.0), NOW_MS, NOW_MS)
    bodies = [*(pack(CODEC, batch) for batch in rows), msgspec.to_builtins(said)]
    vessel.append([Append(CARRIER, to_batch([Record(question.topic, body=body) for body in bodies]))])
    desk.admit(vessel.blocks(CARRIER, vessel.origin, 0, 1_000))
    return rows


def readings() -> Append:
    chance = [Record(box, f"TRK-{box}", NOW_MS - HOUR_MS + at * 60_000, {"return_c": at / 4}) for at in range(30) for box in DUCKS]
    return Append("containers", to_batch(chance))


def test_what_a_ship_was_asked_and_said_shows_and_is_in_the_store_before_the_rest(desk: Desk, vessel: FileLog) -> None:
    ask_id = desk.post(container=f" {BOX[:4].lower()} {BOX[4:]}").json()["ask_id"]
    before = desk.get(f"/{ask_id}")["ask"]
    assert (before["state"], before["answer"], before["asked_by"], before["container"]) == ("asked", None, "Mira", BOX)

    [rows] = answer(vessel, desk, asked(desk.log)[-1])
    told = desk.get(f"/{ask_id}")["ask"]
    assert (told["state"], told["arrived"], told["answer"]["node"], told["answer"]["records"]) == ("answered", False, "ship-one", 30)
    desk.admit(blocks_of(CODEC, unpack(CODEC, pack(CODEC, rows))))
    assert desk.get(f"/{ask_id}")["ask"]["arrived"]

    second = desk.post(spend="nothing").json()["ask_id"]
    listed = [one["ask_id"] for one in desk.get()["items"]]
    assert {ask_id, second} <= set(listed)
    pages, cursor = [], ""
    while cursor is not None:
        page = desk.get(f"?limit=1{cursor and '&cursor='}{cursor}")
        pages += [one["ask_id"] for one in page["items"]]
        cursor = page["next"]
    assert pages == listed

    there = desk.store()["reading"]
    assert (len(there), all(BOX in row for row in there)) == (30, True)
    desk.admit(vessel.blocks("containers", vessel.origin, 0, 1_000))
    now = desk.store()["reading"]
    assert now == desk.store("anew")["reading"]
    assert set(there) < set(now)
    assert len(now) == 30 * len(DUCKS)


def test_a_question_that_is_none_is_not_asked_and_operations_alone_ask(desk: Desk) -> None:
    before = desk.get()["items"]
    wrong: list[tuple[dict[str, Any], int, str]] = [
        ({"ship": "9999993"}, 404, "no such ship"),
        ({"container": "a box"}, 422, "not written like a container number"),
        ({"until_at_ms": 0, "since_at_ms": 5}, 422, "ends after it begins"),
        ({"spend": "any"}, 422, "spend"),
        ({"at_most": -1}, 422, "at_most"),
        ({"at_most": 1, "spend": "nothing"}, 422, "who agrees to a price"),
    ]
    for changes, code, words in wrong:
        refused = desk.post(**changes)
        assert (refused.status_code, words in refused.text) == (code, True), refused.text
    for username in ("cleo", "donald", "crew"):
        headers = log_in(desk.client, username)
        answers: list[httpx.Response] = [desk.client.get(f"/api/asks{more}", headers=headers) for more in ("", "/3f0c")]
        answers.append(desk.client.post("/api/asks", json=wish(), headers=headers))
        assert [one.status_code for one in answers] == [403] * 3
    assert desk.get()["items"] == before


def test_a_ship_s_answer_brings_no_event_that_is_not_hers_to_write(fleet: Fleet, tmp_path: Path) -> None:
    """They are judged as they are in `events`: a ship musters herself, and no other."""
    vessel, events = (
        fleet.logs["ship-one"],
        [Record(f"{imo}.log", body={"event": "X_MUSTER", "event_at_ms": NOW_MS}) for imo in (SHIP, OTHER_SHIP)],
    )
    vessel.append([Append("events", to_batch(events))])
    [batch] = vessel.read("events", Position())
    fleet.append("ship-one", CARRIER, [Record("ask/1", body=pack(CODEC, batch))])
    keep_peers(fleet.hq_dir, {"ship-one": Peer("ship-one", "ship", SHIP)})
    with closing(judged_reader(fleet.hq_dir)) as reader, closing(ServingDatabase(sqlite_url(tmp_path))) as database:
        project(Projector(reader, database, fleet.clock, Metrics("projector"), routes(PLACES, reader)))
    assert [SHIP in row for row in table_rows(sqlite_url(tmp_path))["event"]] == [True]


def test_another_node_s_answer_neither_replaces_a_ship_s_nor_brings_her_readings(desk: Desk, vessel: FileLog, tmp_path: Path) -> None:
    """A ship that answers for another one: the first is heard; readings under another's origin are set aside, not shown."""
    other = open_log(tmp_path / "other", "ship-two")
    ask_id = desk.post().json()["ask_id"]
    answer(vessel, desk, asked(desk.log)[-1])
    assert desk.get(f"/{ask_id}")["ask"]["answer"]["node"] == "ship-one"
    shown = desk.store()["reading"]
    answer(other, desk, asked(desk.log)[-1])
    forged = Batch("containers", vessel.origin, next(vessel.topic_rows("containers", DUCKS[1])).records)
    other.append([Append(CARRIER, to_batch([Record(f"ask/{ask_id}", body=pack(CODEC, forged))]))])
    desk.admit(other.blocks(CARRIER, other.origin, 0, 1_000))
    told = desk.get(f"/{ask_id}")["ask"]["answer"]
    assert (told["node"], told["records"]) == ("ship-one", 30)
    rows = desk.store()
    assert rows["reading"] == shown
    assert ["brings what" in row for row in rows["rejected"]] == [True]
    other.close()
