"""The booking clerk: writes the story's papers into HQ's registry through the API, in order, each until it is accepted."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from http import HTTPStatus
from itertools import takewhile

import httpx

from landfall.transport.tls import trusting
from sim.arrays import NEVER_MS
from sim.paperwork import Paper
from sim.settings import ApiDoor
from streams.model.errors import Misuse, RetryLater

ENTRIES_MAX = 500
"""Entries in one request."""
TIMEOUT_S = 20.0
RETRY_S = 0.5
LOOK_S = 0.02
_RETRIED = frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS})
"""Answers of a server that is still starting or busy, besides all from 500 up."""
log = logging.getLogger("sim.clerk")


class Clerk:
    """Writes `papers` (in order of their time), of which the first `accepted` already are. `run` belongs to a thread of its own.

    An entry whose answer was lost is written again: HQ may then hold it in two equal versions.
    """

    def __init__(self, papers: Sequence[Paper], door: ApiDoor, accepted: int, report: Callable[[str], None] = log.warning) -> None:
        """`report` hears, once, that headquarters takes no entries. Raises Misuse when the door's `tls_ca` does not load."""
        self._papers = papers
        self._door = door
        self._verify = True if door.tls_ca is None else trusting(door.tls_ca)
        self._report = report
        self._token = ""
        self.accepted = accepted

    def free_before_ms(self) -> int:
        """Return the time (UTC ms) just before which the fleet may go on: the next paper is due then and not accepted yet."""
        return self._papers[self.accepted].due_at_ms if self.accepted < len(self._papers) else NEVER_MS

    def run(self, now_ms: Callable[[], int], stop: threading.Event) -> None:
        """Write every paper when it is ready, until all are or `stop` is set. Raises Misuse when a paper or the login is wrong."""
        is_reported = False
        url = self._door.url.rstrip("/")
        with httpx.Client(base_url=url, timeout=TIMEOUT_S, trust_env=False, verify=self._verify) as client:
            while self.accepted < len(self._papers) and not stop.is_set():
                batch = self._ready(now_ms())
                if not batch:
                    stop.wait(LOOK_S)
                    continue
                try:
                    self._write(client, batch)
                    self.accepted += len(batch)
                    is_reported = False
                except (RetryLater, httpx.TransportError) as problem:
                    if not is_reported:
                        self._report(f"headquarters does not take entries ({problem}); trying again")
                    is_reported = True
                    stop.wait(RETRY_S)

    def _ready(self, now_ms: int) -> Sequence[Paper]:
        batch = self._papers[self.accepted : self.accepted + ENTRIES_MAX]
        return list(takewhile(lambda paper: paper.ready_at_ms <= now_ms, batch))

    def _write(self, client: httpx.Client, batch: Sequence[Paper]) -> None:
        if not self._token:
            self._log_in(client)
        entries = [{"type": paper.type, "id": paper.id, "value": paper.value} for paper in batch]
        answer = client.post("/api/registry", json={"entries": entries}, headers={"Authorization": f"Bearer {self._token}"})
        if answer.status_code == HTTPStatus.UNAUTHORIZED:
            self._token = ""
            raise RetryLater("the clerk's token has run out", code="token_expired")
        _check(answer, "entries")

    def _log_in(self, client: httpx.Client) -> None:
        login = {"username": self._door.username, "password": self._door.password.get_secret_value()}
        answer = client.post("/api/token", data=login)
        _check(answer, f"the login of {self._door.username}")
        self._token = str(answer.json()["access_token"])
        log.info("logged in at headquarters as %s", self._door.username)


def _check(answer: httpx.Response, what: str) -> None:
    if answer.is_success:
        return
    reason = f"headquarters answered {answer.status_code} to {what}: {answer.text[:300]}"
    if answer.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR or answer.status_code in _RETRIED:
        raise RetryLater(reason, code="api_failed")
    raise Misuse(
        reason, hint="compare api.username, api.password and the registry values in docs/reference/streams-table.md", code="clerk_refused"
    )
