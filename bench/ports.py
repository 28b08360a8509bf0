"""Ports for servers that benches and tests start: each given once, to whoever of this machine asks.

A port that the system names for `bind(0)` may be another's a moment later: of a second server that binds to 0, or of a connection on its
way out. These lie below all that Linux gives away by itself (`ip_local_port_range`, from 32,768 on), and a file that all processes of a
user share says which was given last: none comes twice before all the others were had.
"""

from __future__ import annotations

import fcntl
import os
import socket
from pathlib import Path

FIRST, END = 20_000, 32_768
GIVEN = Path(f"/tmp/landfall-ports-{os.getuid()}")
"""Wherever a process has its own temporary files: two that give ports by two such files meet at one port."""


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on and nobody else was given lately. Raises OSError where none is free."""
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """As many of them."""
    with GIVEN.open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        last, ports = int(file.read() or FIRST), list[int]()
        for step in range(1, END - FIRST):
            port = FIRST + (last - FIRST + step) % (END - FIRST)
            if _is_free(port):
                ports.append(port)
            if len(ports) == count:
                file.truncate(0)
                file.write(str(port))
                return ports
    raise OSError(f"of the ports {FIRST} to {END - 1} fewer than {count} are free")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
