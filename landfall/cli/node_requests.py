"""Requests from the command line to a running node's door, or to the fleet's clock: the answer, or in words why there is none."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import httpx

from streams.model.errors import Misuse, RetryLater


@dataclass(frozen=True, slots=True)
class NodeAddress:
    """The receiver of a request: its name, its address, what to do when it can not be reached and when it refuses, and the timeout.

    `shown`: the `Authorization` header for the door; none where only the time is asked.
    """

    name: str
    url: str
    start_it: str
    refused: str
    timeout_s: float
    shown: str | None = None

    def answer(self, method: str, path: str, body: Any = None, *, keys: Collection[str]) -> dict[str, Any]:
        """Return its answer, an object with at least these `keys`.

        Raises RetryLater when there is no answer. Raises Misuse when the address is invalid, when something else answers there, and with
        its own sentence (and hint, where it gives one) when it refuses.
        """
        headers = {} if self.shown is None else {"Authorization": self.shown}
        try:
            answer = httpx.request(method, self.url + path, headers=headers, json=body, timeout=self.timeout_s, trust_env=False)
            decoded = answer.json()
        except (httpx.InvalidURL, httpx.UnsupportedProtocol) as problem:
            raise Misuse(
                f"{self.url!r} is no address: {problem}", hint="write it like http://127.0.0.1:8790", code="address_invalid"
            ) from problem
        except httpx.HTTPError as problem:
            raise RetryLater(
                f"{self.name} can not be reached at {self.url}: {problem}", hint=self.start_it, code="node_unreachable"
            ) from problem
        except ValueError:
            decoded = None
        view: dict[str, Any] = decoded if isinstance(decoded, dict) else {}
        if answer.is_error and (refusal := view.get("error") or view.get("problem")):  # a clock's word for it, and a node's
            raise Misuse(str(refusal), hint=str(view.get("hint") or self.refused), code=str(view.get("code") or ""))
        if not answer.is_success or not view.keys() >= set(keys):
            raise Misuse(
                f"what answers at {self.url} is not {self.name} (HTTP {answer.status_code})", hint=self.start_it, code="not_a_node"
            )
        return view
