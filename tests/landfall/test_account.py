"""Goal: whoever runs headquarters says by command who may log in, and the API heeds it at once."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from hq.api.accounts import Account, Accounts
from landfall.access.password_checks import verifies
from landfall.system.private_files import write_private
from tests.landfall.commands import run

PASSWORD = "salt and rope"


def logged_in(accounts: Accounts, username: str, password: str) -> Account | None:
    """The account that this login opens."""
    account, argon2_hash = accounts.login(username)
    return account if verifies(argon2_hash, password.encode()) else None


def typed(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(text))


def test_accounts_are_added_shown_changed_and_removed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "hq" / "accounts.db"
    for words, told in (
        (("mira", "--role", "operations", "--name", "Mira"), "mira may log in, as operations\n"),
        (("claims", "--role", "customer", "--customer", "duckworks"), "claims may log in, as customer of duckworks\n"),
        (("bridge", "--role", "crew", "--ship", "9321483"), "bridge may log in, as crew of 9321483\n"),
    ):
        typed(monkeypatch, f"{PASSWORD}\n")
        assert run(capsys, "account", "add", *words, "-f", file)[:2] == (0, told)
    running = Accounts(file)
    assert logged_in(running, "claims", PASSWORD) == Account("claims", "customer", "claims", customer="duckworks")

    typed(monkeypatch, f"{PASSWORD}!\n")
    code, _, complaint = run(capsys, "account", "add", "mira", "--role", "clerk", "-f", file)
    assert (code, "[account_exists]" in complaint) == (2, True)
    assert logged_in(running, "mira", PASSWORD) == Account("mira", "operations", "Mira")
    assert run(capsys, "account", "add", "mira", "--role", "clerk", "--replace", "-f", file)[0] == 0
    assert logged_in(running, "mira", f"{PASSWORD}!") == Account("mira", "clerk", "mira")

    code, shown, _ = run(capsys, "account", "ls", "-f", file)
    assert (code, [line.split() for line in shown.splitlines()[1:]]) == (
        0,
        [["bridge", "crew", "9321483", "bridge"], ["claims", "customer", "duckworks", "claims"], ["mira", "clerk", "mira"]],
    )
    assert run(capsys, "account", "remove", "mira", "-f", file)[0] == 0
    assert running.get("mira") is None
    code, _, complaint = run(capsys, "account", "remove", "mira", "-f", file)
    assert (code, "[account_unknown]" in complaint) == (2, True)


def test_an_account_is_one_however_its_name_is_typed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With accents in their letters or beside them: it is not added twice, logs in either way, and is removed."""
    file, typed_name, name = tmp_path / "accounts.db", "zoe\u0308", "zoë"
    typed(monkeypatch, "le cafe\u0301 cre\u0300me\n")
    assert run(capsys, "account", "add", typed_name, "--role", "clerk", "--name", "Zoe\u0308 Ne\u0301e", "-f", file)[0] == 0
    accounts = Accounts(file)
    assert accounts.all() == [Account(name, "clerk", "Zoë Née")]
    typed(monkeypatch, f"{PASSWORD}\n")
    assert run(capsys, "account", "add", name, "--role", "clerk", "-f", file)[0] == 2
    assert [logged_in(accounts, one, "le café crème") for one in (name, typed_name)] == accounts.all() * 2
    assert run(capsys, "account", "remove", typed_name, "-f", file)[0] == 0
    assert accounts.all() == []


@pytest.mark.parametrize(
    ("words", "password", "told"),
    [
        (("ann", "--role", "operations"), "short", "a password has at least 12 characters"),
        (("ann", "--role", "operations"), "", "there is no password"),
        (("ann", "--role", "operations"), "Password1234", "a common one"),
        (("ann", "--role", "customer"), PASSWORD, "a customer's account names a customer"),
        (("ann", "--role", "crew", "--ship", "9321484"), PASSWORD, "'9321484' is no ship's IMO number"),
        (("ann\n", "--role", "clerk"), PASSWORD, "a username is 1 to 100 printable characters"),
    ],
)
def test_an_account_that_can_not_be_is_refused_in_words(
    words: tuple[str, ...], password: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    typed(monkeypatch, f"{password}\n")
    code, _, complaint = run(capsys, "account", "add", *words, "-f", tmp_path / "accounts.db")
    assert (code, told in complaint) == (2, True), complaint


def test_a_file_that_can_not_be_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, complaint = run(capsys, "account", "ls", "-f", tmp_path / "none.db")
    assert (code, "[file_missing]" in complaint) == (2, True)
    write_private(tmp_path / "text.db", b"no database at all, but text that is long enough to be looked at\n" * 40)
    code, _, complaint = run(capsys, "account", "ls", "-f", tmp_path / "text.db")
    assert (code, "[accounts_unavailable]" in complaint) == (2, True), complaint
