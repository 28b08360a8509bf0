"""A bay plan: which box stands in which slot when a ship leaves a port; and what is wrong with a file of one."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from cargo.vocabulary.registry_entries import LoadList, Stowed


@dataclass(frozen=True, slots=True)
class BayPlan:
    """Boxes aboard when `ship` (IMO number) leaves `port` (UN/LOCODE), as one file gives them. Empty text and None: not in the file."""

    ship: str = ""
    ship_name: str = ""
    voyage: str = ""
    port: str = ""
    next_port: str = ""
    departs_at_ms: int | None = None
    boxes: tuple[Stowed, ...] = ()
    call_sign: str = ""

    def load_list(self, call: int, departs_at_ms: int, before: Collection[str] | None = None) -> LoadList:
        """Return the registry's load list of this plan as the ship's call number `call`, sailing at `departs_at_ms` (UTC ms).

        `before`: the containers aboard when the ship came. A container not among them is loaded here; one of them no longer aboard was
        discharged. When `before` is not known, containers with this port as their port of loading are loaded here, and no discharge is
        listed. Raises ValueError when the plan names no ship or port."""
        aboard = [box.container for box in self.boxes]
        if before is None:
            load = [box.container for box in self.boxes if box.pol == self.port]
        else:
            load = [number for number in aboard if number not in before]
        discharge = sorted(set(before or ()) - set(aboard))
        return LoadList(self.ship, self.port, call, self.boxes, tuple(load), tuple(discharge), departs_at_ms)


@dataclass(frozen=True, slots=True)
class PlanProblem:
    """A fault of a file: its segment (counted from 1, UNA not among them; 0: the whole file), the segment's beginning, the fault, and what
    to do."""

    segment: int
    text: str
    problem: str
    hint: str

    def __str__(self) -> str:
        where = f"segment {self.segment} ({self.text})" if self.segment else "the file"
        return f"{where}: {self.problem}; {self.hint}"
