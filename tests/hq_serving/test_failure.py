"""Goal: what a process of headquarters keeps of a payload that failed has no secrets in it, and says so."""

from __future__ import annotations

import base64
import json

from landfall.runtime.telemetry_client import failure


def test_a_secret_in_what_failed_is_left_out_and_that_is_said() -> None:
    append = failure("projector", "does not read", '{"token": "abc", "temp": 4', 5, ("projector.exceptions", 1), code="record_unreadable")
    body = json.loads(append.records.column("body")[0].as_py())
    assert base64.b64decode(body["payload_base64"]) == b'{"token": "***", "temp": 4'
    assert (body["secrets_masked"], body["payload_bytes"]) == (1, 26)
    whole = failure("projector", "does not read", "{", 5, ("projector.exceptions", 2), code="record_unreadable")
    plain = json.loads(whole.records.column("body")[0].as_py())
    assert plain["code"] == "record_unreadable"
    assert "secrets_masked" not in plain
