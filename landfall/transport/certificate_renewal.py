"""The renewal of a door's certificate while the door is open. A replaced certificate is used from then on. It is reported before it
expires.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from landfall.transport.certificates import describe, doubt
from landfall.transport.tls import Shown, TlsFiles
from streams.model.errors import Misuse

logger = logging.getLogger("landfall.node")

LOOK_EVERY_S = 10.0
SOON = timedelta(days=14)
"""Remaining validity below which a certificate is reported in `exceptions`, once."""


def log_doubt(node: str, files: TlsFiles) -> None:
    """Log why a peer would not accept this node's certificate, if there is a reason here. Raises Misuse when it does not read."""
    if reason := doubt(files, datetime.now(UTC)):
        logger.warning("nobody will believe who '%s' is: %s", node, reason)


async def keep_certificate(
    name: str, kind: str, shown: Shown, report: Callable[..., None], renewed: Callable[[], None] = lambda: None
) -> None:
    """Show the certificate in the files at the door of `name`, checked every LOOK_EVERY_S, until cancelled. When it is another certificate,
    call `renewed`, which may raise Misuse. A certificate that does not load is logged once, and the last valid one is still shown. `kind`:
    the name used in `exceptions`.
    """
    reported_problem, reported_until = "", None
    while True:
        try:
            if shown.renew():
                logger.info("%s shows another certificate from now on: %s was renewed", name, shown.certificate)
                renewed()
            until, reported_problem = describe(shown.certificate.read_bytes()).until, ""
            if until != reported_until and until - datetime.now(UTC) < SOON:
                reported_until = until
                until_text = f"{until:%Y-%m-%d %H:%M}Z"
                details = {"certificate": str(shown.certificate), "until": until_text}
                report(f"{kind}'s certificate expires soon", "renew it", code="certificate_expires", **details)
        except (Misuse, OSError) as problem:
            if str(problem) != reported_problem:
                logger.warning("the certificate of %s is not renewed: %s", name, problem)
            reported_problem = str(problem)
        await asyncio.sleep(LOOK_EVERY_S)
