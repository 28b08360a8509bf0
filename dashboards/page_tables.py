"""From the API's rows to rows of text that tables show: every number with its unit, every datum with its age. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dashboards import markup, texts, theme
from dashboards.markup import MarkupColumn

Row = Mapping[str, Any]
Names = Mapping[str, str]
Texts = dict[str, str]
STALE_WALL_MS = 60_000
"""A process that has said nothing for so long by the wall's clock is looked at first."""

LOST = (
    MarkupColumn("number", "Container", mono=True),
    MarkupColumn("slot", "Slot"),
    MarkupColumn("cargo", "Cargo"),
    MarkupColumn("heard", "Last heard", right=True),
    MarkupColumn("position", "Position and its basis"),
    MarkupColumn("chance", "Lost", right=True),
    MarkupColumn("state", "State", markup=True),
)
SENDINGS = (
    MarkupColumn("sent", "Sent", right=True),
    MarkupColumn("to", "To whom"),
    MarkupColumn("means", "By what means"),
    MarkupColumn("by", "Recorded by"),
    MarkupColumn("receipt", "Receipt"),
)
NOTICED = (
    MarkupColumn("container", "Container", mono=True),
    MarkupColumn("became", "What became of it"),
    MarkupColumn("booking", "Booking", mono=True),
    MarkupColumn("cargo", "Cargo"),
    MarkupColumn("between", "Between, UTC", right=True),
    MarkupColumn("position", "Where the ship was"),
)
PERSON = "person"
"""The family of what people said: it is not weighed."""
EVIDENCE = (
    MarkupColumn("family", "Evidence"),
    MarkupColumn("detail", "What was seen"),
    MarkupColumn("at", "When, UTC", right=True),
    MarkupColumn("weight", "Weight", right=True),
)
DUE_IN = (
    MarkupColumn("ship", "Ship"),
    MarkupColumn("from", "From"),
    MarkupColumn("sailed", "Sailed", right=True),
    MarkupColumn("boxes", "Boxes for here", right=True),
)
IN_PORT = (
    MarkupColumn("ship", "Ship"),
    MarkupColumn("from", "From"),
    MarkupColumn("arrived", "Arrived", right=True),
    MarkupColumn("boxes", "Still to come off", right=True),
)
UNKNOWN = {"container": "valid number", "slot": "slot", "size_type": "type", "pol": "port of loading", "pod": "port of discharge"}
LINKS = (
    MarkupColumn("node", "Node"),
    MarkupColumn("peer", "Peer"),
    MarkupColumn("class", "Over"),
    MarkupColumn("rtt", "Round trip", right=True),
    MarkupColumn("backlog", "Waiting to go", right=True),
    MarkupColumn("sent", "Sent", right=True),
    MarkupColumn("received", "Received", right=True),
    MarkupColumn("age", "As of", right=True),
)
WAITING = (
    MarkupColumn("node", "Ship"),
    MarkupColumn("stream", "Stream"),
    MarkupColumn("records", "Waiting for a link", right=True),
    MarkupColumn("since", "Oldest", right=True),
    MarkupColumn("age", "As of", right=True),
)
PROCESSES = (
    MarkupColumn("node", "Node"),
    MarkupColumn("process", "Process"),
    MarkupColumn("word", "Updated (real time)", markup=True),
    MarkupColumn("fleet", "In fleet time", right=True),
    MarkupColumn("counts", "What it has done since it started"),
)
STREAMS = (MarkupColumn("stream", "Stream"), MarkupColumn("records", "Records", right=True), MarkupColumn("newest", "Newest", right=True))


def names_of(fleet: Row, *answers: Row) -> dict[str, str]:
    """Return ships' names by IMO number, ports' by UN/LOCODE, customers' by `customer/<id>`: of the ships and ports in `fleet`, and of
    those that the answers name."""
    ships = {ship["imo"]: ship["name"] or f"IMO {ship['imo']}" for ship in fleet["ships"]}
    names = ships | {port["locode"]: port["name"] for port in fleet["ports"]}
    for answer in answers:
        names |= answer["names"]
    return names


def signal(container: Row, name: str) -> Any:
    """Return the last value of one signal of a container, or None."""
    reading = container["signals"].get(name)
    return reading["value"] if reading else None


def control_air(container: Row) -> tuple[str, Any]:
    """Return the temperature that counts, and its name: supply above a setpoint of -10 °C, return at or below; ambient for dry boxes."""
    setpoint = signal(container, "setpoint_c")
    name = "ambient" if setpoint is None else "supply" if setpoint > -10 else "return"
    return name, signal(container, f"{name}_c")


def where(container: Row, lost: Mapping[str, Row], names: Names) -> str:
    """Return where a container is, or that it is overboard, or where it was when the customer's right ended. An unconfirmed loss leaves it
    at the place that reported it."""
    loss = lost.get(container["number"])
    if loss and not loss["unconfirmed"]:
        return texts.status(loss["status"])
    reported = container["place"] or container["at_ms"] is not None or container["digest"]
    place = texts.place(container["place"], names) if reported else "Never reported"
    if container["ended"]:
        place = f"{place}, when the booking ended"
    elif container["standing"] == "delivered":
        place = "Delivered"
    elif container["place_basis"] == "papers":
        place = f"{place}, by the papers"
    return f"{place} (loss not confirmed)" if loss else place


def call_when(call: Row, now_at_ms: int) -> str:
    """Return the state of a ship's call by the ship's reports and by its load list. If it should have sailed by now, the text says that no
    departure is confirmed."""
    arrived, sailed, departs = (call[f"{what}_at_ms"] for what in ("arrived", "sailed", "departs"))
    if sailed is not None:
        return f"arrived {texts.stamp(arrived)}, sailed {texts.stamp(sailed)} UTC"
    overdue = departs <= now_at_ms
    if arrived is not None:
        sails = f"planned departure {texts.age(departs, now_at_ms)}, departure not confirmed"
        return f"in port since {texts.stamp(arrived)} UTC, {sails if overdue else f'planned departure {texts.stamp(departs)} UTC'}"
    if overdue:
        return f"planned departure {texts.age(departs, now_at_ms)}, call not confirmed"
    return f"expected; planned departure in {texts.span(departs - now_at_ms)}"


def lost_rows(alerts: Iterable[Row], boxes: Mapping[str, Row], now_at_ms: int) -> list[Texts]:
    """Return rows of LOST for the alerts of one incident's boxes. `boxes`: answers of `/api/containers/{number}` by number, as far as
    known."""
    rows = []
    for alert in alerts:
        known = boxes.get(alert["topic"], {})
        booking, box = known.get("booking") or {}, known.get("container") or {}
        at = alert["position"]
        basis = f" ({(at['basis'] or 'basis unknown').lower()})" if at else ""
        rows.append(
            {
                "number": alert["topic"],
                "slot": texts.slot(alert["slot"]),
                "cargo": _cargo(booking),
                "heard": texts.age((box["digest"] or box)["at_ms"], now_at_ms) if box else texts.NOTHING,
                "position": texts.position(at) + basis,
                "chance": texts.likelihood(alert["posterior"]),
                "state": state_pill(alert) + (f" {markup.pill('not confirmed', 'warning')}" if alert["unconfirmed"] else ""),
            }
        )
    return rows


def _cargo(booking: Row) -> str:
    if not booking:
        return texts.NOTHING
    dangerous = f", UN {booking['un_number']}" if booking.get("un_number") else ""
    return f"{booking['cargo']}{dangerous}"


def state_pill(alert: Row) -> str:
    """Return an alert's state in a frame: open, acknowledged by whom, or how it ended."""
    if alert["stage"] == "closed":
        return markup.pill(alert["state"], "muted")
    if alert["stage"] == "acknowledged":
        return markup.pill(f"acknowledged by {alert['acknowledgement']['by']}", "accent")
    return markup.pill("open, worse" if alert["reopened"] else "open", theme.SEVERITY_TONES.get(alert["severity"], "warning"))


def unconfirmed_note(alert: Row, names: Names, boxes: str = "this box") -> str:
    """Return the line under an alert or incident for an unconfirmed loss; empty for all others."""
    some = alert.get("unconfirmed_containers", [])
    if not alert["unconfirmed"] and not some:
        return ""
    boxes = boxes if alert["unconfirmed"] else ", ".join(some)
    return f'<p class="lf-note">{markup.escape(texts.unconfirmed(alert, names, boxes))}.</p>'


def evidence_rows(alert: Row) -> list[Texts]:
    """Return rows of EVIDENCE, the strongest first, in plain words."""
    return [
        {
            "family": texts.FAMILIES.get(piece["family"], texts.rule(piece["family"])),
            "detail": piece.get("detail") or texts.SIGNALS.get(piece["signal"], texts.rule(piece["signal"])),
            "at": texts.stamp(piece["at_ms"]),
            "weight": texts.NOTHING if piece.get("weight") is None or piece["family"] == PERSON else texts.weight(piece["weight"]),
        }
        for piece in alert["evidence"]
    ]


def due_in_rows(due_in: Iterable[Row], names: Names, now_at_ms: int) -> list[Texts]:
    """Return rows of DUE_IN and IN_PORT."""
    return [
        {
            "ship": names.get(due["ship"], due["ship"]),
            "from": names.get(due["from"], due["from"]),
            "sailed": texts.age(due["sailed_at_ms"], now_at_ms),
            "arrived": texts.age(due["arrived_at_ms"], now_at_ms),
            "boxes": texts.number(due["boxes"]["count"]),
        }
        for due in due_in
    ]


def unknown_on_list(unknown: Mapping[str, int]) -> str:
    """Return the facts that a call's load list lacks, or an empty text."""
    lacking = [f"{what} of {texts.counted(unknown[name], 'box', 'boxes')}" for name, what in UNKNOWN.items() if unknown.get(name)]
    return f"Unknown on the load list: {', '.join(lacking)}." if lacking else ""


def sending_rows(report: Row, now_at_ms: int) -> list[Texts]:
    """Return rows of SENDINGS: to whom a loss report went, when and how, and whether they acknowledged it."""
    return [
        {
            "sent": f"{texts.moment(one['sent_at_ms'])}, {texts.age(one['sent_at_ms'], now_at_ms)}",
            "to": f"{texts.recipient(one['to'])} {one['name']}".strip(),
            "means": one["means"],
            "by": one["by"],
            "receipt": _receipt(report, one),
        }
        for one in report["sendings"]
    ]


def _receipt(report: Row, sending: Row) -> str:
    of = [one for one in report["receipts"] if (one["to"], one["name"]) == (sending["to"], sending["name"])]
    known = [one for one in of if one["acknowledged_at_ms"] >= sending["sent_at_ms"]]
    return f"{known[0]['who']}, {texts.moment(known[0]['acknowledged_at_ms'])}" if known else "not acknowledged yet"


def notice_rows(notice: Row) -> list[Texts]:
    """Return rows of NOTICED: an owner's own boxes in one notice."""
    return [
        {
            "container": box["container"],
            "became": texts.became(box["became"]) + (", not confirmed" if box["unconfirmed"] else ""),
            "booking": box["booking"],
            "cargo": box["cargo"],
            "between": texts.NOTHING
            if box["lost_at_ms"] is None
            else f"{texts.stamp(box['lost_at_ms'])} and {texts.stamp(box['lost_until_ms'])}",
            "position": texts.position(box if box["latitude_deg"] is not None else None),
        }
        for box in notice["boxes"]
    ]


def link_rows(processes: Iterable[Row]) -> list[Texts]:
    """Return rows of LINKS from what the nodes' processes measure of their sessions (gauges `link.<peer>.<class>.<what>`)."""
    rows = []
    for process in processes:
        links: dict[tuple[str, str], dict[str, float]] = {}
        for name, value in process["gauges"].items():
            if name.startswith("link.") and name.count(".") >= 3:
                peer, link, what = name.removeprefix("link.").rsplit(".", 2)
                links.setdefault((peer, link), {})[what] = value
        for (peer, link), measured in sorted(links.items()):
            rows.append(
                {
                    "node": process["node"],
                    "peer": peer,
                    "class": link,
                    "rtt": texts.measured(measured.get("rtt_ms"), "ms", 0),
                    "backlog": texts.counted(int(measured["backlog_records"]), "record")
                    if "backlog_records" in measured
                    else texts.NOTHING,
                    "sent": texts.size(measured.get("sent_bytes")),
                    "received": texts.size(measured.get("received_bytes")),
                    "age": texts.ago(process["wall_age_ms"]),
                }
            )
    return rows


def waiting_rows(ships: Iterable[Row], now_at_ms: int) -> list[Texts]:
    """Return rows of WAITING: per ship and stream what the ship last reported as waiting on board; one row of nothing for a ship with
    nothing."""
    return [
        {
            "node": ship["node"],
            "stream": stream,
            "records": texts.counted(backlog["records"], "record"),
            "since": texts.age(backlog["since_at_ms"], now_at_ms) if backlog["records"] else texts.NOTHING,
            "age": texts.ago(ship["wall_age_ms"]),
        }
        for ship in ships
        for stream, backlog in sorted(ship["streams"].items()) or [(texts.NOTHING, {"records": 0})]
    ]


def process_rows(processes: Iterable[Row]) -> list[Texts]:
    """Return rows of PROCESSES: ages by the wall's clock, and in the fleet's time."""
    rows = []
    for process in processes:
        stale = process["wall_age_ms"] is None or process["wall_age_ms"] > STALE_WALL_MS
        counts = sorted(process["counts"].items(), key=lambda item: (-item[1], item[0]))[:4]
        rows.append(
            {
                "node": process["node"],
                "process": process["process"],
                "word": markup.pill(texts.ago(process["wall_age_ms"]), "warning" if stale else "good"),
                "fleet": texts.ago(process["age_ms"]),
                "counts": " · ".join(f"{texts.number(count)} {name.replace('_', ' ')}" for name, count in counts) or texts.NOTHING,
            }
        )
    return rows


def troubles(processes: Iterable[Row]) -> list[tuple[str, str]]:
    """Return what is wrong although the processes work, as each last reported: where, and a sentence."""
    return [(f"{process['process']} at {process['node']}", trouble) for process in processes for trouble in process["troubles"]]


def stream_rows(streams: Sequence[Row], now_at_ms: int) -> list[Texts]:
    """Return rows of STREAMS, the largest first."""
    return [
        {
            "stream": stream["stream"],
            "records": texts.number(stream["records"]),
            "newest": texts.age(stream["received_at_ms"], now_at_ms),
        }
        for stream in sorted(streams, key=lambda stream: (-stream["records"], stream["stream"]))
    ]
