"""This node's certificate, looked after while it runs: another in its place is shown from then on; it is told of before it expires."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from streams.errors import Misuse
from streams.link.certificates import describe, doubt
from streams.link.tls import Shown, TlsFiles

told = logging.getLogger("landfall.node")

LOOK_EVERY_S = 10.0
SOON = timedelta(days=14)
"""A certificate that counts no longer than this is told of in `exceptions`, once."""


def tell_doubt(node: str, files: TlsFiles) -> None:
    """In the log, why a peer would not take this node's certificate, if there is a reason here. Raises Misuse when it does not read."""
    if reason := doubt(files, datetime.now(UTC)):
        told.warning("nobody will believe who '%s' is: %s", node, reason)


async def keep_certificate(node: str, shown: Shown, files: TlsFiles, report: Callable[..., None]) -> None:
    """Every LOOK_EVERY_S, until cancelled: what is in the files is shown at the door. What does not load is told in the log, once, and the
    last that did is shown on.
    """
    problem_told, until_told = "", None
    while True:
        try:
            if shown.renew():
                told.info("'%s' shows another certificate from now on: %s was renewed", node, files.certificate)
                tell_doubt(node, files)
            until, problem_told = describe(files.certificate.read_bytes()).until, ""
            if until != until_told and until - datetime.now(UTC) < SOON:
                until_told = until
                told_until = f"{until:%Y-%m-%d %H:%M}Z"
                report("this node's certificate expires soon", "renew it", certificate=str(files.certificate), until=told_until)
        except (Misuse, OSError) as problem:
            if str(problem) != problem_told:
                told.warning("the certificate of '%s' is not renewed: %s", node, problem)
            problem_told = str(problem)
        await asyncio.sleep(LOOK_EVERY_S)
