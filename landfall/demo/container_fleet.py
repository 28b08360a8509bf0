"""The demo's fleet in containers: one process a container, a Mosquitto as one ship's broker, and a Kafka at headquarters.

`docker-compose.yml` says which container runs what; names, ports and files here and there are the same, and a test holds them together.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from pathlib import Path

import tomli_w

from intake.topic_routes import SUBSCRIPTIONS
from landfall.demo.demo_accounts import add_accounts
from landfall.demo.demo_secrets import SECRETS, Secrets
from landfall.demo.fleet_settings import (
    GATEWAY_USER,
    HQ,
    QUAYS,
    SHIP_NODES,
    Fleet,
    PlayedStory,
    Table,
    gateways_may_publish,
    report_settings,
    settings_tables,
    write_credentials,
)
from landfall.system.private_files import write_private
from sim.companies import DUCKWORKS, KANTO, MERLION, SOUTHERN

PROCESSES = ("sim", HQ, *QUAYS, *SHIP_NODES, "analytics", "projector", "api", "dashboards", "fanout", "kafka", "mosquitto")
SHIP_WITH_BROKER = "albatross"
MOSQUITTO = "mosquitto:1883"
KAFKA_INSIDE, KAFKA_OUTSIDE = 9095, 9092
"""Kafka's door for the other containers, and the one for this machine's clients."""
FANOUT_HEALTH, KAFKA_HEALTH = 8783, 8784
KAFKA_SUPER_USER = "landfall"
READER_PASSWORD = "landfall-demo"
"""Password of every Kafka reader: of a demo on this machine only."""
PASSWORD_ROUNDS, SALT_BYTES = 101, 12


def write_containers(folder: Path, story: PlayedStory) -> None:
    """Write all settings, secrets and accounts below `folder`, as the containers see it. Written again they change nothing.

    Each process's settings are in a folder of their own, the only one that its container mounts.
    """
    fleet = Fleet(folder, story, hosts={name: name for name in PROCESSES}, listen="0.0.0.0", brokers={SHIP_WITH_BROKER: MOSQUITTO})
    kept = Secrets(folder / SECRETS)
    tables = settings_tables(fleet, kept) | {"kafka": kafka_settings(fleet, kept), "fanout": fanout_settings(fleet, kept)}
    write_credentials(fleet, kept)
    write_mosquitto(fleet, kept)
    kept.keep()
    add_accounts(fleet)
    for name, table in tables.items():
        file = fleet.settings_folder / name / f"{name}.toml"
        file.parent.mkdir(parents=True, exist_ok=True)
        write_private(file, tomli_w.dumps(table).encode())


def kafka_settings(fleet: Fleet, kept: Secrets) -> Table:
    """Return the settings of headquarters' Kafka: one door for the other containers, one for clients on this machine."""
    inside = {"host": fleet.listen, "port": KAFKA_INSIDE, "advertised": f"{fleet.host('kafka')}:{KAFKA_INSIDE}"}
    outside = {"host": fleet.listen, "port": KAFKA_OUTSIDE, "advertised": f"localhost:{KAFKA_OUTSIDE}"}
    return {
        "folder": str(fleet.folder / "kafka"),
        "username": KAFKA_SUPER_USER,
        "password": kept.of("kafka"),
        "doors": [inside, outside],
        "host": fleet.listen,
        "health_port": KAFKA_HEALTH,
        **report_settings(fleet, kept, "kafka"),
    }


def fanout_settings(fleet: Fleet, kept: Secrets) -> Table:
    """Return the settings of the fan-out from headquarters' log to Kafka: operations may read all, a customer its own stream."""
    customers = {customer.id: [f"customers/{customer.id}"] for customer in (DUCKWORKS, KANTO, MERLION, SOUTHERN)}
    readers = {"operations": ["alerts", "events", "ships", "containers", "customers/*"], **customers}
    return {
        "log": str(fleet.folder / HQ / "log"),
        "kafka": {"brokers": f"{fleet.host('kafka')}:{KAFKA_INSIDE}", "username": KAFKA_SUPER_USER, "password": kept.of("kafka")},
        "readers": [{"username": name, "password": READER_PASSWORD, "streams": streams} for name, streams in readers.items()],
        "host": fleet.listen,
        "health_port": FANOUT_HEALTH,
        **report_settings(fleet, kept, "fanout"),
    }


def write_mosquitto(fleet: Fleet, kept: Secrets) -> None:
    """Write who may log in at the ship's Mosquitto, and to do what.

    The ship's gateways publish readings and their own reports, and its node subscribes. The broker drops everything else: it costs the
    node nothing, and no client there can speak for a node, or request anything of devices.
    """
    folder = fleet.settings_folder / "mosquitto"
    folder.mkdir(parents=True, exist_ok=True)
    logins = {GATEWAY_USER: kept.of(f"gateways of {SHIP_WITH_BROKER}"), SHIP_WITH_BROKER: kept.of(f"{SHIP_WITH_BROKER} at its broker")}
    lines = "".join(f"{name}:{mosquitto_password(password, name)}\n" for name, password in logins.items())
    write_private(folder / "passwords", lines.encode())
    users = ((GATEWAY_USER, "write", gateways_may_publish(SHIP_WITH_BROKER)), (SHIP_WITH_BROKER, "read", SUBSCRIPTIONS))
    rights = ("\n".join((f"user {name}", *(f"topic {verb} {one}" for one in filters))) for name, verb, filters in users)
    write_private(folder / "rights", ("\n\n".join(rights) + "\n").encode())


def mosquitto_password(password: str, name: str) -> str:
    """Return the password as `mosquitto_passwd` writes it (PBKDF2 with SHA-512).

    The salt comes from password and name, so that it is the same each time.
    """
    salt = hashlib.sha256(f"{name} {password}".encode()).digest()[:SALT_BYTES]
    digest = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, PASSWORD_ROUNDS)
    return f"$7${PASSWORD_ROUNDS}${b64encode(salt).decode()}${b64encode(digest).decode()}"
