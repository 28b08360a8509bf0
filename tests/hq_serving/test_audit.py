"""Goal: who logged in, failed to, and wrote what, stands in the `audit` stream of headquarters' log."""

from __future__ import annotations

import os
import pwd
import sqlite3
import stat
import threading
from pathlib import Path

import pytest

from hq.api import audit
from hq.api.accounts import Account, AccountChange, Accounts
from streams.config.roles import Peer
from streams.config.stream_definitions import Definitions, may_have, may_originate
from streams.model.errors import Misuse
from tests.hq_serving.conftest import PASSWORD, api_of, settings_for, until
from tests.hq_serving.test_measuring import bodies
from tests.hq_serving.test_registry import running_node
from tests.support.refusals import refusal

ENTRY = {"type": "customer", "id": "ducks", "value": {"name": "Ducks", "colour": [1, 2, 3], "role": "shipper"}}


def test_logins_failures_and_writes_are_noted(tmp_path: Path) -> None:
    """In their order, each once, with account and address, and without a password."""
    with running_node(tmp_path) as door:
        with api_of(settings_for(tmp_path / "log", tmp_path, door)) as client:
            client.post("/api/token", data={"username": "cleo", "password": "a wrong guess"})
            token = client.post("/api/token", data={"username": "cleo", "password": PASSWORD}).json()["access_token"]
            headers = {"Authorization": f"Bearer {token}"}
            for _ in range(2):
                assert client.post("/api/registry", json={"entries": [ENTRY]}, headers=headers).status_code == 200
            client.post("/api/logout", headers=headers)
            until(lambda: len(bodies(tmp_path, "audit")) == 4, "the last of them")
        noted = bodies(tmp_path, "audit")
    assert [(one["act"], one["by"]) for one in noted] == [(act, "cleo") for act in ("login_refused", "login", "registry", "logout")]
    assert noted[0]["code"] == "login_wrong"
    assert [one["address"] for one in noted] == ["127.0.0.1"] * 4
    assert noted[2]["entries"] == ["customer/ducks v1"]
    assert "guess" not in str(noted)
    assert PASSWORD not in str(noted)


def test_what_was_changed_of_the_accounts_is_noted(tmp_path: Path) -> None:
    """Though the API did not run then; once, by which user of the machine, and what it was before."""
    settings = settings_for(tmp_path / "log", tmp_path)
    accounts, user = Accounts(settings.accounts), pwd.getpwuid(os.geteuid()).pw_name
    with running_node(tmp_path) as door:
        settings = settings.model_copy(update={"door": door})
        accounts.add(Account("nils", "clerk", "Nils"), PASSWORD)
        accounts.add(Account("nils", "crew", "Nils", ship="9321483"), PASSWORD)
        with api_of(settings):
            until(lambda: len(bodies(tmp_path, "audit")) == 2, "both")
            assert accounts.remove("nils")
            until(lambda: len(bodies(tmp_path, "audit")) == 3, "the third")
        with api_of(settings):
            accounts.add(Account("nils", "clerk", "Nils"), PASSWORD)
            until(lambda: len(bodies(tmp_path, "audit")) == 4, "and none of those before")
        noted = bodies(tmp_path, "audit")
    assert [(one["act"], one["by"], one["username"]) for one in noted] == [("account", user, "nils")] * 4
    assert [(one["role_before"], one["role"]) for one in noted] == [(None, "clerk"), ("clerk", "crew"), ("crew", None), (None, "clerk")]
    assert noted[1]["ship"] == "9321483"
    assert accounts.changes(1) == []


def test_accounts_that_can_not_be_read_hold_up_no_other_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their changes are appended once they can be."""
    settings, broken, changes = settings_for(tmp_path / "log", tmp_path), threading.Event(), Accounts.changes

    def read(self: Accounts, changes_max: int) -> list[AccountChange]:
        if broken.is_set():
            raise sqlite3.OperationalError("disk I/O error")
        return changes(self, changes_max)

    monkeypatch.setattr(Accounts, "changes", read)
    monkeypatch.setattr(audit, "CHANGES_EVERY_S", 0.0)
    broken.set()
    with running_node(tmp_path) as door, api_of(settings.model_copy(update={"door": door})) as client:
        Accounts(settings.accounts).add(Account("nils", "clerk", "Nils"), PASSWORD)
        client.post("/api/token", data={"username": "cleo", "password": "a wrong guess"})
        until(lambda: [one["act"] for one in bodies(tmp_path, "audit")] == ["login_refused"], "the refused login")
        broken.clear()
        until(lambda: [one["act"] for one in bodies(tmp_path, "audit")] == ["login_refused", "account"], "the change")


def test_accounts_that_others_may_read_are_refused(tmp_path: Path) -> None:
    """A new file is its owner's alone, whatever the umask."""
    file, before = tmp_path / "accounts.db", os.umask(0)
    try:
        Accounts(file).add(Account("mira", "operations", "Mira"), PASSWORD)
    finally:
        os.umask(before)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.chmod(0o640)
    with refusal(Misuse, "file_open"):
        Accounts(file)


def test_the_audit_stays_at_headquarters() -> None:
    definition = Definitions().of("audit")
    assert definition.retention.age_days == 400
    assert [may_originate(definition, role, "one") for role in ("hq", "port", "ship")] == [True, False, False]
    assert not any(may_have(peer, definition) for peer in (Peer("tokyo", "port", "JPTYO"), Peer("albatross", "ship", "9321483")))
