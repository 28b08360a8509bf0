"""Credentials of nodes that benchmarks and tests start."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from landfall.access.credentials import Credential, CredentialFile, token_sha256
from landfall.access.principals import CREW, GATEWAY, VERBS

PASSWORD = "the sea is cold"
_CHEAP = "$argon2id$v=19$m=8,t=1,p=1$S30/jFwAy7UhoNjH1GHWtA$j+0I+hUphCuwHMvyS5xAF2bk+aSzdGD7vz7Yh/4EbPM"
"""Of PASSWORD, in a hundredth of the time that a real one takes."""


def allow_all(folder: Path, token: str, peers: Mapping[str, str] = MappingProxyType({})) -> str:
    """Who shows `token` may do everything at the door of the node in `folder`; each of `peers`, by name, may come with its token. Returns
    the token."""
    everything = Credential.of_token(f"user:anybody-{token_sha256(token)[:8]}", dict.fromkeys(VERBS, ("*",)), token)
    CredentialFile(folder).put(everything, *(_peer(name, its) for name, its in peers.items()))
    return token


def allow_peers(folder: Path, peers: Mapping[str, str]) -> None:
    """Each of `peers`, by name, may come to the node in `folder` with its token."""
    CredentialFile(folder).put(*(_peer(name, token) for name, token in peers.items()))


def allow_gateway(folder: Path, username: str, token: str, *filters: str) -> None:
    """Who logs in over MQTT as `username` with `token`, at the node in `folder`, may publish where these topic filters say."""
    CredentialFile(folder).give_token(f"{GATEWAY}{username}", {"produce": filters}, token)


def _peer(node: str, token: str) -> Credential:
    return Credential.of_token(f"node:{node}", {"replicate": ("*",)}, token)


def allow_crew(folder: Path, user: str, title: str) -> None:
    """The person `title` may log in as `user` at the console of the ship's node in `folder`, with PASSWORD."""
    CredentialFile(folder).give_password(f"user:{user}", CREW, title, _CHEAP)
