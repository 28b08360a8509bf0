"""`landfall keys`: the keys that a node believes because a person accepts them on the spot."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from landfall.cli.terminal_encoding import say
from landfall.node.peers.trust_on_first_use import accept_key
from streams.integrity.signing_keys import key_from_text

keys_app = typer.Typer(help="Whose signing key a node believes, besides its settings and the registry.", no_args_is_help=True)


@keys_app.command("accept")
def accept(
    node: Annotated[str, typer.Argument(metavar="NODE", help="Name of the node that signs with the key.")],
    key: Annotated[str, typer.Argument(metavar="KEY", help="The key as `landfall proof key` shows it at that node: ed25519:…")],
    folder: Annotated[Path, typer.Option("--folder", "-f", help="Folder of the node that is to accept it: `folder` in its settings.")],
) -> None:
    """Accept signatures of NODE with KEY at the node in FOLDER, in addition to its known keys. Effective within 5 s."""
    accept_key(folder, node, key_from_text(key))
    say(f"{node} is known by {key} too")
