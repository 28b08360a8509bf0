"""The settings of the demo's first ship as an example, for who has none."""

from __future__ import annotations

from pathlib import Path

import tomli_w

from landfall.demo.demo_secrets import SECRETS, Secrets
from landfall.demo.fleet_settings import SHIP_NODES, Fleet, ship_settings
from landfall.system.private_files import write_private

RATES_BIT_S = {"satellite": 128_000, "port": 8_000_000}
"""Rates of the example's links; the demo itself does not limit its links."""


def write_example_ship(folder: Path) -> Path:
    """Write the settings of that ship, with secrets made for it alone and rates of links, to a file of `folder`; return the file."""
    fleet = Fleet(folder)
    table = ship_settings(fleet, Secrets(folder / SECRETS, fresh=True), next(iter(SHIP_NODES)))
    links = table["node"].setdefault("links", {})
    for link, rate_bit_s in RATES_BIT_S.items():
        links.setdefault(link, {}).setdefault("rate_bit_s", rate_bit_s)
    file = folder / "ship.toml"
    write_private(file, tomli_w.dumps(table).encode())
    return file
