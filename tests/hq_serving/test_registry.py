"""What is written through the API: registry entries and acknowledgements, into the log of a real node, once however often they are sent."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from cargo.report.loss_form import Filled
from cargo.report.loss_report import Content, Head, ReportedBox, drafted
from hq.api.accounts import Account, Accounts
from hq.api.entry_parser import GivenEntry
from hq.api.registrar import ATTEMPTS_MAX, Registrar, RegistryReceipt, WrittenEntry
from hq.api.registrar import Overtaken as Overruled
from hq.serving.projection_loop import Projector
from landfall.access.password_checks import verifies
from landfall.node.node import Node
from landfall.node.settings import NodeSettings
from landfall.storage.file_log import FileLogReader
from landfall.transport.http_client import AppendDoor
from streams.codec import BlockCodec
from streams.integrity.key_trust import IN_REGISTRY, registry_trust
from streams.integrity.signing_keys import SigningKey, key_text
from streams.log import Append, Appended
from streams.model.clock import StillClock
from streams.model.errors import Misuse, RetryLater
from streams.model.identifiers import Position
from streams.model.records import Record, to_batch
from tests.hq_serving.conftest import PASSWORD, api_of, log_in, make_projector, settings_for, sqlite_url
from tests.hq_serving.fleet import DUCKS, NOW_MS, SHIP, booking, customer, port, ship
from tests.support.credentials import allow_all
from tests.support.refusals import refusal


@contextmanager
def running_node(folder: Path, port: int = 0) -> Iterator[str]:
    """A real headquarters node, its door's URL given, until the block ends."""
    told = {"node": "hq", "role": "hq", "folder": folder, "metrics_every_s": 3600, "port": port}
    settings = NodeSettings.model_validate(told)
    allow_all(folder, "door")
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def make() -> Node:
        node = Node(settings)
        await node.start()
        return node

    node = asyncio.run_coroutine_threadsafe(make(), loop).result(90)
    try:
        yield node.url
    finally:
        asyncio.run_coroutine_threadsafe(node.stop(), loop).result(90)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


class Headquarters:
    """A node, an API over its log, and what one reads there."""

    def __init__(self, folder: Path, client: httpx.Client, door: str) -> None:
        self.folder, self.client, self.door = folder, client, door
        self.clerk = log_in(client, "cleo")

    def write(self, *entries: tuple[str, str, Any], headers: dict[str, str] | None = None) -> httpx.Response:
        body = {"entries": [{"type": kind, "id": id_, "value": value} for kind, id_, value in entries]}
        return self.client.post("/api/registry", json=body, headers=headers or self.clerk)

    def bodies(self, stream: str) -> list[dict[str, Any]]:
        with closing(FileLogReader(self.folder / "log", BlockCodec())) as reader:
            return [json.loads(body) for batch in reader.read(stream, Position()) for body in batch.records.column("body").to_pylist()]

    def projector(self) -> Projector:
        return make_projector(self.folder / "log", sqlite_url(self.folder))


@pytest.fixture
def hq(tmp_path: Path) -> Iterator[Headquarters]:
    with running_node(tmp_path) as door, api_of(settings_for(tmp_path / "log", tmp_path, door)) as client:
        yield Headquarters(tmp_path, client, door)


def test_entries_are_durable_versioned_and_written_once(hq: Headquarters) -> None:
    """The answer comes after the log has it; the same again changes nothing; another value is the next version."""
    entries = [("customer", "ducks", customer("Duckworks", (1, 2, 3))), ("port", "SGSIN", port("SGSIN", "Singapore", 1.26, 103.8))]
    first = hq.write(*entries).json()
    assert (first["written"], first["unchanged"], [one["version"] for one in first["entries"]]) == (2, 0, [1, 1])
    assert [(one["type"], one["id"], one["version"], one["by"]) for one in hq.bodies("registry")] == [
        ("customer", "ducks", 1, "Cleo"),
        ("port", "SGSIN", 1, "Cleo"),
    ]
    again = hq.write(*entries).json()
    assert (again["written"], again["unchanged"]) == (0, 2)
    changed = hq.write(("customer", "ducks", customer("Duck Works", (1, 2, 3))), *entries).json()
    assert changed["written"] == 0, "of entries that come twice the last counts, and that one stands already"
    changed = hq.write(*entries, ("customer", "ducks", customer("Duck Works", (1, 2, 3)))).json()
    assert [one["version"] for one in changed["entries"]] == [2, 1, 2]
    assert len(hq.bodies("registry")) == 3


def test_an_accent_beside_its_letter_is_written_as_part_of_it(hq: Headquarters) -> None:
    """In ids and in every text of a value: the same entry, typed on another keyboard, is no second one."""
    for reference, name in (("BK-e\u0301", "Ne\u0301e"), ("BK-é", "Née")):
        answer = hq.write(("customer", "ducks", customer(name, (1, 2, 3))), ("booking", reference, booking(reference, "ducks", [], name)))
        assert [one["id"] for one in answer.json()["entries"]] == ["ducks", "BK-é"]
    assert answer.json()["written"] == 0
    values = {one["id"]: one["value"] for one in hq.bodies("registry")}
    assert (values["ducks"]["name"], values["BK-é"]["reference"], values["BK-é"]["consignee"]) == ("Née", "BK-é", "Née")


def test_what_somebody_else_changed_meanwhile_is_not_written_over(hq: Headquarters) -> None:
    """Who says which version an entry was made from is refused when another stands; nothing of that request is written. The same value
    again is no change, so a repeated request is as safe as it was.
    """
    first, second, third = [customer(name, (1, 2, 3)) for name in ("Duckworks", "Duck Works", "Ducks")]

    def write(value: dict[str, Any], based_on: int, *others: dict[str, Any]) -> httpx.Response:
        entry = {"type": "customer", "id": "ducks", "value": value, "based_on": based_on}
        return hq.client.post("/api/registry", json={"entries": [entry, *others]}, headers=hq.clerk)

    assert write(first, 1).json()["problems"][0]["problem"].startswith("ducks is based on version 1, ")
    assert [write(value, version).status_code for version, value in enumerate((first, second))] == [200, 200]
    other = {"type": "customer", "id": "cogs", "value": customer("Cogs", (4, 5, 6))}
    for version in (0, 1):
        late = write(third, version, other)
        assert (late.status_code, len(late.json()["problems"])) == (409, 1)
        assert late.json()["problems"][0]["problem"].endswith("version 2 stands, by Cleo")
    assert write(second, 1).json()["unchanged"] == 1
    assert [(one["id"], one["version"]) for one in hq.bodies("registry")] == [("ducks", 1), ("ducks", 2)]


class Overtaken(AppendDoor):
    """A door before which another always comes first, `times` times."""

    def __init__(self, url: str, first: Callable[[], object], times: int = 1) -> None:
        super().__init__(url, "door")
        self.first, self.times = first, times

    def append(self, appends: Sequence[Append]) -> list[Appended]:
        if self.times:
            self.times -= 1
            self.first()
        return super().append(appends)


def test_two_registrars_beside_each_other_give_a_version_once(hq: Headquarters) -> None:
    """One writes between another's look at what stands and its append: nothing of that append is taken, what stands is looked at anew."""
    clock, reader = StillClock(NOW_MS), FileLogReader(hq.folder / "log", BlockCodec())
    names = iter(f"Works {number}" for number in range(100))

    def entry(based_on: int | None = None) -> GivenEntry:
        return GivenEntry("customer", "ducks", customer(next(names), (1, 2, 3)), based_on)

    def other() -> RegistryReceipt:
        return Registrar(reader, AppendDoor(hq.door, "door"), clock).write([entry()], "Otto")

    assert Registrar(reader, Overtaken(hq.door, other), clock).write([entry()], "Cleo").entries == (
        WrittenEntry("customer", "ducks", 2, True),
    )
    with pytest.raises(Overruled) as overruled:
        Registrar(reader, Overtaken(hq.door, other), clock).write([entry(based_on=2)], "Cleo")
    assert [(one["entry"], one["type"], one["id"]) for one in overruled.value.problems] == [(0, "customer", "ducks")]
    same = customer("The Same", (1, 2, 3))
    again = Overtaken(
        hq.door, lambda: Registrar(reader, AppendDoor(hq.door, "door"), clock).write([GivenEntry("customer", "ducks", same)], "Otto")
    )
    assert Registrar(reader, again, clock).write([GivenEntry("customer", "ducks", same, 3)], "Cleo").entries == (
        WrittenEntry("customer", "ducks", 4, False),
    )
    with refusal(RetryLater, "registry_overtaken"):
        Registrar(reader, Overtaken(hq.door, other, times=1_000), clock).write([entry()], "Cleo")
    reader.close()
    told = [(one["version"], one["by"]) for one in hq.bodies("registry")]
    assert [version for version, _ in told] == [*range(1, 5 + ATTEMPTS_MAX)]
    assert [by for _, by in told] == ["Otto", "Cleo", *["Otto"] * (2 + ATTEMPTS_MAX)]


def test_of_two_apis_over_one_log_who_is_late_is_refused(hq: Headquarters) -> None:
    """Many change one entry at once, at either API, each from the version it saw: every version is written once, by one who saw the one
    before; nobody is told that it stands who is not in the log.
    """
    with api_of(settings_for(hq.folder / "log", hq.folder, hq.door)) as second:

        def change(client: httpx.Client, who: int) -> list[tuple[int, str]]:
            done: list[tuple[int, str]] = []
            version = 0
            while len(done) < 5:
                name = f"{who}-{len(done)}"
                entry = {"type": "customer", "id": "ducks", "value": customer(name, (1, 2, 3)), "based_on": version}
                answer = client.post("/api/registry", json={"entries": [entry]}, headers=hq.clerk)
                if answer.status_code == 409:
                    stands = re.search(r"version (\d+) stands", answer.json()["problems"][0]["problem"])
                    assert stands
                    version = int(stands[1])
                elif answer.status_code == 200:
                    version = answer.json()["entries"][0]["version"]
                    done.append((version, name))
            return done

        with ThreadPoolExecutor(4) as pool:
            written = [one for found in pool.map(change, [hq.client, second] * 2, range(4)) for one in found]
    assert sorted(written) == [(one["version"], one["value"]["name"]) for one in hq.bodies("registry")]
    assert [version for version, _ in sorted(written)] == [*range(1, 21)]


def test_all_problems_are_told_together_and_nothing_is_written(hq: Headquarters) -> None:
    """One good entry among bad ones is not written either; every bad one is named with its reason."""
    answer = hq.write(
        ("customer", "ducks", customer("Duckworks", (1, 2, 3))),
        ("customer", "loud", customer("Loud", (1, 2, 300))),
        ("moon", "1", {}),
        ("booking", "BK-2", booking("BK-1", "ducks", [])),
        ("booking", "BK-3", booking("BK-3", "ducks", [("MSKU0000000", 1, None)])),
        ("custody", "MSKU0000000", {"at": "delivered", "since_at_ms": 1}),
        ("customer", "a b", customer("Spaced", (1, 2, 3))),
    )
    assert answer.status_code == 422
    problems = answer.json()["problems"]
    assert [(one["entry"], one["id"]) for one in problems] == [
        *[(1, "loud"), (2, "1"), (3, "BK-2"), (4, "BK-3"), (5, "MSKU0000000"), (6, "a b")],
    ]
    assert all(one["problem"] for one in problems)
    assert hq.bodies("registry") == []


def test_the_public_key_of_a_node_is_pinned_where_copies_look_for_it(hq: Headquarters) -> None:
    """A key written through the API is the one by which this copy, and every other that gets the registry, holds statements for true."""
    key, other = SigningKey.made(), SigningKey.made()
    assert hq.write(("node", "hq", {"keys": [key_text(key.public)]})).status_code == 200
    assert hq.write(("node", "hq", {"keys": ["ed25519:short"]})).status_code == 422
    answer = hq.write(("node", "hq", {"keys": [key_text(key.public), key_text(other.public)]}))
    assert answer.json()["entries"][0]["version"] == 2
    reader = FileLogReader(hq.folder / "log", BlockCodec())
    trust = registry_trust(reader)
    reader.close()
    assert (trust.of("hq"), trust.keys["hq"]) == (IN_REGISTRY, frozenset([key.public, other.public]))


def test_only_clerks_and_operations_write(hq: Headquarters) -> None:
    """Customer and crew are refused, with or without good entries."""
    for username in ("donald", "crew"):
        assert hq.write(("customer", "x", customer("X", (1, 2, 3))), headers=log_in(hq.client, username)).status_code == 403
    assert hq.bodies("registry") == []


def load_list(call: int, port: str, aboard: Sequence[str]) -> dict[str, Any]:
    boxes = [
        {"container": one, "slot": f"0010{at:01d}82", "size_type": "22G1", "pol": port, "pod": "GBLON"} for at, one in enumerate(aboard)
    ]
    lists: dict[str, Any] = {"load": [], "discharge": [], "departs_at_ms": NOW_MS + call}
    return {"ship": SHIP, "port": port, "call": call, "aboard": boxes, **lists}


def test_a_ships_load_lists_are_told_as_the_registry_has_them_now(hq: Headquarters) -> None:
    """No projector runs: what was written a moment ago is told, the last call's list unless another is asked for; the crew may not ask."""
    path = f"/api/registry/load_lists/{SHIP}"
    empty = hq.client.get(path, headers=hq.clerk).json()
    assert (empty["calls"], empty["load_list"], empty["name"]) == ([], None, None)
    first, second = load_list(9, "JPTYO", DUCKS[:2]), load_list(10, "SGSIN", DUCKS[:3])
    entries = [("load_list", f"{SHIP}/{one['call']}", one) for one in (second, first)]
    assert hq.write(*entries, ("ship", SHIP, ship(SHIP, "Big Blue One"))).status_code == 200
    told = hq.client.get(path, headers=hq.clerk).json()
    assert [(one["call"], one["port"], one["boxes"]) for one in told["calls"]] == [(9, "JPTYO", 2), (10, "SGSIN", 3)]
    assert (told["ship"], told["name"]) == (SHIP, "Big Blue One")
    assert [box["container"] for box in told["load_list"]["aboard"]] == list(DUCKS[:3])
    assert hq.client.get(path, params={"call": 9}, headers=hq.clerk).json()["load_list"]["port"] == "JPTYO"
    assert hq.client.get(path, params={"call": 3}, headers=hq.clerk).status_code == 404
    assert hq.client.get(path, headers=log_in(hq.client, "crew")).status_code == 403


@pytest.mark.parametrize(
    ("limits", "told"),
    [
        ({"late_intervals": 4, "silent_intervals": 4}, "late after 4 intervals and silent after 4"),
        ({"late_intervals": 6}, "late after 6 intervals and silent after 6"),
        ({"silent_intervals": 2}, "late after 2 intervals and silent after 2"),
        ({"late_intervals": 4, "silent_intervals": 5}, ""),
        ({"above_c": 2.0}, ""),
    ],
)
def test_limits_by_which_a_box_is_silent_before_it_is_late_are_refused_in_a_sentence(hq: Headquarters, limits: Any, told: str) -> None:
    """Goal: nobody's limits are altered in silence: of a booking and of a size and type, and nothing of it is written."""
    kind = ("size_type", "45R1", {"limits": limits})
    answer = hq.write(kind)
    if not told:
        assert (answer.status_code, answer.json()["written"]) == (200, 1)
        return
    assert answer.status_code == 422
    (problem,) = answer.json()["problems"]
    assert told in problem["problem"]
    assert "silent_intervals is more than late_intervals " in problem["problem"]
    assert hq.bodies("registry") == []


def test_while_the_node_is_away_nothing_is_said_to_be_written(tmp_path: Path) -> None:
    """503 while it is away; when it is back the same request is written, once; an API started anew knows what stands."""
    entry = ("customer", "ducks", customer("Duckworks", (1, 2, 3)))
    with running_node(tmp_path) as door:
        port_number = int(door.rpartition(":")[2])
    settings = settings_for(tmp_path / "log", tmp_path, f"http://127.0.0.1:{port_number}")
    with api_of(settings) as client:
        away = Headquarters(tmp_path, client, "").write(entry)
        assert (away.status_code, away.headers["retry-after"]) == (503, "1")
    with running_node(tmp_path) as door:
        for wanted in (1, 0):
            with api_of(settings.model_copy(update={"door": door})) as client:
                assert Headquarters(tmp_path, client, door).write(entry).json()["written"] == wanted


def test_the_company_reports_in_the_masters_place_in_its_own_name(hq: Headquarters) -> None:
    """The ship's draft, edited, approved and written down as sent by operations; nothing in the master's name, and by nobody else."""
    lost = (ReportedBox(container=DUCKS[0], at_ms=NOW_MS),)
    content = Content({"reported_by": Filled("MASTER", "RECKONED"), "number_lost": Filled(1, "RECKONED")}, lost, (), ())
    made = drafted(Head("i-7", SHIP, "INITIAL", 1), content, "news", 0, "ship-one", NOW_MS)
    AppendDoor(hq.door, "door").append([Append("reports", to_batch([Record(made.topic, body=made.body)]))])
    mira = log_in(hq.client, "mira")

    def do(headers: dict[str, str] = mira, **what: Any) -> httpx.Response:
        return hq.client.post("/api/incidents/i-7/reports", json={"report": "i-7-1", **what}, headers=headers)

    early = do(do="approve", digest=made.body["digest"])
    assert (early.status_code, early.json()["code"], "reported_by" in early.json()["error"]) == (422, "report_refused", True)
    assert "afloat" in do(do="edit", given={"afloat": "many"}).json()["error"]
    edited = do(do="edit", given={"reported_by": "company"}).json()["report"]
    assert edited["lines"]["reported_by"] == {"value": "COMPANY", "basis": "GIVEN", "source": "Mira"}
    assert "has changed since" in do(do="approve", digest=made.body["digest"]).json()["error"]
    assert "is not approved" in do(do="sent", to="FLAG_STATE", means="e-mail").json()["error"]
    assert do(do="approve", digest=edited["digest"]).json()["report"]["approved_by"] == "Mira (mira)"
    sent = do(do="sent", to="FLAG_STATE", means="e-mail", name="MPA Singapore").json()["report"]
    assert [(one["to"], one["name"], one["by"]) for one in sent["sendings"]] == [("FLAG_STATE", "MPA Singapore", "Mira")]
    assert [one["state"] for one in hq.bodies("reports")] == ["draft", "edited", "approved", "sent"]
    assert [do(log_in(hq.client, who), do="edit", given={}).status_code for who in ("cleo", "crew", "donald")] == [403] * 3
    assert "no report 'i-7-2'" in do(do="edit", given={"afloat": "1"}, report="i-7-2").json()["error"]
    assert do(do="burn").status_code == 422


def test_accounts_check_themselves(tmp_path: Path) -> None:
    """A customer's account names its customer, a crew's its ship; passwords have a length; adding again replaces."""
    accounts = Accounts(tmp_path / "accounts.db")
    for role, whose in (("customer", {}), ("crew", {}), ("operations", {"customer": "ducks"}), ("pirate", {})):
        with pytest.raises(Misuse):
            Account("x", role, "X", **whose)  # type: ignore[arg-type]
    with pytest.raises(Misuse):
        accounts.add(Account("mira", "operations", "Mira"), "short")
    accounts.add(Account("mira", "operations", "Mira"), PASSWORD)
    accounts.add(Account("mira", "clerk", "Mira"), PASSWORD + "!")
    account, argon2_hash = accounts.login("mira")
    assert account == Account("mira", "clerk", "Mira")
    assert [verifies(argon2_hash, guess.encode()) for guess in (PASSWORD, PASSWORD + "!")] == [False, True]
    assert Accounts(tmp_path / "accounts.db").get("mira") == Account("mira", "clerk", "Mira")
