"""Who may do what on which streams: principals, the verbs that their credentials allow, and the one function that decides."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from landfall.access.mqtt_filters import matches
from streams.config.roles import carries
from streams.model.errors import Misuse

Verb = Literal["produce", "consume", "replicate", "admin"]
"""Append records; read them; have and bring them in a session between nodes; admit blocks by hand and declare offsets lost."""
VERBS: tuple[Verb, ...] = ("produce", "consume", "replicate", "admin")
KINDS = ("user", "role", "node", "ship", "port", "customer", "gateway")
_NAME = re.compile(rf"({'|'.join(KINDS)}):[A-Za-z0-9][A-Za-z0-9._@-]{{0,99}}", re.ASCII)

Allowed = Mapping[Verb, tuple[str, ...]]
"""For each verb the streams it is allowed on, by pattern; a verb that is missing is allowed on none."""
GATEWAY = "gateway:"
"""Prefix of the principals that publish over MQTT, by their name and token; what they may `produce` are MQTT topic filters."""


CREW: Allowed = {
    "produce": ("alerts", "decisions", "reports"),
    "consume": ("alerts", "decisions", "events", "metrics", "reports"),
}
"""Rights that the console needs: the streams that a crew may write, and those that it may read."""


@dataclass(frozen=True, slots=True)
class Principal:
    """Identity behind a request. `name`: its kind and its name there, as `user:projector`. `allowed`: what its credential lets it do.

    `title`: a person's name and rank, as recorded with what the person does; empty for programs. `secret_hash`: the hash of the secret it
    showed: a principal with a new secret is no longer equal to the one that showed the old one.
    """

    name: str
    allowed: Allowed
    title: str = ""
    secret_hash: str = field(default="", repr=False)

    @property
    def is_person(self) -> bool:
        """Whether a person has logged in."""
        return bool(self.title)


def check_principal(name: str) -> str:
    """Return `name`. Raises Misuse for one that is no principal's: a kind, a colon, and 1 to 100 letters, digits, `.`, `_`, `@` and `-`."""
    if not _NAME.fullmatch(name):
        raise Misuse(
            f"{name[:120]!r} names no principal",
            hint=f"write one of {', '.join(KINDS)}, a colon and a name: user:projector",
            code="principal_invalid",
        )
    return name


def may(principal: Principal, verb: Verb, stream: str | None) -> bool:
    """Return whether `principal` may do `verb` on `stream` (None: on any stream). Every door calls this; the default is no.

    `stream` is an MQTT topic where `principal` is a gateway. Otherwise a principal with a right on a stream has it on streams derived
    from it (`.heads`).
    """
    allowed = principal.allowed.get(verb, ())
    if stream is None:
        return bool(allowed)
    if principal.name.startswith(GATEWAY):
        return any(matches(one, stream) for one in allowed)
    return carries(allowed, stream)
