"""The common part of `landfall ship status` and `landfall port status`: sensors and the outcome of their messages, other nodes, links."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from intake.message_types import Outcome
from landfall.access.credentials import operator_token
from landfall.cli.node_requests import NodeAddress
from landfall.cli.number_format import utc
from landfall.process_table import settings_of
from landfall.system.listen_address import url_here
from streams.link_budget.daily_budget import BYTES_A_MB

TIMEOUT_S = 10.0
KEYS = ("node", "link", "companions", "kept_here", "intake", "troubles")
"""Keys that the status of a ship and of a port has at least."""
StatusFields = Mapping[str, Any]


def node_of(word: str, config: Path | None, hint: str, login: str | None = None) -> NodeAddress:
    """Return the door of the node that `landfall <word>` runs by these settings; `hint`: what to do when it refuses.

    `login`: the `Authorization` header of a person; without one the request is made as the node's own user on this machine. Raises
    RetryLater where the node does not run.
    """
    settings: Any = settings_of(word, config)
    node = settings.node
    shown = login or f"Bearer {operator_token(node.folder)}"
    url = url_here(node.host, node.port)
    return NodeAddress(f"'{node.node}'", url, start_it=f"start it with `landfall {word}`", refused=hint, timeout_s=TIMEOUT_S, shown=shown)


def show(fields: StatusFields, as_json: bool, lines: Callable[[StatusFields], Iterable[str]], tables: Iterable[Table]) -> None:
    """Print what `lines` makes of it and the tables that have rows for people, or all of it as one line of JSON for programs."""
    if as_json:
        sys.stdout.write(json.dumps(fields, ensure_ascii=False) + "\n")
        return
    console = Console(highlight=False, soft_wrap=True)
    for line in lines(fields):
        console.print(line, markup=False)
    for table in tables:
        if table.row_count:
            console.print(table)


def sensors(intake: StatusFields) -> Iterator[str]:
    """Yield the ways by which messages come in, and their outcome since the node was started; and if no sensor is answered, why."""
    port, broker = intake["mqtt_port"], intake["broker_connected"]
    ways = [] if port is None else [f"MQTT on port {port} ({intake['mqtt_clients']:,} connected)"]
    ways += [] if broker is None else [f"at a broker that is {'' if broker else 'not '}connected"]
    counted = {outcome.name.lower(): intake.get(outcome.name.lower(), 0) for outcome in Outcome} | {"waiting": intake.get("waiting", 0)}
    became = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in counted.items() if count)
    came = f"{intake.get('received', 0):,} came in since the start" + (f": {became}" if became else "")
    yield f"sensors: {' and '.join(ways) or 'no way in'}; {came}"
    yield from (f"  {trouble}" for trouble in intake["troubles"])


def others(fields: StatusFields, whose: str) -> Iterator[str]:
    """Yield, for the other nodes of this ship or port, if it has any, which is in session, and what it lacks of what is here."""
    peers, words = fields["link"]["peers"], []
    for name in fields["companions"]:
        words.append(f"{name} in session, {_lacks(peers[name]):,} records still to send" if name in peers else f"{name} not in session")
    if words:
        yield f"other nodes of this {whose}: {'; '.join(words)}"


def kept_here(fields: StatusFields, where: str) -> Iterator[str]:
    """Yield the streams that no other node has, because this node may not write them."""
    if fields["kept_here"]:
        yield f"kept {where} alone, because headquarters lets others write it: {', '.join(fields['kept_here'])}"


def troubles(fields: StatusFields) -> Iterator[str]:
    """Yield what is wrong at the node and needs a person."""
    yield from (f"! {trouble}" for trouble in fields["troubles"])


def spent(link: StatusFields) -> Iterator[str]:
    """Yield what was spent of each budget of a class of link, what passed each class, and what it cost."""
    for name, budget in link["budgets"].items():
        open_for = {"open": "open", "alerts": "for alerts alone until midnight UTC", "overdrawn": "overdrawn by alerts"}[budget["state"]]
        allowed = budget["bytes_per_day"] + budget["granted_bytes"]
        yield (
            f"budget of the {name} link, {budget['day']} UTC: {budget['spent_bytes']:,} of {allowed:,} bytes, "
            f"{budget['reserve_bytes']:,} of them for alerts; cost {budget['cost']:,.2f}; {open_for}"
        )
        if unsure := budget["unsure_bytes"]:
            yield (
                f"  of what is spent, {unsure:,} bytes (cost {unsure / BYTES_A_MB * budget['price_per_mb']:,.2f}) "
                "were leased ahead as the node ended: "
                "they count, so that no byte is spent twice, and may not have passed"
            )
    for name, passed in link["traffic"].items():
        cost = "no price is set" if passed["cost"] is None else f"cost {passed['cost']:,.2f}"
        since = utc(passed["since_wall_at_ms"])
        yield f"passed the {name} link since {since}: {passed['sent_bytes']:,} bytes out, {passed['received_bytes']:,} in; {cost}"


def sessions(link: StatusFields) -> Table:
    """Return a table with a row for each peer in session: what passed, and what it still lacks of what is for it."""
    table = Table("link to", "class", "sent bytes", "received bytes", "sent records", "still to send", box=None, header_style="bold")
    for name, peer in link["peers"].items():
        counts = (peer["sent_bytes"], peer["received_bytes"], peer["sent_records"], _lacks(peer))
        table.add_row(name, peer["link"], *(f"{count:,}" for count in counts))
    return table


def _lacks(peer: StatusFields) -> int:
    """Return how many records for a peer are not known to be on its disk: those not yet sent, and those it has not acknowledged."""
    return int(peer["backlog_records"]) + int(peer["unacknowledged_records"])
