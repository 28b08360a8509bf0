"""What a process that is to listen says when it can not: which part of the address is wrong, and what to write instead."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from streams.errors import Misuse

_HOST = 'write an address of this machine as its host, like "127.0.0.1", or "0.0.0.0" for all it has'


@contextmanager
def listening(what: str, host: str, port: int) -> Iterator[None]:
    """The block makes `what` listen on `host:port`, and does nothing else. Raises Misuse when that address can not be had."""
    try:
        yield
    except (OSError, UnicodeError) as problem:
        why, hint = _told(problem)
        raise Misuse(f"{what} can not listen on {host}:{port}: {why}", hint=hint) from problem


@contextmanager
def bound(what: str, host: str, port: int) -> Iterator[socket.socket]:
    """A socket that has `host:port` while the block runs, and does not listen yet. Raises Misuse as `listening`."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with listening(what, host, port):
            taken.bind((host, port))
        yield taken


def _told(problem: OSError | UnicodeError) -> tuple[str, str]:
    if isinstance(problem, socket.gaierror | UnicodeError):
        return "no machine is known by that name", _HOST
    match problem.errno:
        case errno.EADDRINUSE:
            return "something listens there already", "stop it, or write another port"
        case errno.EACCES:
            return "this user may not", "write a port from 1024 on"
        case errno.EADDRNOTAVAIL | None:  # asyncio, from Python 3.13 on, has no number for it
            return "that is no address of this machine", _HOST
    return str(problem.strerror), _HOST
