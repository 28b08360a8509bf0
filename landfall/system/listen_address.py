"""Addresses that a process listens at: how they are written, and what is said when one can not be had or takes no connection."""

from __future__ import annotations

import errno
import logging
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from streams.model.errors import Misuse

EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
"""Errors of an `accept` for which the system has no file descriptor or memory left."""
EXHAUSTED_SAID_EVERY_S = 60.0
_EVERY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1"}
_HOST = 'write an address of this machine as its host, like "127.0.0.1", or "0.0.0.0" for all it has'


def address(host: str, port: int) -> str:
    """Return `host:port` as URLs and people write it: an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def url_here(host: str, port: int) -> str:
    """Return the URL by which a process of this machine finds the HTTP door that listens at `host`, also where that is every address."""
    return f"http://{address(_EVERY_ADDRESS.get(host, host), port)}"


class ExhaustionFilter(logging.Filter):
    """Filter that logs at most once a minute, in one line, that no connection is accepted for lack of file descriptors.

    Other records pass. It is for the logger "asyncio", which pauses for a second then, and writes a traceback for each of up to 128
    attempts before it does.
    """

    def __init__(self, now_s: Callable[[], float]) -> None:
        super().__init__()
        self._now_s = now_s
        self._said_s: float | None = None

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the record is written; rewrite it in plain words first."""
        problem = record.exc_info[1] if record.exc_info else None
        if not (isinstance(problem, OSError) and problem.errno in EXHAUSTED and "accept" in record.getMessage()):
            return True
        if not self.due():
            return False
        record.msg, record.args, record.exc_info, record.exc_text = exhausted_words(problem), (), None, None
        return True

    def due(self) -> bool:
        """Return whether the message was not logged for a minute; if so, count it as logged now."""
        now_s = self._now_s()
        if self._said_s is not None and now_s - self._said_s < EXHAUSTED_SAID_EVERY_S:
            return False
        self._said_s = now_s
        return True


def exhausted_words(problem: OSError) -> str:
    """Return the message for the time while no connection can be accepted."""
    return f"no connection is accepted for now: {problem.strerror} (allow this process more open files: `ulimit -n`, or LimitNOFILE)"


@contextmanager
def listening(what: str, host: str, port: int) -> Iterator[None]:
    """Raise Misuse when the block can not make `what` listen on `host:port`. The block does nothing else."""
    try:
        yield
    except (OSError, UnicodeError) as problem:
        why, hint, code = _refusal(problem)
        raise Misuse(f"{what} can not listen on {address(host, port)}: {why}", hint=hint, code=code) from problem


@contextmanager
def bound(what: str, host: str, port: int) -> Iterator[socket.socket]:
    """Yield a socket that is bound to `host:port` during the block, and does not listen yet. Raises Misuse as `listening`."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with listening(what, host, port):
            taken.bind((host, port))
        yield taken


def _refusal(problem: OSError | UnicodeError) -> tuple[str, str, str]:
    if isinstance(problem, socket.gaierror | UnicodeError):
        return "no machine is known by that name", _HOST, "host_unknown"
    match problem.errno:
        case errno.EADDRINUSE:
            return "something listens there already", "stop it, or write another port", "address_taken"
        case errno.EACCES:
            return "this user may not", "write a port from 1024 on", "port_not_allowed"
        case errno.EADDRNOTAVAIL | None:  # asyncio, from Python 3.13 on, has no number for it
            return "that is no address of this machine", _HOST, "address_not_here"
    return str(problem.strerror), _HOST, "address_refused"
