"""Goal: who logged in, failed to, and wrote what, stands in the `audit` stream of headquarters' log."""

from __future__ import annotations

from pathlib import Path

from streams.definitions import Definitions, may_have, may_originate
from streams.policy import Peer
from tests.hq_serving.conftest import PASSWORD, api_of, settings_for, until
from tests.hq_serving.test_measuring import bodies
from tests.hq_serving.test_registry import running_node

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
    assert (noted[0]["code"], noted[0]["address"]) == ("login_wrong", "127.0.0.1")
    assert noted[2]["entries"] == ["customer/ducks v1"]
    assert "guess" not in str(noted)
    assert PASSWORD not in str(noted)


def test_the_audit_stays_at_headquarters() -> None:
    definition = Definitions().of("audit")
    assert definition.retention.age_days == 400
    assert [may_originate(definition, role, "one") for role in ("hq", "port", "ship")] == [True, False, False]
    assert not any(may_have(peer, definition) for peer in (Peer("tokyo", "port", "JPTYO"), Peer("albatross", "ship", "9321483")))
