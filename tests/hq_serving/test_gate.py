"""Goal: strangers can not stall the API: no body of theirs is read, none is endless, and their guesses hold up nobody."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator

import httpx
import pytest
from pydantic import SecretStr

from hq.api import gate
from hq.api.accounts import Account, Accounts
from hq.api.error_answers import ApiError
from hq.api.gate import BODY_BYTES_MAX
from hq.api.logins import FAILURES_FREE, WAITING_OF_ADDRESS_MAX, AccountLogins
from hq.browser_address import browser_headers
from landfall.access.password_checks import PasswordChecks
from tests.hq_serving.conftest import api_of, log_in, make_projector, project, settings_for, sqlite_url, until
from tests.hq_serving.fleet import Fleet

DEADLINE_S = 60
PAGES = SecretStr("a token of the pages, of forty letters")


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    folder = tmp_path_factory.mktemp("gate")
    fleet = Fleet(folder)
    project(make_projector(fleet.hq_dir, sqlite_url(folder)))
    with api_of(settings_for(fleet.hq_dir, folder).model_copy(update={"pages_token": PAGES})) as one:
        yield one
    fleet.close()


def raw(client: httpx.Client, head: str) -> bytes:
    """All that comes back for these first bytes of a request, until the API closes the connection."""
    with socket.create_connection((client.base_url.host, client.base_url.port or 0), DEADLINE_S) as connection:
        connection.sendall(head.encode())
        answer = b""
        while part := connection.recv(65_536):
            answer += part
    return answer


def test_a_strangers_body_is_not_waited_for(client: httpx.Client) -> None:
    """Of 16 MiB announced nothing is sent, and the answer comes all the same; then the connection is closed."""
    for path in ("/api/registry", "/api/asks", "/api/nothing"):
        answer = raw(client, f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {1 << 24}\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 401")
        assert b'"code":"not_logged_in"' in answer


def test_a_body_has_a_size(client: httpx.Client) -> None:
    """Announced or not; only the registry's writers may send more."""
    headers, large = log_in(client, "cleo"), b"[" * (BODY_BYTES_MAX + 1)
    for method, path in (("POST", "/api/clock"), ("POST", "/api/token"), ("GET", "/api/fleet")):
        for content in (large, iter([large[:-1], large[-1:]])):
            answer = client.request(method, path, content=content, headers=headers)
            assert (answer.status_code, answer.json()["code"]) == (413, "body_too_large"), (method, path)
    assert client.post("/api/registry", content=large, headers=headers).status_code == 422
    answer = client.post("/api/registry", content=b"[" * (gate.UPLOADS["POST", "/api/registry"] + 1), headers=headers)
    assert answer.json()["code"] == "body_too_large"


def test_headers_and_bodies_have_a_time(client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that says nothing, or stops in its headers or its body, is closed."""
    monkeypatch.setattr(gate, "HEADERS_S_MAX", 0.1)
    monkeypatch.setattr(gate, "BODY_S_MAX", 0.1)
    token = log_in(client, "cleo")["Authorization"]
    begun = f"POST /api/clock HTTP/1.1\r\nHost: x\r\nAuthorization: {token}\r\nContent-Length: 100\r\n\r\nab"
    for said in ("", "GET /api/clock HTTP/1.1\r\nHost: x\r\nX-Slow:", begun):
        assert raw(client, said) == b""


def test_the_login_of_a_name_is_slowed_where_it_was_guessed(client: httpx.Client) -> None:
    """After five failures that account is not asked for again at once from there; another one is."""
    codes = [
        client.post("/api/token", data={"username": "crew", "password": f"guess {number}"}).json()["code"]
        for number in range(FAILURES_FREE + 1)
    ]
    assert codes == ["login_wrong"] * FAILURES_FREE + ["login_slowed"]
    answer = client.post("/api/token", data={"username": "crew", "password": "guess"}, headers={"X-Forwarded-For": "203.0.113.7"})
    assert (answer.status_code, answer.json()["code"]) == (429, "login_slowed"), "a header that anybody can send changed the address"
    assert int(answer.headers["Retry-After"]) > 0
    assert client.post("/api/token", data={"username": "otto", "password": "guess"}).json()["code"] == "login_wrong"


def test_the_pages_name_the_browser_of_a_login_and_nobody_else_does(client: httpx.Client) -> None:
    """Guesses from one browser slow nobody at another; an address that is none is not taken, nor one without the pages' token."""

    def code(browser: str, shown: SecretStr = PAGES) -> str:
        answer = client.post("/api/token", data={"username": "donald", "password": "guess"}, headers=browser_headers(shown, browser))
        return str(answer.json()["code"])

    assert [code("203.0.113.7") for _ in range(FAILURES_FREE + 1)] == ["login_wrong"] * FAILURES_FREE + ["login_slowed"]
    assert code("203.0.113.8") == "login_wrong"
    codes = [code(browser, SecretStr("wrong")) for browser in ("203.0.113.9", "203.0.113.10")]
    codes += [code(browser) for browser in ("nowhere", "203.0.113.7, 1.1.1.1", "")]
    assert codes == ["login_wrong"] * FAILURES_FREE
    assert code("203.0.113.11", SecretStr("wrong")) == "login_slowed", "these count as from where they came"


@pytest.fixture(scope="module")
def accounts(tmp_path_factory: pytest.TempPathFactory) -> Accounts:
    one = Accounts(tmp_path_factory.mktemp("accounts") / "accounts.db")
    one.add(Account("mira", "operations", "Mira"), "a long right one")
    return one


async def code_of(logins: AccountLogins, address: str, password: str) -> str:
    """What becomes of a login as mira."""
    try:
        await logins.check(address, "mira", password)
    except ApiError as problem:
        return problem.code
    return "let in"


async def test_nobody_locks_another_out(accounts: Accounts) -> None:
    """Guesses slow the pair of account and address, in IPv6 the network, longer each time; a right password ends it."""
    now_s = 1_000.0
    logins = AccountLogins(accounts, lambda: now_s, PasswordChecks(lambda _, password: password == b"right"))
    for _ in range(FAILURES_FREE):
        assert await code_of(logins, "2001:db8::1", "wrong") == "login_wrong"
    assert await code_of(logins, "2001:db8::2", "right") == "login_slowed"
    assert await code_of(logins, "2001:db8:0:1::1", "right") == "let in"
    now_s += 2
    assert await code_of(logins, "2001:db8::1", "wrong") == "login_wrong"
    now_s += 2
    assert await code_of(logins, "2001:db8::1", "right") == "login_slowed"
    now_s += 2
    assert await code_of(logins, "2001:db8::1", "right") == "let in"
    assert await code_of(logins, "2001:db8::1", "wrong") == "login_wrong"
    logins.close()


async def test_of_one_address_only_so_many_logins_wait(accounts: Accounts) -> None:
    """Beyond, the answer is 429; another address still gets its turn."""
    go_on = threading.Event()

    def verify(_: str, password: bytes) -> bool:
        assert go_on.wait(DEADLINE_S)
        return password == b"right"

    logins = AccountLogins(accounts, lambda: 0.0, PasswordChecks(verify))
    guesses = [asyncio.ensure_future(logins.check("192.0.2.1", f"nobody-{number}", "wrong")) for number in range(WAITING_OF_ADDRESS_MAX)]
    await asyncio.to_thread(until, lambda: logins.waiting == WAITING_OF_ADDRESS_MAX, "all to wait")
    assert await code_of(logins, "192.0.2.1", "right") == "logins_too_many"
    honest = asyncio.ensure_future(code_of(logins, "192.0.2.2", "right"))
    go_on.set()
    assert await honest == "let in"
    for guess in guesses:
        guess.cancel()
    await asyncio.gather(*guesses, return_exceptions=True)
    assert logins.waiting == 0
    logins.close()


def test_a_password_of_odd_characters_breaks_nothing(client: httpx.Client) -> None:
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    answer = client.post("/api/token", content=b"username=nobody&password=%ED%A0%80%00%FF", headers=kind)
    assert (answer.status_code, answer.json()["code"]) == (401, "login_wrong")
