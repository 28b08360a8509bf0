"""The fleet of `docker-compose.yml`, started as anybody would, looked at from outside, and ended; says what holds, or what does not.

`python3 -m deploy.containers [--engine podman-compose]` needs Python and a compose, and the ports 8780, 8501 and 9092 of this machine.
What it starts is a project of its own, whose volumes are gone in the end. 0 when all held; 1 with what did not.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from deploy.containers.compose import Compose, Unwell, health_checks
from deploy.containers.fleetapi import FleetApi, pages_answer
from deploy.setup.setup_progress import Progress

SMALL = {"BOXES": "60", "SPEED": "3000"}
"""Number of boxes and speed of the fleet, unless the environment sets others."""
HEALTHY_S_MAX, ALERT_S_MAX, READ_S_MAX = 900.0, 1800.0, 300.0
LOOK_EVERY_S = 2.0
OPERATIONS = "operations"
OFF_SYDNEY = "C"
"""Chapter in which boxes go overboard, and alerts are raised."""
SHARED = ("alerts", "events", "containers", "ships")
Heard = list[dict[str, Any]]


@dataclass(frozen=True)
class Readers:
    """Readers of headquarters' Kafka, from the fan-out's settings: its brokers, and each reader's password."""

    brokers: str
    passwords: dict[str, str]

    @property
    def customers(self) -> list[str]:
        """Customers among the readers: all readers but the fleet's own."""
        return sorted(self.passwords.keys() - {OPERATIONS})

    def topics(self) -> list[str]:
        """Return every Kafka topic there is to read."""
        return [f"landfall.{name}" for name in (*SHARED, *(f"customers.{name}" for name in self.customers))]


def main() -> int:
    """Start the fleet, check it, stop it; return 0 when all checks held, else 1."""
    parser = argparse.ArgumentParser(prog="python3 -m deploy.containers", description=__doc__)
    parser.add_argument("--engine", help="the compose to use: docker compose, podman-compose")
    try:
        look(Compose(parser.parse_args().engine))
    except Unwell as problem:
        print(f"\n✗ {problem}", file=sys.stderr)
        return 1
    return 0


def look(compose: Compose) -> None:
    """Start the fleet, run all checks, and stop it. Raises Unwell; the fleet is stopped either way."""
    os.environ.update({name: os.environ.get(name, usual) for name, usual in SMALL.items()})
    compose.show("build")
    try:
        compose.show("up", "--detach")
        until("every service is healthy", HEALTHY_S_MAX, lambda: unhealthy(compose))
        until("the map has both ships on it, and the pages are served", HEALTHY_S_MAX, map_lacks)
        readers = fanout_readers(compose)
        FleetApi(OPERATIONS).post("clock", {"action": "jump", "chapter": OFF_SYDNEY})
        until("an alert of the fleet's is plain JSON in landfall.alerts", ALERT_S_MAX, lambda: alerts_lack(compose, readers))
        for customer in readers.customers:
            until(f"{customer} reads its own boxes and nothing else", READ_S_MAX, lambda: customer_lacks(compose, readers, customer))  # noqa: B023
        progress = Progress("every process ends by itself when it is asked to")
        compose.show("stop")
        if bad := {service: code for service, code in compose.exit_codes().items() if code}:
            raise Unwell(f"ended with {bad}: {compose.logs(next(iter(bad)))}")
        progress.done()
    finally:
        compose.show("down", "--volumes")


def until(what: str, within_s: float, lacks: Callable[[], str]) -> None:
    """Wait until `lacks` names nothing more. Raises Unwell with what it still names in the end."""
    progress, deadline_s = Progress(what), time.monotonic() + within_s
    while True:
        try:
            missing = lacks()
        except OSError as problem:
            missing = str(problem)
        if not missing:
            progress.done()
            return
        if time.monotonic() > deadline_s:
            raise Unwell(f"not within {within_s:.0f} s: {what}: {missing}")
        progress.show(f"waits: {missing}")
        time.sleep(LOOK_EVERY_S)


def unhealthy(compose: Compose) -> str:
    """Return the services whose health check does not pass."""
    return ", ".join(service for service in health_checks() if not compose.is_healthy(service))


def map_lacks() -> str:
    """Return what is missing for an operator who opens the map; empty when nothing is."""
    ships = FleetApi(OPERATIONS).get("map")["ships"]
    unseen = [ship["name"] for ship in ships if ship["position"] is None]
    if len(ships) < 2 or unseen:
        return f"{len(ships)} ships, without a position: {unseen}"
    return "" if pages_answer() else "the pages"


def fanout_readers(compose: Compose) -> Readers:
    """Return the readers as the fan-out knows them."""
    fanout = tomllib.loads(compose.inside("fanout", "cat", "/fleet/settings/fanout/fanout.toml"))
    return Readers(fanout["kafka"]["brokers"], {reader["username"]: reader["password"] for reader in fanout["readers"]})


def read(compose: Compose, readers: Readers, username: str) -> Heard:
    """Return all that a stock consumer with this login, subscribed to every Kafka topic, receives, including refusals."""
    command = ("python", "-m", "deploy.containers.reader", readers.brokers, username, *readers.topics())
    return [json.loads(line) for line in compose.inside("fanout", *command, stdin=readers.passwords[username] + "\n").splitlines()]


def alerts_lack(compose: Compose, readers: Readers) -> str:
    """Return what is missing of the alerts in Kafka. Raises Unwell when operations is refused anything."""
    known = {alert["alert_id"] for alert in FleetApi(OPERATIONS).items("alerts")}
    if not known:
        clock = FleetApi(OPERATIONS).get("clock")["clock"]
        return f"no alert yet; the fleet's time is {time.strftime('%F %H:%M', time.gmtime(clock['now_at_ms'] / 1000))}"
    heard = read(compose, readers, OPERATIONS)
    if refused := [one for one in heard if "error" in one]:
        raise Unwell(f"operations may not read {refused}")
    found = {one["value"]["body"]["alert_id"] for one in heard if one["topic"] == "landfall.alerts"}
    return "" if found & known else f"{len(known)} alerts are known, {len(found)} are in landfall.alerts"


def customer_lacks(compose: Compose, readers: Readers, customer: str) -> str:
    """Return what is missing for a customer: its own records, or refusals of the records of others.

    Raises Unwell when it receives anything that it must not.
    """
    own = f"landfall.customers.{customer}"
    boxes = {item["number"] for item in FleetApi(customer).items("containers")}
    heard = read(compose, readers, customer)
    refused = {one["topic"] for one in heard if "error" in one}
    messages = [one for one in heard if "error" not in one]
    foreign = {(one["topic"], one["key"]) for one in messages if one["topic"] != own or one["key"] not in boxes}
    if foreign:
        raise Unwell(f"{customer} hears {sorted(foreign)[:5]}")
    if own in refused or not messages:
        return f"{len(messages)} messages in {own}, and {len(boxes)} boxes"
    not_refused = set(readers.topics()) - refused - {own}
    return f"not refused, and not given either: {sorted(not_refused)}" if not_refused else ""


if __name__ == "__main__":
    sys.exit(main())
