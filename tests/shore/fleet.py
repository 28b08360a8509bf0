"""Headquarters, a port and a ship as the processes an operator starts, linked through a cable that can be cut; and what they are fed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from cargo.vocabulary.registry_entries import BookedContainer, Booking, Entry, LoadList, Port, Stowed, entry_body
from cargo.vocabulary.trade_codes import make_container
from landfall.node.services.signing_job import public_key
from streams.log import Append
from streams.model.errors import RetryLater
from streams.model.records import Record, to_batch
from tests.support.aboard import NODE, Gateway, Message, ShipProcess, fleet_clock
from tests.support.ports import free_port
from tests.support.process import NodeProcess
from tests.support.sea import SHIP, START_MS

TOKYO = (35.6, 139.8)
MINUTE_MS = 60_000
NOW_MS = START_MS + 24 * 60 * MINUTE_MS
ON_SHIP = tuple(make_container("DUCU", serial) for serial in range(6))
ON_QUAY = tuple(make_container("MSKU", serial) for serial in range(6))
IDENTITIES = {"tokyo": "JPTYO", "hq": "USLAX", NODE: SHIP}
SPEAKS = 4
"""So often each box speaks in a round."""


class ShoreProcess(NodeProcess):
    """`landfall port`: Tokyo's node with its quay, or headquarters'."""

    def __init__(self, folder: Path, name: str, role: str, more: str, door_port: int = 0) -> None:
        token = f"door-of-{name}"
        settings = (
            f'[node]\nnode = "{name}"\nrole = "{role}"\nidentity = "{IDENTITIES[name]}"\nfolder = "{folder / name}"\n'
            f"port = {{port}}\n{more}"
        )
        super().__init__(folder / f"settings-{name}", "port", name, token, settings, door_port)


def known(node: str, role: str, token: str = "", folder: Path | None = None) -> str:
    """One node that another knows, the token it shows there, and its key where its folder is given: who never meets it needs that."""
    shown = f'token = "{token}"\n' if token else ""
    keys = f'keys = ["{public_key(folder)}"]\n' if folder else ""
    return f'[[node.known]]\nnode = "{node}"\nrole = "{role}"\nidentity = "{IDENTITIES[node]}"\n{shown}{keys}'


class Fleet:
    """The three, their gateways, and the clerk at headquarters. `cable`: a URL that leads to Tokyo's door, for the ship."""

    def __init__(self, folder: Path, clock: str, tokyo_port: int, cable: str) -> None:
        self.quay_port = free_port()
        clocked = f'clock = "{clock}"\n'
        quay = f'[intake.endpoint]\nport = {self.quay_port}\nanonymous_publish = ["landfall/#"]\n'
        guests = known("hq", "hq", "hq-to-tokyo") + known(NODE, "ship", "ship-to-tokyo")
        self.tokyo = ShoreProcess(folder, "tokyo", "port", clocked + guests + quay, tokyo_port)
        dialled = f'[[node.peers]]\nnode = "tokyo"\nurl = "{self.tokyo.url}"\nlink = "lan"\ntoken = "hq-to-tokyo"\n'
        self.hq = ShoreProcess(folder, "hq", "hq", clocked + dialled + known("tokyo", "port") + known(NODE, "ship", folder=folder / "ship"))
        call = f'node = "tokyo"\nurl = "{cable}"\ntoken = "ship-to-tokyo"\nlocode = "JPTYO"\nname = "Tokyo"\n'
        call += f"latitude_deg = {TOKYO[0]}\nlongitude_deg = {TOKYO[1]}\n"
        self.ship = ShipProcess(folder, f"[[ports]]\n{call}" + known("tokyo", "port") + known("hq", "hq", folder=folder / "hq"), clock)
        self.processes: dict[str, NodeProcess] = {"hq": self.hq, "tokyo": self.tokyo, "ship": self.ship}
        self.gateways = {"ship": Gateway(self.ship.mqtt_port), "tokyo": Gateway(self.quay_port)}
        self.said: dict[str, list[Message]] = {"ship": [], "tokyo": []}
        self.entries: list[Entry] = []
        self._unwritten: list[Append] = []

    def feed(self, round_: int) -> None:
        """Boxes on ship and quay speak, the ship says where she is, and the clerk writes; all of it reaches who is up, now or later."""
        for where, boxes in (("ship", ON_SHIP), ("tokyo", ON_QUAY)):
            said = list(_round(round_, boxes)) + ([_where(round_)] if where == "ship" else [])
            self.said[where] += said
            self.gateways[where].publish(said)
        entries = _papers(round_)
        self.entries += entries
        records = to_batch([Record(entry.topic, body=entry_body(entry)) for entry in entries])
        self._unwritten.append(Append("registry", records, "clerk", round_))
        self.write()

    def write(self) -> bool:
        """Whether headquarters has all that the clerk has written; what it does not have is brought again."""
        try:
            while self._unwritten:
                self.hq.append.append(self._unwritten[:1])
                self._unwritten.pop(0)
        except RetryLater:
            return False
        return True

    def tails(self) -> str:
        """The end of each one's log, for a test that fails."""
        return "\n".join(f"--- {name}\n{process.tail()}" for name, process in self.processes.items())


@contextmanager
def fleet(folder: Path, tokyo_port: int, cable: str) -> Iterator[Fleet]:
    """The fleet, started; killed at the end whatever happens."""
    with ExitStack() as stack:
        one = Fleet(folder, stack.enter_context(fleet_clock(NOW_MS)), tokyo_port, cable)
        for process in one.processes.values():
            stack.callback(process.kill)
            process.start()
        for gateway in one.gateways.values():
            stack.enter_context(gateway)
        yield one


def _round(round_: int, boxes: Sequence[str]) -> Iterator[Message]:
    """Each box speaks some times, and one is struck."""
    for n in range(SPEAKS):
        for box, number in enumerate(boxes):
            at_ms = START_MS + (round_ * SPEAKS + n) * MINUTE_MS + box * 1_000
            struck = {"shock_g": 5.0 + round_ / 10} if (n, box) == (1, round_ % len(boxes)) else {}
            signals = {"ambient_c": 20 + round_ / 10, "gateway": f"GW-{box % 2}", **struck}
            yield f"landfall/containers/{number}/reading", json.dumps({"device": f"TRK-{number}", "at": at_ms, **signals}).encode()


def _where(round_: int) -> Message:
    """In Tokyo's port, always."""
    at_ms = START_MS + ((round_ + 1) * SPEAKS - 1) * MINUTE_MS + 59_000
    place = {"device": "GPS-1", "at": at_ms, "latitude_deg": TOKYO[0], "longitude_deg": TOKYO[1], "speed_kn": 0.0}
    return f"landfall/ships/{SHIP}/location", json.dumps(place).encode()


def _papers(round_: int) -> list[Entry]:
    """A version of the port, of the load list and of the booking of the boxes aboard."""
    stowed = tuple(Stowed(box, f"010{at + 1:02}82", "45R1", "JPTYO", "SGSIN") for at, box in enumerate(ON_SHIP))
    listed = LoadList(SHIP, "JPTYO", 1, stowed, ON_SHIP, (), NOW_MS + round_)
    booked = Booking(
        "B1", "ducks", "shops", f"toys {round_}", "JPTYO", "SGSIN", containers=tuple(BookedContainer(box, 1) for box in ON_SHIP)
    )
    port = Port("JPTYO", "Tokyo", *TOKYO, 10.0 + round_ / 100)
    version = round_ + 1
    return [
        Entry("port", "JPTYO", version, version, "clerk", port),
        Entry("load_list", listed.id, version, version, "clerk", listed),
        Entry("booking", "B1", version, version, "clerk", booked),
    ]
