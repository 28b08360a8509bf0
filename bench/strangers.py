"""Measure how long `GET /api/fleet` takes while strangers guess passwords and send large bodies, compared with the same without them.

`python -m bench.strangers [boxes] [seconds]`. Prints one JSON object. `landfall api` is a process of its own, over a store of so many boxes
on eight ships. It runs next to headquarters' node, which takes its audit records. Operations, logged in, ask twice a second; a time counts
from when its question was due. Strangers are another process: 60 wrong logins a second, each from another address, half of them for a known
account; and ten bodies of 16 MiB at once, without a login, each begun again a second after it was refused.
"""

from __future__ import annotations

import asyncio
import json
import math
import multiprocessing
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import tomli_w

from bench.fleet import until
from bench.machine import machine
from bench.results import Measured, write
from cargo.vocabulary.trade_codes import make_container, make_imo
from hq.api.accounts import Account, Accounts
from hq.serving.database import ServingDatabase
from hq.serving.projection_loop import Projector
from hq.serving.routes import routes
from landfall.node.node import Node
from landfall.node.settings import NodeSettings
from landfall.runtime.log_wait import judged_reader
from landfall.storage.file_log import FileLog
from landfall.system.private_files import write_private
from streams.codec import BlockCodec
from streams.log import Append
from streams.model.clock import WallClock
from streams.model.metrics import Metrics
from streams.model.records import Record, to_batch
from tests.support.credentials import allow_all
from tests.support.ports import free_port
from tests.support.proxy import LoopThread

BOUND_MS = 500
"""The goal: `/api/fleet` answers within this, p99."""
LOGINS_S, BODIES, BODY_BYTES = 60, 10, 16 << 20
BODY_EVERY_S = 1.0
ASKS_S = 2
SHIPS, FIXES = 8, 200
READY_S_MAX = 60.0
STRANGERS_S_MAX = 60.0
"""Maximum time from the start of the strangers' process until it attacks, and for what is under way at the end."""
COMMIT_RECORDS = 5_000
TOKEN, USER, PASSWORD = "door", "operations", "a password that nobody guesses"


def records(boxes: int, now_ms: int) -> Iterator[tuple[str, Record]]:
    """What headquarters' log has of the fleet, with each record's stream: ships, their positions, and boxes aboard with their owners."""
    ships = [make_imo(910_000 + at) for at in range(SHIPS)]
    yield "registry", _entry("customer", "bench", {"name": "Bench", "colour": [1, 2, 3], "role": "shipper"}, now_ms)
    for ship in ships:
        for at in range(FIXES):
            signals = {"latitude_deg": -30.0 + at / 100, "longitude_deg": 150.0, "speed_kn": 16.0}
            yield "ships", Record(f"{ship}.location", "GPS", now_ms - (FIXES - at) * 60_000, signals)
        yield "states", _state("ship", ship, ship, now_ms, latitude_deg=-30.0, longitude_deg=150.0)
    for at in range(boxes):
        number, booking = make_container("BENU", at), f"BK-{at}"
        spans = [{"container": number, "from_at_ms": now_ms - 86_400_000, "until_at_ms": None}]
        parties = {"shipper": "bench", "consignee": "bench", "cargo": "goods", "from": "JPTYO", "to": "AUSYD"}
        yield "registry", _entry("booking", booking, {"reference": booking, **parties, "containers": spans}, now_ms)
        yield "states", _state("container", number, ships[at % SHIPS], now_ms, return_c=4.0, humidity_pct=60.0)


def _entry(kind: str, id_: str, value: Mapping[str, Any], now_ms: int) -> Record:
    return Record(f"{kind}/{id_}", body={"type": kind, "id": id_, "version": 1, "at_ms": now_ms, "by": "bench", "value": dict(value)})


def _state(kind: str, topic: str, ship: str, now_ms: int, **signals: float) -> Record:
    place = {"kind": "ship", "id": ship}
    where = {name: signals.get(name) for name in ("latitude_deg", "longitude_deg")}
    newest = {name: {"value": value, "at_ms": now_ms} for name, value in signals.items()}
    return Record(topic, device_at_ms=now_ms, body={"kind": kind, "at_ms": now_ms, "place": place, **where, "signals": newest})


@contextmanager
def node(folder: Path) -> Iterator[str]:
    """Headquarters' node, its door's URL given."""
    allow_all(folder, TOKEN)
    made = Node(NodeSettings.model_validate({"node": "hq", "role": "hq", "folder": folder, "metrics_every_s": 3600}))
    loop = LoopThread("node")
    loop.wait(made.start())
    try:
        yield made.url
    finally:
        loop.wait(made.stop())
        loop.close()


def fill(folder: Path, boxes: int) -> None:
    """Headquarters' log, of the node that is to run in `folder`, has the fleet: what only ships may write is a ship's."""
    streams: dict[str, list[Record]] = {}
    for stream, record in records(boxes, WallClock().now_ms()):
        streams.setdefault(stream, []).append(record)
    with closing(_log(folder, "hq")) as hq, closing(_log(folder.with_name("ship"), "ship")) as ship:
        for stream, several in streams.items():
            writer = ship if stream == "ships" else hq
            for at in range(0, len(several), COMMIT_RECORDS):
                writer.append([Append(stream, to_batch(several[at : at + COMMIT_RECORDS]))])
        hq.admit(list(ship.blocks("ships", ship.origin, 0, len(streams["ships"]))))


def _log(folder: Path, name: str) -> FileLog:
    return FileLog(folder / "log", folder / "marker", name, BlockCodec(), WallClock())


def project(log: Path, database_url: str) -> None:
    """The store has all that the log has."""
    with closing(judged_reader(log)) as reader, closing(ServingDatabase(database_url)) as database:
        projector = Projector(reader, database, WallClock(), Metrics("projector"), routes({}, reader))
        projector.start()
        while projector.step():
            pass


@contextmanager
def api(folder: Path, door: str, database_url: str) -> Iterator[tuple[str, str]]:
    """`landfall api` as a process: its URL, and the token of who has logged in there."""
    accounts, port = Accounts(folder / "accounts.db"), free_port()
    accounts.add(Account(USER, "operations", "Operations"), PASSWORD)
    token = accounts.open_session(USER, accounts.login(USER)[1], time.time_ns() // 1_000_000)
    table = {"accounts": str(folder / "accounts.db"), "log": str(folder / "hq" / "log"), "door": door, "token": TOKEN, "port": port}
    settings = folder / "api.toml"
    write_private(settings, tomli_w.dumps({**table, "database_url": database_url}).encode())
    with (folder / "api.txt").open("wb") as output:
        command = [sys.executable, "-m", "landfall", "api", "--config", str(settings)]
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
    url = f"http://127.0.0.1:{port}"
    try:
        until("the API answers", lambda: process.poll() is not None or _answers(url), READY_S_MAX)
        yield url, token
    finally:
        process.terminate()
        process.wait()


def _answers(url: str) -> bool:
    with suppress(httpx.TransportError):
        return httpx.get(f"{url}/healthz", trust_env=False).is_success
    return False


def asked_ms(url: str, token: str, seconds: int) -> list[float]:
    """How long each question took, in order of length, ms."""
    took_ms = []
    with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=60, trust_env=False) as client:
        client.get("/api/fleet").raise_for_status()
        begins_s = time.perf_counter()
        for at in range(seconds * ASKS_S):
            due_s = begins_s + at / ASKS_S
            time.sleep(max(0.0, due_s - time.perf_counter()))
            client.get("/api/fleet").raise_for_status()
            took_ms.append((time.perf_counter() - due_s) * 1000)
    return sorted(took_ms)


def strangers(url: str, said: Any) -> None:
    """Attack until something comes through the pipe; then say what was answered how often, by kind."""
    said.send(asyncio.run(_attacking(url, said)))


async def _attacking(url: str, said: Any) -> dict[str, dict[str, int]]:
    logins, bodies = Counter[str](), Counter[str]()
    port, over = int(url.rpartition(":")[2]), asyncio.Event()
    asyncio.get_running_loop().add_reader(said.fileno(), over.set)
    under_way = {asyncio.ensure_future(_send_bodies(port, path, bodies)) for path in ("/api/registry", "/api/token") * (BODIES // 2)}
    said.send(None)
    at, begins_s = 0, time.perf_counter()
    while not over.is_set():
        under_way.add(asyncio.ensure_future(_log_in(port, at, logins)))
        at += 1
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, begins_s + at / LOGINS_S - time.perf_counter())):
                await over.wait()
    for one in under_way:
        one.cancel()
    await asyncio.gather(*under_way, return_exceptions=True)
    return {"logins": {"sent": at, **logins}, "bodies": dict(bodies)}


async def _log_in(port: int, at: int, logins: Counter[str]) -> None:
    form = f"username={USER if at % 2 else f'nobody-{at}'}&password=a+wrong+guess+{at}"
    head = f"POST /api/token HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: {len(form)}\r\n\r\n"
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(f"127.1.{at // 250 % 250}.{at % 250 + 1}", 0))
    writer.write((head + form).encode())
    logins[_status(await reader.readline())] += 1
    writer.close()


async def _send_bodies(port: int, path: str, bodies: Counter[str]) -> None:
    head, part = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {BODY_BYTES}\r\n\r\n", bytes(1 << 16)
    while True:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        answer, status = asyncio.ensure_future(reader.readline()), b""
        with suppress(ConnectionError):
            writer.write(head.encode())
            for _ in range(BODY_BYTES // len(part)):
                writer.write(part)
                await writer.drain()
        with suppress(ConnectionError):
            status = await answer
        bodies[_status(status)] += 1
        writer.close()
        await asyncio.sleep(BODY_EVERY_S)


def _status(line: bytes) -> str:
    """Of an answer's first line; `closed` where none came before the connection was closed."""
    return line.split()[1].decode() if line else "closed"


def summary(took_ms: list[float]) -> dict[str, float]:
    """Median, p99 and the longest, ms."""
    p99 = took_ms[math.ceil(0.99 * len(took_ms)) - 1]
    return {"p50": round(took_ms[len(took_ms) // 2], 1), "p99": round(p99, 1), "most": round(took_ms[-1], 1), "asked": len(took_ms)}


def measured(folder: Path, boxes: int, seconds: int) -> dict[str, Any]:
    """Return the times of the same questions without strangers and concurrently with them, and the answers to the strangers."""
    database_url = f"sqlite:///{folder / 'serving.db'}"
    fill(folder / "hq", boxes)
    with node(folder / "hq") as door:
        project(folder / "hq" / "log", database_url)
        with api(folder, door, database_url) as (url, token):
            alone = summary(asked_ms(url, token, seconds))
            here, there = multiprocessing.Pipe()
            attack = multiprocessing.get_context("spawn").Process(target=strangers, args=(url, there))
            attack.start()
            if not here.poll(STRANGERS_S_MAX):
                raise TimeoutError("the strangers do not attack")
            here.recv()
            attacked = summary(asked_ms(url, token, seconds))
            here.send("enough")
            if not here.poll(STRANGERS_S_MAX):
                raise TimeoutError("the strangers do not end")
            answers = here.recv()
            attack.join()
    return {"alone_ms": alone, "beside_strangers_ms": attacked, "of_the_bound": round(attacked["p99"] / BOUND_MS, 3), "strangers": answers}


def main() -> None:
    """Measures and prints."""
    given = [int(word) for word in sys.argv[1:]]
    boxes, seconds = (*given, *(2_000, 120)[len(given) :])
    with tempfile.TemporaryDirectory(prefix="bench-strangers-") as name:
        found = measured(Path(name), boxes, seconds)
    print(json.dumps({"bench": "strangers", **machine(), "boxes": boxes, "bound_ms": BOUND_MS, **found}, indent=1))
    p99, alone = found["beside_strangers_ms"]["p99"], found["alone_ms"]["p99"]
    write("strangers", {"fleet": Measured(f"{p99} ms", p99 <= BOUND_MS, f"without them {alone} ms")})


if __name__ == "__main__":
    main()
