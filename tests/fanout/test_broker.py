"""Goal: a broker whose process is killed is gone with it, so that the next start finds all free; a port that is taken is told at once."""

from __future__ import annotations

import errno
import os
import signal
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hq.fanout import dev_broker
from hq.fanout.settings import KafkaBrokerSettings
from streams.model.errors import Misuse
from tests.fanout.kafka import PASSWORD, until
from tests.support.forked import FORKED
from tests.support.ports import free_ports
from tests.support.refusals import refusal


def settings(folder: Path) -> dict[str, Any]:
    port, broker_port, controller_port = free_ports(3)
    doors = [{"host": "127.0.0.1", "port": port, "advertised": f"127.0.0.1:{port}"}]
    return {"folder": str(folder), "password": PASSWORD, "doors": doors, "broker_port": broker_port, "controller_port": controller_port}


SLEEP = ["/bin/sleep", "600"]
"""What starts sooner, in the place of Java."""


def serve(told: dict[str, Any]) -> None:
    """As `landfall broker` does."""
    dev_broker.java_command = lambda *_: SLEEP
    with dev_broker.serving(KafkaBrokerSettings.model_validate(told)):
        threading.Event().wait()


def make_ready(told: dict[str, Any]) -> None:
    """As `landfall broker` does before."""
    dev_broker.java_command = lambda *_: SLEEP
    dev_broker.format_folder(KafkaBrokerSettings.model_validate(told))


def child_of(pid: int) -> int | None:
    """The child of the process that is in Java's place; None until it is there."""
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        if Path(f"/proc/{child}/cmdline").read_text().split("\0")[:-1] == SLEEP:
            return int(child)
    return None


def runs(pid: int) -> bool:
    """Whether the process is there, and no mere remnant that nobody has asked for yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("work", [make_ready, serve])
def test_killed_it_takes_its_java_with_it(work: Callable[[dict[str, Any]], None], tmp_path: Path) -> None:
    parent = FORKED.Process(target=work, args=(settings(tmp_path / "broker"),), daemon=True)
    parent.start()
    pid = parent.pid
    assert pid is not None
    until(lambda: child_of(pid) is not None, "Java's place")
    java = child_of(pid)
    assert java is not None
    parent.kill()
    parent.join()
    assert parent.exitcode == -signal.SIGKILL
    until(lambda: not runs(java), "its end")


@pytest.mark.parametrize("which", ["door", "broker", "controller"])
def test_a_port_that_is_taken_is_told_before_anything_is_made(which: str, tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port, told = other.getsockname()[1], settings(tmp_path / "broker")
        if which == "door":
            told["doors"] = [{**told["doors"][0], "port": port}]
        else:
            told[f"{which}_port"] = port
        with refusal(Misuse, "address_taken", which, port):
            dev_broker.run_broker(KafkaBrokerSettings.model_validate(told))
    assert not (tmp_path / "broker").exists()


def test_a_folder_that_can_not_be_had_is_told_before_java_starts(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with refusal(Misuse, "folder_unavailable", "file/broker", os.strerror(errno.ENOTDIR)):
        dev_broker.run_broker(KafkaBrokerSettings.model_validate(settings(tmp_path / "file" / "broker")))
