"""Ports for servers that benches and tests start: a port is bound before its number is given away, so that nobody else gets it.

The socket stays bound, without listening. Linux lets a server with SO_REUSEADDR, which all of ours set, bind and listen beside it; the
system gives the port to nobody else: neither to another `bind(0)`, nor to a connection on its way out.
"""

from __future__ import annotations

import atexit
import socket
from collections import deque

HELD = 256
"""Number of ports that one process holds. The oldest is released first; its server listens by then."""
ROWS_TRIED_MAX = 1_000
_held: deque[socket.socket] = deque(maxlen=HELD)


@atexit.register
def _release() -> None:
    for holder in _held:
        holder.close()


def free_port() -> int:
    """Return a port of 127.0.0.1 that nobody else has. Raises OSError if none is free."""
    return _held_from_now_on(_bound(0))


def free_ports(count: int) -> list[int]:
    """Return `count` such ports, at most HELD."""
    return [free_port() for _ in range(count)]


def free_row(count: int) -> int:
    """Return the first of `count` such ports with consecutive numbers. Raises OSError if ROWS_TRIED_MAX rows are not free."""
    for _ in range(ROWS_TRIED_MAX):
        row = [_bound(0)]
        first = int(row[0].getsockname()[1])
        try:
            row += (_bound(port) for port in range(first + 1, first + count))
        except (OSError, OverflowError):  # somebody has one of them, or there is no port of that number
            for holder in row:
                holder.close()
        else:
            return min(map(_held_from_now_on, row))
    raise OSError(f"no {count} ports in a row are free")


def _bound(port: int) -> socket.socket:
    """A socket that has the port alone, until a server with SO_REUSEADDR comes."""
    holder = socket.socket()
    try:
        holder.bind(("127.0.0.1", port))
    except (OSError, OverflowError):
        holder.close()
        raise
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return holder


def _held_from_now_on(holder: socket.socket) -> int:
    if len(_held) == HELD:
        _held[0].close()
    _held.append(holder)
    return int(holder.getsockname()[1])
