"""The nodes of one ship or port have the same credentials: each tells the others its own over their session, and takes what is newer."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence

from landfall.access.credentials import Credentials
from streams.model.errors import LandfallError
from streams.replication import Exchange

WAITING_MAX = 256
"""Messages of credentials that wait to be taken; beyond, the oldest is dropped: its sender tells all of them again with its next change."""
logger = logging.getLogger("landfall.node")


class PairCopy:
    """Copies the credentials of one node. Call it from the node's event loop."""

    def __init__(self, credentials: Credentials, exchange: Exchange, report: Callable[..., None]) -> None:
        self._credentials, self._exchange, self._report = credentials, exchange, report
        self._came = deque[Sequence[bytes]](maxlen=WAITING_MAX)
        self._problem_told = ""
        credentials.on_change(self._tell)
        self._tell()

    def came(self, entries: Sequence[bytes]) -> None:
        """Another node of this ship or port has these."""
        self._came.append(entries)

    async def take(self) -> None:
        """Write down what is newer of what has come since this was called last; who changes the file is seen as any other change of it."""
        entries = [entry for message in self._came for entry in message]
        self._came.clear()
        if not entries:
            return
        try:
            changed, self._problem_told = await asyncio.to_thread(self._credentials.merge, entries), ""
        except LandfallError as problem:
            if str(problem) != self._problem_told:
                self._problem_told = str(problem)
                self._report("another node's credentials are not taken", "those of before hold", problem=self._problem_told)
            return
        if changed:
            logger.info("credentials of another node of this ship or port are taken: %s", ", ".join(changed))

    def _tell(self) -> None:
        self._exchange.tell_credentials(self._credentials.shared)
