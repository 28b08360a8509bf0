"""The ports of this machine that the demo listens on, all of 127.0.0.1, and which of them others have.

Standard library alone: set-up looks here before anything is installed, and says at once which are in use.
MQTT's own 1883 is left alone: Debian's Mosquitto listens there as soon as it is installed.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator, Sequence

DOORS = {"hq": 8770, "tokyo": 8771, "singapore": 8772, "sydney": 8773, "albatross": 8774, "cormorant": 8775}
MQTT = {"tokyo": 18831, "singapore": 18832, "sydney": 18833, "albatross": 18834, "cormorant": 18835}
API = 8780
ANALYTICS = 8781
PROJECTOR = 8782
CLOCK = 8790
PAGES = 8501

ALL = (*DOORS.values(), *MQTT.values(), API, ANALYTICS, PROJECTOR, CLOCK, PAGES)


def wanted(first: int | None) -> Sequence[int]:
    """Return every port a demo listens on: the usual ones, or as many in a row from `first` on."""
    return ALL if first is None else range(first, first + len(ALL))


def in_use(ports: Iterable[int]) -> Iterator[str]:
    """Yield a sentence, with what to do, for each port on this machine that another process listens on."""
    for port in ports:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                yield (
                    f"Port {port} is in use."
                    f"\n  Stop what listens there (is a demo still running?); `ss -ltnp sport = :{port}` shows what it is."
                )
