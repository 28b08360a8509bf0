"""What the serving side's tests share: a fleet's logs, a store projected from them, and the API over it."""

from __future__ import annotations

import asyncio
import threading
import time
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
import pytest
from fastapi import FastAPI
from sqlalchemy import select

from hq.api.accounts import Account, Accounts
from hq.api.app import create_app, served
from hq.api.settings import ApiSettings
from hq.serving.database import ServingDatabase, ServingReader
from hq.serving.models import METADATA
from hq.serving.projection_loop import Projector
from hq.serving.routes import routes
from landfall.storage.log_kinds import open_reader
from landfall.system.private_files import write_private
from landfall.transport.tls import showing, trusting
from streams.codec import BlockCodec
from streams.model.clock import Clock, FleetClock, FleetTime, StillClock
from streams.model.metrics import Metrics
from tests.hq_serving.fleet import NOW_MS, PLACES, SHIP, Fleet
from tests.hq_serving.postgres import running_postgres

PASSWORD = "quack quack quack"
STARTED_S_MAX = 150
ACCOUNTS = (
    Account("mira", "operations", "Mira"),
    Account("cleo", "clerk", "Cleo"),
    Account("donald", "customer", "Donald", customer="ducks"),
    Account("otto", "customer", "Otto", customer="machines"),
    Account("crew", "crew", "Crew of One", ship=SHIP),
)
_tokens: dict[str, str] = {}
"""Username → token of a session that every API here knows."""


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    """A fleet's logs, empty."""
    one = Fleet(tmp_path)
    yield one
    one.close()


class OwningProjector(Projector):
    """A projector of which weak references can be made."""


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The address of a PostgreSQL, in which `{}` stands for a database's name: tests keep apart by these."""
    with running_postgres() as server:
        yield server.address


def make_projector(log: Path, url: str, step_records_max: int = 20_000) -> Projector:
    """A projector of headquarters' log into the store at `url`; log and store are closed when nothing refers to it any more."""
    reader, database = open_reader(log, BlockCodec()), ServingDatabase(url)
    one = OwningProjector(reader, database, StillClock(NOW_MS), Metrics("projector"), routes(PLACES, reader), step_records_max)
    weakref.finalize(one, reader.close)
    weakref.finalize(one, database.close)
    return one


def project(one: Projector) -> int:
    """Steps until there is nothing left; how many records that was."""
    one.start()
    taken = 0
    while step := one.step():
        taken += step
    one.database.close()
    return taken


def until(true: Callable[[], bool], what: str) -> None:
    """Waits for a condition, with a deadline."""
    deadline = time.monotonic() + STARTED_S_MAX
    while not true():
        assert time.monotonic() < deadline, f"waited {STARTED_S_MAX} s for {what}"
        time.sleep(0.02)


def sqlite_url(folder: Path, name: str = "serving") -> str:
    """A SQLite store in `folder`."""
    return f"sqlite:///{folder}/{name}.db"


def table_rows(url: str) -> dict[str, list[str]]:
    """All rows of all tables but the one that says when the store was built."""
    reader = ServingReader(url)
    with reader.snapshot() as connection:
        tables = [table for table in METADATA.sorted_tables if table.name != "projection"]
        rows = {table.name: sorted(str(row) for row in connection.execute(select(table))) for table in tables}
    reader.close()
    return rows


def settings_for(log: Path, folder: Path, door: str = "http://127.0.0.1:9", database_url: str = "") -> ApiSettings:
    """An API's settings over the log and the store in `folder`, with everyone's account made."""
    folder.mkdir(parents=True, exist_ok=True)
    write_private(folder / "accounts.db", _everyone())
    return ApiSettings.model_validate(
        {
            "database_url": database_url or sqlite_url(folder),
            "accounts": folder / "accounts.db",
            "log": log,
            "door": door,
            "token": "door",
            "metrics_every_s": 3600,
        }
    )


@cache
def _everyone() -> bytes:
    """A file of all accounts, and a session of each: hashing their passwords takes long on purpose, and once is enough."""
    with TemporaryDirectory() as folder:
        accounts = Accounts(Path(folder) / "accounts.db")
        for account in ACCOUNTS:
            accounts.add(account, PASSWORD)
            argon2_hash = accounts.login(account.username)[1]
            _tokens[account.username] = accounts.open_session(account.username, argon2_hash, time.time_ns() // 1_000_000)
        accounts.remove_changes(len(ACCOUNTS))
        return (Path(folder) / "accounts.db").read_bytes()


def still_clock(now_ms: int = NOW_MS) -> FleetClock:
    """The fleet's time stands at `now_ms`."""
    return FleetClock(FleetTime(time.time_ns() // 1_000_000, now_ms, 0.0))


def unserved_api(folder: Path) -> FastAPI:
    """The API's application over no log: for its routes and its description."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("hq.api.app.opened_log", lambda _: None)
        return create_app(settings_for(folder / "log", folder), still_clock())


@contextmanager
def api_of(settings: ApiSettings, clock: FleetClock | None = None, wall: Clock | None = None) -> Iterator[httpx.Client]:
    """A client of a real API server that runs while the block does. It ends by telling the node of itself: who holds that up waits long."""
    shown = showing("the API", settings.tls_certificate, settings.tls_key)
    server = served(create_app(settings, clock or still_clock(), shown, wall), proxies=settings.trusted_proxies, shown=shown)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    until(lambda: server.started or not thread.is_alive(), "the API to start")
    assert server.started, "the API did not start"
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        url, verify = (f"http://127.0.0.1:{port}", True) if shown is None else (f"https://localhost:{port}", trusting(shown.certificate))
        with httpx.Client(base_url=url, timeout=STARTED_S_MAX, trust_env=False, verify=verify) as client:
            yield client
    finally:
        server.should_exit = True
        thread.join(STARTED_S_MAX)
        assert not thread.is_alive(), "the API did not end"


@asynccontextmanager
async def api_beside(settings: ApiSettings, clock: FleetClock | None = None) -> AsyncIterator[httpx.Client]:
    """`api_of`, for a test whose event loop the API's node runs on: that goes on while the API starts and ends."""
    with ExitStack() as stack:
        yield await asyncio.to_thread(stack.enter_context, api_of(settings, clock))
        await asyncio.to_thread(stack.close)


def login_words(client: httpx.Client, username: str, folder: Path) -> tuple[str, ...]:
    """The options of a command by which it reaches this API and logs in there; the password lies in `folder`."""
    file = folder / "password"
    file.write_text(f"{PASSWORD}\n")
    return ("--api", str(client.base_url).rstrip("/"), "--username", username, "--password-file", str(file))


def log_in(client: httpx.Client, username: str) -> dict[str, str]:
    """The headers of one of ACCOUNTS, with a session that the file of accounts has had from the start.

    Hashing a password takes long on purpose; what logging in does is tested by `test_api.py`, `test_gate.py` and `test_boundary.py`.
    """
    return {"Authorization": f"Bearer {_tokens[username]}"}
