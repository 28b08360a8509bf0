"""Goal: no two servers of tests get the same port, and none that the system gives away meanwhile."""

from __future__ import annotations

import errno
import multiprocessing
import socket

import pytest

from tests.support.ports import free_port, free_ports, free_row

FORKED = multiprocessing.get_context("spawn")


def test_processes_that_ask_at_once_get_different_ports() -> None:
    with FORKED.Pool(2) as pool:
        given = [port for ports in pool.map(free_ports, [25] * 8) for port in ports]
    assert len(set(given)) == 200


def test_a_row_is_of_ports_that_nobody_has() -> None:
    taken = set(free_ports(20))
    first, second = free_row(16), free_row(16)
    assert len({*range(first, first + 16), *range(second, second + 16)} - taken) == 32
    for port in (*range(first, first + 16), *range(second, second + 16)):
        with socket.create_server(("127.0.0.1", port)):
            pass


def test_the_system_gives_none_of_them_away() -> None:
    port = free_port()
    with socket.socket() as other, pytest.raises(OSError, match=str(errno.EADDRINUSE)):
        other.bind(("127.0.0.1", port))


def test_a_server_listens_on_it_and_does_so_again_after_it_ended() -> None:
    port = free_port()
    for _ in range(2):
        with socket.create_server(("127.0.0.1", port)), socket.create_connection(("127.0.0.1", port), 5):
            pass


def test_nobody_listens_on_it_by_itself() -> None:
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", free_port()), 5)
