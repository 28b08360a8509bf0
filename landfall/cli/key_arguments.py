"""Public keys as a person gives them with `--key`: NODE=ed25519:…, ed25519:… alone, or a file of such lines."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Annotated

import typer

from landfall.system.text_files import ENCODING
from streams.integrity.key_trust import GIVEN, Trust
from streams.integrity.signing_keys import key_from_text
from streams.model.errors import Misuse

FILE_BYTES_MAX = 1 << 20
SHOWN_CHARS = 80

Keys = Annotated[
    list[str] | None,
    typer.Option("--key", "-k", help="A node's public key: NODE=ed25519:…, or ed25519:… alone, or a file of such lines. May be repeated."),
]


def given_trust(keys: Sequence[str], nodes: Collection[str]) -> Trust:
    """Return the keys that a person gives. A key without a node's name counts for each of `nodes`. Raises Misuse for an invalid key."""
    found: dict[str, set[bytes]] = {}
    for key in keys:
        for node, public in _read(key):
            for one in nodes if node is None else [node]:
                found.setdefault(one, set()).add(public)
    return Trust({node: frozenset(public) for node, public in found.items()}, GIVEN)


def trust_among(keys: Sequence[str], nodes: Collection[str]) -> Trust:
    """Return the keys that a person gives where only those of `nodes` count: none is given for nothing.

    Raises Misuse for an invalid key, a `--key` of none of `nodes`, and one that does not say to which of several nodes it belongs.
    """
    for key in keys:
        named = {node for node, _ in _read(key)}
        here = ", ".join(sorted(nodes)) or "nobody"
        if None in named and len(nodes) > 1:
            raise Misuse(
                f"the key {_short(key)} does not say whose it is",
                hint=f"write it NODE=ed25519:…: asked for are keys of {here}",
                code="key_without_node",
            )
        if None not in named and not named.intersection(nodes):
            raise Misuse(
                f"the key {_short(key)} is of no node that counts here",
                hint=f"asked for are keys of {here}; fix the node's name",
                code="key_of_another",
            )
    return given_trust(keys, nodes)


def _read(key: str) -> list[tuple[str | None, bytes]]:
    """Return each key in one `--key`, with the node that it is given for."""
    keys = []
    for line in _lines(key):
        if entry := line.partition("#")[0].strip():
            node, named, text = entry.rpartition("=")
            try:
                keys.append((node.strip() if named else None, key_from_text(text)))
            except Misuse as problem:
                where = "" if line is key else f", of the file {key},"
                raise Misuse(
                    f"{_short(entry)}{where} is no public key, nor a file with some", hint=problem.hint, code="public_key_invalid"
                ) from None
    if not keys:
        raise Misuse(f"no public key is in {_short(key)}", hint="give one as `landfall proof key` shows it", code="public_key_missing")
    return keys


def _lines(key: str) -> list[str]:
    try:
        path = Path(key)
        if not path.is_file():
            return [key]
        with path.open("rb") as file:
            return file.read(FILE_BYTES_MAX).decode(ENCODING).splitlines()
    except UnicodeDecodeError:
        raise Misuse(
            f"{key} is no text: no file of public keys",
            hint="name the file that `landfall proof key` was written to",
            code="key_file_no_text",
        ) from None
    except (OSError, ValueError):
        return [key]  # too long, or otherwise no name of a file: perhaps a key


def _short(text: str) -> str:
    return repr(text if len(text) <= SHOWN_CHARS else text[:SHOWN_CHARS] + "…")
