"""Numbers, ages, places and codes as a person reads them; every one with its unit. Pure functions; "–" where nothing is known."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from cargo.vocabulary.durations import DAY_MS, SECOND_MS, duration_text
from cargo.vocabulary.slots import LOWEST_DECK_TIER, slot_text

NOTHING = "–"

EVENTS: dict[str, str] = {
    "LOAD": "Loaded",
    "DISC": "Discharged",
    "GTIN": "In through the gate",
    "GTOT": "Out through the gate",
    "STUF": "Packed",
    "STRP": "Unpacked",
    "INSP": "Inspected",
    "ARRI": "Ship arrived",
    "DEPA": "Ship departed",
    "X_SHOCK": "Shock",
    "X_TILT": "Tilted",
    "X_EXCURSION": "Temperature out of range",
    "X_FREE_FALL": "Free fall",
    "X_MUSTER": "Muster",
    "X_MISSING": "Missing",
    "X_LEFT_BEHIND": "Left behind",
    "X_DEVICE_FAULT": "Its tracker fails",
    "X_GATEWAY_OUTAGE": "Gateway silent",
    "X_GATEWAY_BACK": "Gateway heard again",
    "X_PROBABLE_OVERBOARD": "Probably overboard",
    "X_LOST_OVERBOARD": "Lost overboard",
    "X_FOUND": "Found",
}
STATUSES: dict[str, str] = {
    "LATE": "Late",
    "MISSING": "Missing",
    "PROBABLE_OVERBOARD": "Probably overboard",
    "CONFIRMED_LOST": "Lost overboard",
    "REPORTED_INITIAL": "Reported as lost",
    "REPORTED_FINAL": "Lost, final report sent",
    "FOUND": "Found",
    "COLLAPSED_ON_BOARD": "Collapsed on board",
    "DEVICE_FAULT": "Device fault",
}
FAMILIES: dict[str, str] = {
    "presence": "Silence",
    "kinematic": "Its own movement",
    "group": "Its neighbours",
    "motion": "The ship's motion",
    "slot": "Where it stood",
    "power": "Power of the stack",
    "position": "Its position",
    "contra": "Against a loss",
    "incident": "The incident",
    "person": "A person's statement",
}
SIGNALS: dict[str, str] = {
    "silence": "silent for longer than expected",
    "shock": "a shock above 4 g",
    "free_fall": "free fall",
    "tilt": "a tilt that lasted",
    "silent_together": "neighbours fell silent together",
    "stands_on_lost": "boxes under it are reported as lost",
    "roll": "the ship rolled heavily",
    "exposed": "on deck, outboard or aft",
    "hold": "stowed in the hold",
    "sockets": "reefers of the stack lost power together",
    "fix": "its own position drifts off the ship's track",
    "battery": "its battery was nearly empty",
    "rssi": "its signal had been fading",
    "gateway": "its gateway heard too little",
    "discharge": "being loaded or discharged",
    "in_port": "the ship lies in port",
    "heard_again": "heard again",
    "seen": "seen on board",
    "collapsed": "seen on board, its stack collapsed",
    "gone": "a count was taken: gone",
}
RECIPIENTS: dict[str, str] = {
    "SHIPS_IN_VICINITY": "Ships in the vicinity",
    "COASTAL_STATE": "Nearest coastal State",
    "FLAG_STATE": "Flag State",
    "COMPANY": "Company",
    "OTHER": "",
}
BECAME: dict[str, str] = {
    "LOST": "Lost overboard",
    "PROBABLY_LOST": "Probably lost overboard",
    "AT_RISK": "Being looked for: it has no tracker",
    "HEARD_AGAIN": "Aboard: heard or seen again",
}
REPORT_STATES: dict[str, tuple[str, str]] = {
    "draft": ("draft", "warning"),
    "edited": ("draft, edited", "warning"),
    "approved": ("approved, not sent yet", "accent"),
    "sent": ("sent", "good"),
}
BASES: dict[str, str] = {"ACTUAL": "measured", "ESTIMATED": "estimated from the ship's track", "DISCOVERED": "where it was discovered"}


def number_problem(container: Mapping[str, Any]) -> tuple[str, str, str] | None:
    """Return what is wrong with a container's number, as the text, tone and hint of a banner; None when it is right."""
    if not container["number_problem"]:
        return None
    hint = "Its readings are kept and shown, but it is not counted in the fleet. Check the settings of its tracker."
    return f"Not a valid container number: {container['number_problem']}.", "warning", hint


span = duration_text
"""A duration: `3 h 12 min`."""


def ago(age_ms: float | None) -> str:
    """Return an age: `3 h 12 min ago`; `just now` within a second; `never` for None. For a time in the future: how far it is ahead of the
    clock, and from a day on that a clock is wrong, by how much."""
    if age_ms is None:
        return "never"
    if age_ms <= -DAY_MS:
        return f"clock wrong by {span(-age_ms)}"
    if age_ms <= -SECOND_MS:
        return f"{span(-age_ms)} ahead of the clock"
    return "just now" if age_ms < SECOND_MS else f"{span(age_ms)} ago"


def age(at_ms: int | None, now_at_ms: int) -> str:
    """Return how long ago `at_ms` (UTC ms) was at `now_at_ms`."""
    return ago(None if at_ms is None else now_at_ms - at_ms)


def as_of(at_ms: int | None, now_at_ms: int) -> str:
    """Return the time that something is true for (UTC ms): `as of 3 min ago`."""
    return "not known yet" if at_ms is None else f"as of {age(at_ms, now_at_ms)}"


def moment(at_ms: int | None) -> str:
    """Return a time as `1 May 2026, 14:05 UTC`."""
    if at_ms is None:
        return NOTHING
    when = datetime.fromtimestamp(at_ms / 1000, UTC)
    return f"{when.day} {when:%b %Y, %H:%M} UTC"


def stamp(at_ms: int | None) -> str:
    """Return a time as tables show it: `1 May 2026 14:05:09`, always UTC."""
    if at_ms is None:
        return NOTHING
    when = datetime.fromtimestamp(at_ms / 1000, UTC)
    return f"{when.day} {when:%b %Y %H:%M:%S}"


def year(at_ms: int) -> int:
    """Return the year of a time, UTC."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).year


def number(value: float | None) -> str:
    """Return a whole number with separators: `1,993`."""
    return NOTHING if value is None else f"{value:,.0f}"


def counted(value: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun: `1 box`, `1,993 boxes`."""
    return f"{number(value)} {one if value == 1 else many or one + 's'}"


def measured(value: Any, unit: str, places: int = 1) -> str:
    """Return a measured number with its unit, a true minus sign, and `places` after the point: `−18.2 °C`."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return NOTHING
    return f"{value:,.{places}f} {unit}".rstrip().replace("-", "−")


def celsius(value: float) -> str:
    """Return a temperature: `−18.2 °C`."""
    return measured(value, "°C")


def latitude(degrees: float) -> str:
    """Return a latitude: `33°52.1′S`."""
    return _angle(degrees, 2, "NS")


def longitude(degrees: float) -> str:
    """Return a longitude: `151°12.4′E`; any turn of the globe is taken off first."""
    return _angle((degrees + 180) % 360 - 180, 3, "EW")


def position(where: Mapping[str, Any] | None) -> str:
    """Return a `{"latitude_deg", "longitude_deg"}` as seafarers write it: `33°52.1′S 151°12.4′E`."""
    if not where or where.get("latitude_deg") is None or where.get("longitude_deg") is None:
        return NOTHING
    return f"{latitude(where['latitude_deg'])} {longitude(where['longitude_deg'])}"


def sighted(lines: Mapping[str, Mapping[str, Any]]) -> str:
    """Return what a report of containers seen adrift is about, by its lines: `2 seen adrift, 33°52.1′S 151°12.4′E,
    2026-05-01T04:00:12Z`."""
    number, at, what, *where = (
        lines.get(name, {}).get("value") for name in ("number_lost", "occurred_at", "description", "latitude_deg", "longitude_deg")
    )
    many = NOTHING if number is None else str(number)
    place = position(dict(zip(("latitude_deg", "longitude_deg"), where, strict=True)))
    return ", ".join(str(one) for one in (f"{many} seen adrift", place, at, what) if one and one != NOTHING)


def _angle(degrees: float, width: int, sides: str) -> str:
    tenths = round(abs(degrees) * 600)
    return f"{tenths // 600:0{width}d}°{tenths % 600 / 10:04.1f}′{sides[0] if degrees >= 0 else sides[1]}"


CLOCK_STATES: dict[str, str] = {"paused": "Paused", "waiting": "Waiting", "ended": "Ended"}
"""Why the fleet's clock does not run: a person stopped it, it waits for what is behind it, or its story is over."""


def pace(clock: Mapping[str, Any]) -> str:
    """Return how fast the fleet's clock runs: `1,440× real time`, or why it does not. `clock`: `{"speed", "state"}` of an answer."""
    times: float = clock["speed"]
    if times == 0:
        return CLOCK_STATES.get(clock["state"], "Paused")
    return f"{times:,.0f}× real time" if times >= 10 else f"{times:g}× real time"


def clock_actions(state: str) -> frozenset[str]:
    """Return what the clock of a story does in this state: of `pause`, `resume`, `speed` and `jump`."""
    return frozenset() if state == "ended" else frozenset({"speed", "jump", "resume" if state == "paused" else "pause"})


def size(count: float | None) -> str:
    """Return bytes in decimal units: `12.3 MB`."""
    if count is None:
        return NOTHING
    for limit, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= limit:
            return f"{count / limit:,.1f} {unit}"
    return f"{count:,.0f} B"


def likelihood(posterior: float | None) -> str:
    """Return a probability: `99.97 %`; never rounded up to certainty."""
    if posterior is None:
        return NOTHING
    percent = posterior * 100
    if percent > 99.99:
        return "> 99.99 %"
    return f"{percent:.2f} %" if percent >= 99 else f"{percent:.0f} %" if percent >= 1 else "< 1 %"


def weight(value: float) -> str:
    """Return a log10 likelihood ratio as what it says: `1,000 times likelier if lost`, `against: 10,000 times`."""
    times = 10 ** abs(value)
    factor = f"{times:,.0f}" if times >= 10 else f"{times:.1f}"
    if value == 0:
        return "opens the case"
    return f"{factor}× for a loss" if value > 0 else f"{factor}× against a loss"


def slot(text: str | None) -> str:
    """Return a slot `BBBRRTT` in words: `bay 074, row 02, tier 82, on deck`."""
    if not text:
        return NOTHING
    words = slot_text(text)
    return words if words == text else f"{words}, {'on deck' if int(text[5:]) >= LOWEST_DECK_TIER else 'in the hold'}"


def severity(code: str) -> str:
    """Return how grave an alert is."""
    return "info" if code == "LOG" else code.lower()


def event(code: str) -> str:
    """Return what a DCSA code, or one of ours, means."""
    return EVENTS.get(code, code.removeprefix("X_").replace("_", " ").capitalize())


def status(code: str | None) -> str:
    """Return what a box's status means."""
    return NOTHING if not code else STATUSES.get(code, code.replace("_", " ").capitalize())


def unconfirmed(loss: Mapping[str, Any], names: Mapping[str, str], boxes: str = "this box") -> str:
    """Return the text next to a loss that nothing confirms. `loss`: an alert, incident or lost box; `names` by IMO number."""
    ship = names.get(loss["ship"] or "") or (f"ship {loss['ship']}" if loss["ship"] else "the ship")
    return f"Not confirmed: no load list of {ship} has {boxes}"


def recipient(code: str) -> str:
    """Return to whom a loss report went."""
    return RECIPIENTS.get(code, code)


def became(code: str) -> str:
    """Return what an owner's notice says became of a box."""
    return BECAME.get(code, code)


def rule(code: str) -> str:
    """Return a rule's name in words: `return_high` is `Return high`."""
    return code.replace("_", " ").capitalize()


def place(where: Mapping[str, Any] | None, names: Mapping[str, str]) -> str:
    """Return a `{"kind", "id"}` in words; `names` gives ships' and ports' names by their ids."""
    if not where:
        return "Place unknown"
    name = names.get(str(where["id"]), str(where["id"]))
    return f"Aboard {name}" if where["kind"] == "ship" else f"On the quay in {name}"


def custody(at: str | None, names: Mapping[str, str]) -> str:
    """Return where the papers say a box is: `ship/<imo>`, `quay/<locode>` or `delivered`."""
    if not at:
        return NOTHING
    kind, _, identity = at.partition("/")
    return "Delivered" if not identity else place({"kind": kind, "id": identity}, names)
