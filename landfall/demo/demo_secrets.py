"""The secrets of one demo: tokens and passwords that its processes show each other."""

from __future__ import annotations

import json
import secrets
from pathlib import Path

import msgspec

from landfall.access.credentials import TOKEN_BYTES
from landfall.system.private_files import read_private, write_private
from streams.model.errors import Corrupt

SECRETS = "secrets.json"
"""Their file, in the demo's folder."""
CONTROL = "the clock's control"


class Secrets:
    """Tokens and passwords of one demo, made once and kept in a file only its owner reads."""

    def __init__(self, path: Path, *, fresh: bool = False) -> None:
        """Read the secrets at `path`, if there are any and not `fresh`.

        Raises Corrupt when the file holds no secrets: empty, or no JSON of them; Misuse when others than its owner may read it.
        """
        self._path = path
        self._known: dict[str, str] = {}
        if not fresh and path.exists():
            try:
                self._known = msgspec.json.decode(read_private(path), type=dict[str, str])
            except msgspec.DecodeError as problem:
                raise Corrupt(f"{path} holds no secrets: {problem}", hint="start again with --fresh", code="secrets_unreadable") from None

    def of(self, name: str) -> str:
        """Return the secret of this name, made on first use."""
        if name not in self._known:
            self._known[name] = secrets.token_urlsafe(TOKEN_BYTES)
        return self._known[name]

    def keep(self) -> None:
        """Write the secrets durably: after a power cut the file holds these or the earlier ones."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        write_private(self._path, json.dumps(self._known, indent=1).encode())
