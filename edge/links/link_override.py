"""The link that the crew wishes for, kept over the end of the node: who asked for silence has it after a power cut too."""

from __future__ import annotations

import logging
from collections.abc import Collection
from pathlib import Path

from landfall.system.replaced_files import replace_file

FILE_NAME = "link.wish"
_log = logging.getLogger(__name__)


class Wished:
    """The crew's word in a file of the node's folder."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / FILE_NAME

    def read(self, known: Collection[str], otherwise: str) -> str:
        """What was kept last, if it is one of `known`; else `otherwise`, and the log says what it was."""
        try:
            wish = self._file.read_text("utf-8", "replace").strip()
        except FileNotFoundError:
            return otherwise
        if wish not in known:
            _log.warning("%s asks for the link %r, which is none of %s: it is %r now", self._file, wish[:40], sorted(known), otherwise)
            return otherwise
        return wish

    def keep(self, wish: str) -> None:
        """Durable when it returns, or the log says that it is not: on a full disk the wish holds until the node ends."""
        try:
            replace_file(self._file, f"{wish}\n".encode())
        except OSError as problem:
            _log.warning("the link is %r until the node ends, for %s can not be written: %s", wish, self._file, problem)
