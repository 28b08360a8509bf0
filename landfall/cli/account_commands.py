"""`landfall account`: the accounts that may log in at headquarters' API and pages, in their own file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from hq.api.accounts import Account, Accounts, Role
from landfall.cli.login_prompt import PasswordFile, read_password
from landfall.cli.terminal_encoding import say
from streams.model.errors import Misuse

account_app = typer.Typer(help="Who may log in at headquarters' API and pages.", no_args_is_help=True)

File = Annotated[Path, typer.Option("--file", "-f", help="The accounts' file: `accounts` of the API's settings.")]
Username = Annotated[str, typer.Argument(help="Name for the login.")]


@account_app.command("add")
def add(
    username: Username,
    file: File,
    role: Annotated[Role, typer.Option("--role", help="Role: what the account may see and do, see docs/guide/pages.md.")],
    name: Annotated[str, typer.Option("--name", help="The person's or company's name, as pages show it.", show_default="as username")] = "",
    customer: Annotated[
        str | None, typer.Option("--customer", help="Id of the customer whose containers the account sees, as in bookings.")
    ] = None,
    ship: Annotated[str | None, typer.Option("--ship", help="IMO number of the ship of a crew's account.")] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace the account of this name.")] = False,
    password_file: PasswordFile = None,
) -> None:
    """Add an account. The password is asked for twice on a terminal; otherwise it is the first line of --password-file or of
    standard input.
    """
    account = Account(username, role, name or username, customer, ship)
    accounts = Accounts(file)
    if accounts.get(username) is not None and not replace:
        raise Misuse(
            f"there is an account {username!r} already", hint="--replace gives it another role and password", code="account_exists"
        )
    accounts.add(account, read_password(password_file, twice=True))
    say(f"{username} may log in, as {_whose(account)}")


@account_app.command("ls")
def list_accounts(file: File) -> None:
    """List all accounts with role, customer and ship."""
    table = Table("username", "role", "for", "name", box=None, header_style="bold")
    for account in _existing(file).all():
        table.add_row(account.username, account.role, account.customer or account.ship or "", account.name)
    Console().print(table)


@account_app.command("remove")
def remove(username: Username, file: File) -> None:
    """Remove an account and end its sessions."""
    if not _existing(file).remove(username):
        raise Misuse(f"there is no account {username!r}", hint="`landfall account ls` shows all", code="account_unknown")
    say(f"{username} is removed")


def _existing(file: Path) -> Accounts:
    """Return the accounts of an existing file. Raises Misuse where there is none."""
    if not file.is_file():
        raise Misuse(
            f"{file}: there is no such file",
            hint="name `accounts` of the API's settings; `landfall account add` makes it",
            code="file_missing",
        )
    return Accounts(file)


def _whose(account: Account) -> str:
    return f"{account.role} of {of}" if (of := account.customer or account.ship) else account.role
