"""The registry, as clerks write it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field

from cargo.vocabulary.load_list_lines import Note, unknown_lines
from cargo.vocabulary.registry_entries import COUNT_MAX
from hq.api.access import Right
from hq.api.entry_parser import GivenEntry, Unacceptable
from hq.api.error_answers import ApiError, not_found
from hq.api.registrar import ENTRIES_AT_ONCE_MAX, Overtaken, RegistryReceipt
from hq.api.services import Asking, framed_clock

router = APIRouter()
Name = Annotated[str, Field(pattern=r"^\P{C}*$")]
"""No control characters, no halves of surrogate pairs."""
NOTES_MAX = 1_000
"""Maximum number of notes that an answer shows."""
AUDITED_MAX = 100
"""Entries of one request that its audit record names."""
_EXAMPLE: dict[str, Any] = {
    "entries": [
        {
            "type": "booking",
            "id": "BK-2041",
            "value": {
                "reference": "BK-2041",
                "shipper": "duckworks",
                "consignee": "Toys of London",
                "cargo": "toy ducks",
                "from": "JPTYO",
                "to": "GBLON",
                "setpoint_c": None,
                "un_number": None,
                "containers": [{"container": "MSKU1234565", "from_at_ms": 1777593600000, "until_at_ms": None}],
            },
        }
    ]
}


class NewEntry(BaseModel):
    """One entry: what it is, which, and its whole value; `based_on` the version it was made from (0: there was none), if that matters."""

    model_config = ConfigDict(extra="forbid")

    type: Name
    id: Name
    value: dict[str, Any]
    based_on: int | None = Field(default=None, ge=0, le=COUNT_MAX)


class NewEntries(BaseModel):
    """Entries written together: all of them or none."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [_EXAMPLE]})

    entries: list[NewEntry] = Field(min_length=1, max_length=ENTRIES_AT_ONCE_MAX)


@router.post("/registry")
def write(ask: Asking, new: NewEntries) -> dict[str, Any]:
    """Write 1 to 5,000 entries: all or none, durable when answered. Staff only. The same request again changes nothing.

    422: `problems` lists all faults. 409: an entry is `based_on` another version than the current one (0: none) and would change it.
    `ended`: open spans of bookings that end because another customer's span of the same container begins. `notes`: parts of load lists
    and port codes that were left out or are unknown, the first 1,000 of `notes_count`.
    """
    ask.need(Right.WRITE_REGISTRY)
    wanted = [GivenEntry(entry.type, entry.id, entry.value, entry.based_on) for entry in new.entries]
    try:
        receipt = ask.services.registrar.write(wanted, ask.viewer.name)
    except Overtaken as refused:
        hint = "Look at what stands now, and change that."
        error = "Nothing was written: somebody else changed it meanwhile."
        raise ApiError(409, "entries_overtaken", error, hint, problems=refused.problems) from None
    except Unacceptable as refused:
        error = "Nothing was written: some entries are invalid."
        raise ApiError(422, "entries_invalid", error, "Fix these fields.", problems=refused.problems) from None
    count = sum(one.written for one in receipt.entries)
    changed = [one for one in (*receipt.others, *receipt.entries) if one.written]
    if changed:
        names = [f"{one.type}/{one.id} v{one.version}" for one in changed]
        ask.audit("registry", entries=names[:AUDITED_MAX], written=len(changed))
    versions = {one.id: one.version for one in (*receipt.others, *receipt.entries) if one.type == "booking"}
    return {
        **framed_clock(ask.services),
        "as_of_at_ms": None,
        "written": count,
        "unchanged": len(receipt.entries) - count,
        "entries": [asdict(one) for one in receipt.entries],
        "ended": [{**asdict(one), "version": versions[one.booking]} for one in receipt.ended],
        "notes": [_note(receipt, index, note) for index, note in receipt.notes[:NOTES_MAX]],
        "notes_count": len(receipt.notes),
    }


def _note(receipt: RegistryReceipt, index: int, note: Note) -> dict[str, Any]:
    entry = receipt.entries[index]
    return {"entry": index, "type": entry.type, "id": entry.id, **asdict(note)}


@router.get("/registry/streams")
def streams(ask: Asking) -> dict[str, Any]:
    """List the streams and patterns that have settings: `value` is what is set, `whole` the complete settings that follow. Staff only."""
    ask.need(Right.SEE_STREAMS)
    definitions = ask.services.registrar.streams()
    return {
        **framed_clock(ask.services),
        "as_of_at_ms": None,
        "items": [
            {"name": name, "version": version, "value": definitions.value(name), "whole": definitions.of(name).to_json()}
            for name, version in definitions.versions().items()
        ],
    }


@router.get("/registry/load_lists/{ship}")
def load_lists(ask: Asking, ship: str, call: Annotated[int | None, Query(ge=0, le=COUNT_MAX)] = None) -> dict[str, Any]:
    """Return a ship's calls and the load list of one of them, as the log has them now. Staff only.

    `ship`: an IMO number, or a call sign that one ship has. Without `call` it is the last list. `unknown`: containers that lack a
    field, or whose number is not an ISO 6346 number.
    """
    ask.need(Right.SEE_PORTS)
    registrar = ask.services.registrar
    ship = registrar.imo_of(ship) or ship
    lists = registrar.load_lists(ship)
    wanted = [one for one in lists if call is None or one.call == call]
    if call is not None and not wanted:
        raise not_found("load_list_unknown", "load list")
    known = registrar.ship(ship)
    return {
        **framed_clock(ask.services),
        "as_of_at_ms": None,
        "ship": ship,
        "name": known.name if known else None,
        "calls": [{"call": one.call, "port": one.port, "departs_at_ms": one.departs_at_ms, "boxes": len(one.aboard)} for one in lists],
        "load_list": msgspec.to_builtins(wanted[-1]) if wanted else None,
        "unknown": [asdict(one) for one in unknown_lines(wanted[-1])] if wanted else [],
    }
