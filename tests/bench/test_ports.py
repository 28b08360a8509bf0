"""Goal: no two servers of tests are given one port, and none that the system may give away itself meanwhile."""

from __future__ import annotations

import multiprocessing
import socket
from pathlib import Path

import pytest

from bench.ports import END, FIRST, free_port, free_ports

FORKED = multiprocessing.get_context("fork")


def test_processes_that_ask_at_once_are_given_different_ones() -> None:
    with FORKED.Pool(4) as pool:
        given = [port for ports in pool.map(free_ports, [25] * 8) for port in ports]
    assert len(set(given)) == 200


def test_the_system_gives_none_of_them_away() -> None:
    first_of_its_own = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert max(free_ports(3)) < END <= first_of_its_own


def test_one_that_is_listened_on_is_passed_over() -> None:
    with socket.create_server(("127.0.0.1", _after(free_port()))) as server:
        assert free_port() != server.getsockname()[1]


def test_more_than_there_are_is_told() -> None:
    with pytest.raises(OSError, match="fewer than 12768 are free"):
        free_ports(END - FIRST)


def _after(port: int) -> int:
    return FIRST + (port - FIRST + 1) % (END - FIRST)
