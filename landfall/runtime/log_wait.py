"""The opening of headquarters' log for reading, by a process that may have started before the node that makes the log."""

from __future__ import annotations

import logging
import time
from pathlib import Path

from cargo.alerts.alert_authorization import JUDGES
from landfall.storage.log_kinds import AnyReader, open_reader
from landfall.storage.peers_file import PEERS, KnownPeers
from streams.codec import BlockCodec
from streams.integrity.record_authorization import Entitled
from streams.model.errors import RetryLater

THERE_WITHIN_S = 60.0
LOOK_EVERY_S = 0.1

log = logging.getLogger(__name__)


def judged_reader(folder: Path) -> AnyReader:
    """Return a reader of the log in `folder` that leaves out records which their writer may not write. Raises FileNotFoundError where there
    is no log.
    """
    reader = open_reader(folder, BlockCodec(), entitled=Entitled(KnownPeers(folder).peer, JUDGES))
    if not (folder / PEERS).exists():
        log.warning("%s is missing: records of all writers are shown, until the log's node has started once", folder / PEERS)
    return reader


def opened_log(folder: Path, within_s: float = THERE_WITHIN_S) -> AnyReader:
    """Return a reader of the log in `folder`. Wait for the log, and report the wait. Raises RetryLater when there is no log within
    `within_s`.
    """
    deadline_s, said = time.monotonic() + within_s, False
    while True:
        try:
            return judged_reader(folder)
        except FileNotFoundError:
            if time.monotonic() > deadline_s:
                raise RetryLater(
                    f"there is no log in {folder}", hint="start headquarters' node first, or fix the setting", code="log_missing"
                ) from None
        if not said:
            log.warning("there is no log in %s yet: waiting for headquarters' node, %.0f s at most", folder, within_s)
            said = True
        time.sleep(LOOK_EVERY_S)
