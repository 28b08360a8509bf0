"""Credentials of nodes that benchmarks and tests start."""

from __future__ import annotations

from pathlib import Path

from streams.access import CREW, VERBS
from streams.credentials import CredentialFile

ALL = "user:anybody"
PASSWORD = "the sea is cold"
_CHEAP = "$argon2id$v=19$m=8,t=1,p=1$S30/jFwAy7UhoNjH1GHWtA$j+0I+hUphCuwHMvyS5xAF2bk+aSzdGD7vz7Yh/4EbPM"
"""Of PASSWORD, in a hundredth of the time that a real one takes."""


def allow_all(folder: Path, token: str) -> str:
    """Who shows `token` may do everything at the door of the node in `folder`. Returns the token."""
    return CredentialFile(folder).give_token(ALL, dict.fromkeys(VERBS, ("*",)), token)


def allow_crew(folder: Path, user: str, title: str) -> None:
    """The person `title` may log in as `user` at the console of the ship's node in `folder`, with PASSWORD."""
    CredentialFile(folder).give_password(f"user:{user}", CREW, title, _CHEAP)
