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
_held: deque[socket.socket] = deque(maxlen=HELD)


@atexit.register
def _release() -> None:
    for holder in _held:
        holder.close()


def free_port() -> int:
    """Return a port of 127.0.0.1 that nobody else has. Raises OSError if none is free."""
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("127.0.0.1", 0))
    if len(_held) == HELD:
        _held[0].close()
    _held.append(holder)
    return int(holder.getsockname()[1])


def free_ports(count: int) -> list[int]:
    """Return `count` such ports, at most HELD."""
    return [free_port() for _ in range(count)]
