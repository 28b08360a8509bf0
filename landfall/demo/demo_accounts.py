"""The demo's people: who can log in, as whom, with passwords a person can type."""

from __future__ import annotations

from hq.api.accounts import Account, Accounts
from landfall.demo.demo_secrets import SECRETS, Secrets
from landfall.demo.fleet_settings import PASSWORD, SHIP_NODES, Fleet, accounts_file
from sim.companies import DUCKWORKS, KANTO, MERLION, SOUTHERN

PEOPLE: tuple[tuple[Account, str], ...] = (
    (Account("operations", "operations", "Fleet operations, Los Angeles"), PASSWORD),
    *((Account(one.id, "customer", one.name, customer=one.id), PASSWORD) for one in (DUCKWORKS, KANTO, MERLION, SOUTHERN)),
    *((Account(node, "crew", f"Crew of {ship.name}", ship=ship.imo), PASSWORD) for node, ship in SHIP_NODES.items()),
)
"""Accounts and their passwords: of a demo on this machine only."""


def add_accounts(fleet: Fleet) -> None:
    """Make the demo's accounts, the clerk's among them with a secret password, where they are missing."""
    accounts = Accounts(accounts_file(fleet))
    kept = Secrets(fleet.folder / SECRETS)
    for account, password in (*PEOPLE, (Account("clerk", "clerk", "Booking clerk"), kept.of("clerk's password"))):
        if accounts.get(account.username) is None:
            accounts.add(account, password)
    kept.keep()
