"""Looks after a door's certificate while the door is open. Another certificate in its place is shown from then on. It is reported before it
expires."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from landfall.transport.certificates import describe, doubt
from landfall.transport.tls import Shown, TlsFiles
from streams.model.errors import Misuse

told = logging.getLogger("landfall.node")

LOOK_EVERY_S = 10.0
SOON = timedelta(days=14)
"""A certificate that counts no longer than this is reported in `exceptions`, once."""


def tell_doubt(node: str, files: TlsFiles) -> None:
    """In the log, why a peer would not take this node's certificate, if there is a reason here. Raises Misuse when it does not read."""
    if reason := doubt(files, datetime.now(UTC)):
        told.warning("nobody will believe who '%s' is: %s", node, reason)


async def keep_certificate(
    name: str, kind: str, shown: Shown, report: Callable[..., None], renewed: Callable[[], None] = lambda: None
) -> None:
    """Show what is in the files at the door of `name`, every LOOK_EVERY_S, until cancelled. When it is another certificate, call `renewed`,
    which may raise Misuse. A certificate that does not load is reported in the log, once, and the last that did is shown on. `kind`:
    what `exceptions` call it.
    """
    problem_told, until_told = "", None
    while True:
        try:
            if shown.renew():
                told.info("%s shows another certificate from now on: %s was renewed", name, shown.certificate)
                renewed()
            until, problem_told = describe(shown.certificate.read_bytes()).until, ""
            if until != until_told and until - datetime.now(UTC) < SOON:
                until_told = until
                told_until = f"{until:%Y-%m-%d %H:%M}Z"
                report(f"{kind}'s certificate expires soon", "renew it", certificate=str(shown.certificate), until=told_until)
        except (Misuse, OSError) as problem:
            if str(problem) != problem_told:
                told.warning("the certificate of %s is not renewed: %s", name, problem)
            problem_told = str(problem)
        await asyncio.sleep(LOOK_EVERY_S)
