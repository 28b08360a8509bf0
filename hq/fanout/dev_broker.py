"""One Kafka broker for development: no cluster, no tools to install, with logins and rights as in production."""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import subprocess
import threading
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, get_args

from hq.fanout.settings import KafkaBrokerSettings
from hq.java import java_home, kafka_jars
from landfall.runtime.child_process import started
from landfall.runtime.health_server import serve_health
from landfall.runtime.service import Running, running, stop_when_asked
from landfall.storage.kafka.kafka_configuration import answers
from landfall.storage.kafka.settings import KafkaAccess, Mechanism
from landfall.system.listen_address import address, bound
from landfall.system.private_files import read_private, write_private
from streams.model.errors import Misuse, RetryLater
from streams.model.metrics import Metrics

STOPPED_WITHIN_S = 30.0
POLL_S = 0.2
LOOK_EVERY_S = 2.0
MIB = 1 << 20
MECHANISMS: tuple[Mechanism, ...] = get_args(Mechanism)
"""Mechanisms by which clients may log in."""
log = logging.getLogger(__name__)

_LOG4J = """\
configuration:
  status: warn
  appenders: {Console: {name: stdout, PatternLayout: {pattern: "%d{ISO8601} %p %c: %m%n"}}}
  loggers: {Root: {level: WARN, AppenderRef: [{ref: stdout}]}}
"""


def run_broker(settings: KafkaBrokerSettings) -> None:
    """Run the broker until SIGTERM or SIGINT; its word goes to stdout.

    Raises Misuse when a port is taken or the folder is none it may write, RetryLater when the broker ends by itself. Killed, it takes the
    broker with it: the next start finds ports and folder free.
    """
    _check_ports(settings)
    _check_folder(settings.folder)
    with running(Metrics("broker"), settings) as under_way:
        stop_when_asked(under_way.stop)
        format_folder(settings)
        health = partial(_health, settings)
        with serving(settings) as process, serve_health(settings.host, settings.health_port, health, settings) as port:
            log.info("the broker comes up, which takes some seconds; health on port %d", port)
            looks = threading.Thread(target=_look, args=(settings, under_way), name="looks")
            looks.start()
            try:
                while not under_way.stop.wait(POLL_S):
                    if process.poll() is not None:
                        raise RetryLater(
                            f"the broker ended with code {process.returncode}", hint="its words are above", code="broker_ended"
                        )
            finally:
                under_way.stop.set()
                looks.join()


def _check_ports(settings: KafkaBrokerSettings) -> None:
    """Check that all ports are free: Java would also report a taken port, but in thirty lines, after some seconds."""
    doors = [("Kafka's door", door.host, door.port) for door in settings.doors]
    own = [("Kafka's broker", "127.0.0.1", settings.broker_port), ("Kafka's controller", "127.0.0.1", settings.controller_port)]
    for what, host, port in (*doors, *own):
        with bound(what, host, port):
            pass


def _check_folder(folder: Path) -> None:
    """Make the folder, and check that this user may write to it, and to its `log` if it has one.

    Java would report a folder without write permission in as many lines."""
    hint = "let the user that runs this write there, or name another folder"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        places = [folder, *(place for place in (folder / "log",) if place.exists())]
    except OSError as problem:
        raise Misuse(f"the broker's folder {folder} can not be had: {problem.strerror}", hint=hint, code="folder_unavailable") from None
    for place in places:
        if not os.access(place, os.R_OK | os.W_OK | os.X_OK):
            raise Misuse(f"the broker's folder {place} can not be written by this user", hint=hint, code="folder_not_writable")


def _look(settings: KafkaBrokerSettings, under_way: Running) -> None:
    """Log in as a client at intervals, and report how long that takes, and when it fails."""
    answered = False
    while not under_way.stop.wait(LOOK_EVERY_S):
        began_s = under_way.clock.monotonic_s()
        before, answered = answered, answers(own_access(settings))
        under_way.metrics.observe("login", (under_way.clock.monotonic_s() - began_s) * 1_000)
        under_way.metrics.count("logins" if answered else "logins_refused")
        if answered and not before:
            log.info("Kafka answers on %s", ", ".join(door.advertised for door in settings.doors))
        if before and not answered:
            under_way.telemetry.report("the broker lets its own super user in no more", outcome="looked again", code="broker_login_refused")


def format_folder(settings: KafkaBrokerSettings) -> None:
    """Prepare the folder for the broker, with its super user; a folder that is ready stays as it is. The Java that prepares it ends with
    this process. Raises RetryLater."""
    if (settings.folder / "log" / "meta.properties").exists():
        return
    fresh = settings.folder / "log.new"
    shutil.rmtree(fresh, ignore_errors=True)
    cluster = "L" + urlsafe_b64encode(secrets.token_bytes(16)).decode()[1:22]  # never a dash in front: that would read as an option
    login = f"[name={settings.username},password={settings.password.get_secret_value()}]"
    logins = [word for mechanism in MECHANISMS for word in ("--add-scram", f"{mechanism}={login}")]
    properties = _write(settings.folder / "format.properties", _properties(settings, fresh))
    words = ("kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(properties), "--standalone", *logins)
    with started(java_command(settings, "format", words), subprocess.PIPE) as process:
        try:
            output = process.communicate()[0].decode(errors="replace")
        finally:
            process.kill()
    if process.returncode:
        raise RetryLater(f"the broker's folder {settings.folder} can not be made ready: {output[-2000:]}", code="broker_not_ready")
    fresh.rename(settings.folder / "log")


@contextmanager
def serving(settings: KafkaBrokerSettings) -> Iterator[subprocess.Popen[bytes]]:
    """Yield the running broker of a folder that is ready; it ends after the block, and with this process. Call it from the main thread."""
    properties = _write(settings.folder / "server.properties", _properties(settings, settings.folder / "log"))
    command = java_command(settings, "serve", ("kafka.Kafka", str(properties)))
    process = started(command)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(STOPPED_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def java_command(settings: KafkaBrokerSettings, name: str, words: Sequence[str]) -> list[str]:
    """Return the command that starts Java with these words. They are in a file that only its owner reads: passwords are among them, and all
    users see a command line."""
    logging_settings = _write(settings.folder / "log4j2.yaml", _LOG4J)
    heap = (f"-Xms{settings.heap_mb // 2}m", f"-Xmx{settings.heap_mb}m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
    options = (*heap, f"-Dlog4j2.configurationFile={logging_settings}", *class_path(), *words)
    quoted = "\n".join(f'"{word}"' for word in options)
    return [str(java_home() / "bin" / "java"), f"@{_write(settings.folder / f'{name}.words', quoted)}"]


def class_path() -> tuple[str, str]:
    """Return the broker's class path, as Java takes it."""
    return "-cp", os.pathsep.join(map(str, kafka_jars()))


def _properties(settings: KafkaBrokerSettings, folder: Path) -> str:
    """Return the properties of one node that is broker and controller. Clients log in by SCRAM; its connections to itself use a password
    made now."""
    own = secrets.token_urlsafe(24)
    plain = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="itself" password="{own}" user_itself="{own}";'
    scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    doors = {f"DOOR{number}": door for number, door in enumerate(settings.doors)}
    listeners = {"CONTROLLER": f"127.0.0.1:{settings.controller_port}", "BROKER": f"127.0.0.1:{settings.broker_port}"}
    advertised = dict(listeners) | {name: door.advertised for name, door in doors.items()}
    listeners |= {name: f"{address(door.host, door.port)}" for name, door in doors.items()}
    over_tls = {name: door.tls for name, door in doors.items() if door.tls is not None}
    lines = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "log.dirs": str(folder),
        "listeners": ",".join(f"{name}://{address}" for name, address in listeners.items()),
        "advertised.listeners": ",".join(f"{name}://{address}" for name, address in advertised.items()),
        "listener.security.protocol.map": ",".join(f"{name}:SASL_{'SSL' if name in over_tls else 'PLAINTEXT'}" for name in listeners),
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": listeners["CONTROLLER"],
        "inter.broker.listener.name": "BROKER",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "false",
        "super.users": f"User:itself;User:{settings.username}",
        "auto.create.topics.enable": "false",
        "log.cleaner.dedupe.buffer.size": str(settings.heap_mb * MIB // 32),  # its default takes half of a small heap for good
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "8",
        "transaction.state.log.num.partitions": "8",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
    }
    for name in listeners:
        mechanisms, login = (MECHANISMS, scram) if name in doors else (("PLAIN",), plain)
        lines[f"listener.name.{name.lower()}.sasl.enabled.mechanisms"] = ",".join(mechanisms)
        lines |= {f"listener.name.{name.lower()}.{mechanism.lower()}.sasl.jaas.config": login for mechanism in mechanisms}
    for name, tls in over_tls.items():
        shown = _write(settings.folder / f"{name.lower()}.pem", _read(tls.key, read_private) + _read(tls.certificate))
        lines |= {
            f"listener.name.{name.lower()}.ssl.keystore.type": "PEM",
            f"listener.name.{name.lower()}.ssl.keystore.location": str(shown),
        }
    return "".join(f"{name}={value}\n" for name, value in lines.items())


def _write(path: Path, text: str) -> Path:
    """Write a file that only its owner reads, and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_private(path, text.encode())
    return path


def _read(path: Path, read: Callable[[Path], bytes] = Path.read_bytes) -> str:
    try:
        return read(path).decode()
    except OSError as problem:
        raise Misuse(f"{path} can not be read: {problem.strerror}", hint="fix the door's table tls", code="file_unavailable") from problem


def _health(settings: KafkaBrokerSettings) -> tuple[bool, dict[str, Any]]:
    return answers(own_access(settings)), {"process": "broker", "at_ms": time.time_ns() // 1_000_000}


def own_access(settings: KafkaBrokerSettings) -> KafkaAccess:
    """Return the super user's access at the first door."""
    door = settings.doors[0]
    tls_ca = door.tls.authority if door.tls else None
    return KafkaAccess(brokers=door.advertised, username=settings.username, password=settings.password, tls_ca=tls_ca)
