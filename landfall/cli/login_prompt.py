"""The login of a person from the command line: a password that no command line shows."""

from __future__ import annotations

import base64
import sys
from pathlib import Path
from typing import Annotated

import typer

from landfall.system.text_files import ENCODING
from streams.model.errors import Misuse

User = Annotated[str, typer.Option("--user", help="Your user name at this node. Your name and rank are recorded.")]
PasswordFile = Annotated[
    Path | None, typer.Option("--password-file", help="File whose first line is your password.", show_default="asked for")
]


def read_password(file: Path | None, *, twice: bool = False) -> str:
    """Return the first line of `file`. Without a file, ask for it (`twice`: and once more), or read it from standard input where that is no
    terminal.

    Raises Misuse for a file that can not be read, and for an empty password.
    """
    if file is not None:
        try:
            password = file.read_text(ENCODING).partition("\n")[0]
        except (OSError, UnicodeDecodeError) as problem:
            raise Misuse(
                f"{file} can not be read: {problem}", hint="name a file with the password in its first line", code="file_unavailable"
            ) from problem
    elif sys.stdin.isatty():
        password = typer.prompt("Password", hide_input=True, confirmation_prompt=twice)
    else:
        password = sys.stdin.readline().removeprefix("\ufeff")
    if not (password := password.rstrip("\r\n")):
        raise Misuse("there is no password", hint="type it, or give it by --password-file or on standard input", code="password_missing")
    return password


def basic(user: str, password: str) -> str:
    """Return the `Authorization` header of this person."""
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
