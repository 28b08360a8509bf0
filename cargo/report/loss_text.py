"""A loss report as text: for a person to read, to transmit over the radio, and to copy into the form."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from cargo.report.loss_form import BASES, DRIFTING, LINES, LOSS, UNKNOWN, value_text
from cargo.report.loss_report import LossReport, ReportedBox, Sending, receipt_of
from cargo.vocabulary.instants import DOUBTED, time_text
from cargo.vocabulary.slots import slot_text

TITLES = {LOSS: "LOSS OF FREIGHT CONTAINER(S) FROM A SHIP", DRIFTING: "DRIFTING FREIGHT CONTAINER(S) OBSERVED"}
LAW = "SOLAS V/31 and V/32 as amended by MSC.550(108). Transcribe into the form of CCC.1/Circ.7."
WIDTH = 100
_STATES = {
    "draft": "DRAFT, made by the ship's node. Nobody has approved it; it has not been sent.",
    "edited": "DRAFT, edited. Nobody has approved it; it has not been sent.",
    "approved": "APPROVED, not sent yet.",
    "sent": "SENT.",
}


def report_text(report: LossReport) -> str:
    """Return the whole report, each line with its basis and source; up to WIDTH columns."""
    return "\n".join([*heading(report), "", *_form(report), *_boxes(report), *_sendings(report)]) + "\n"


def headline(report: LossReport) -> str:
    """Return what the report is about: a loss, or containers adrift."""
    return TITLES[DRIFTING if report.content.lines.get("type", UNKNOWN).value == DRIFTING else LOSS]


def heading(report: LossReport) -> list[str]:
    """Return the lines that give the subject of the report, its identity, and its state."""
    head = report.head
    refers = f", refers to number {head.refers_to.rpartition('-')[2]}" if head.refers_to else ""
    lines = [
        headline(report),
        LAW,
        f"{head.kind} report, number {head.number} of incident {head.incident_id}{refers}",
        _STATES[report.state],
    ]
    if report.clock_doubted:
        lines.append(f"{DOUBTED.capitalize()}.")
    if report.approved_by is not None and report.approved_at_ms is not None:
        lines.append(f"Approved by {report.approved_by} at {time_text(report.approved_at_ms)}.")
    return lines


def rows(report: LossReport) -> Iterator[tuple[str, str, str]]:
    """Yield each line of the form: title, value, and basis with source."""
    for line in LINES:
        filled = report.content.lines.get(line.name, UNKNOWN)
        basis = BASES[filled.basis] if filled.value is not None else ""
        source = ": ".join(part for part in (basis, filled.source) if part)
        yield f"{line.title}{' (voluntary)' if line.voluntary else ''}", value_text(line.name, filled.value), source


def box_texts(box: ReportedBox) -> tuple[str, str]:
    """Return two texts for one box: its description and place; and when and where it was lost, on what evidence."""
    empty = "empty or laden unknown" if box.empty is None else "empty" if box.empty else "laden"
    danger = {"YES": f"dangerous goods UN {', '.join(box.un_numbers)}", "NO": "no dangerous goods", "UNKNOWN": "dangerous goods unknown"}
    paper = f"from documents: {box.listed}" if box.listed else "on no list"
    what = [
        box.container,
        box.size_type or "type unknown",
        empty,
        slot_text(box.slot) if box.slot else "slot unknown",
        danger[box.dangerous],
    ]
    if box.cargo:
        what.append(box.cargo)
    how = []
    if box.lost_at_ms is not None:
        how.append(f"{'at' if box.blow else 'after'} {time_text(box.lost_at_ms)}")
    if box.lost_until_ms is not None and not box.blow:
        how.append(f"not later than {time_text(box.lost_until_ms)}")
    if box.status == "CONFIRMED_LOST":
        how.append("confirmed by a person aboard")
    elif box.posterior is not None:
        how.append(f"probability {probability_text(box.posterior)}")
    return f"{', '.join(what)} ({paper})", "; ".join([*how, *box.evidence])


def probability_text(posterior: float) -> str:
    """Return a probability with four places, never rounded up to certainty."""
    return f"{posterior:.4f}" if posterior <= 0.9999 else "> 0.9999"


def _form(report: LossReport) -> Iterator[str]:
    for title, value, source in rows(report):
        yield from _wrapped(f"{title}: {value}{f'  [{source}]' if source else ''}")


def _boxes(report: LossReport) -> Iterator[str]:
    content = report.content
    for title, boxes in (("Containers lost", content.lost), ("At risk: without a working tracker, in the same stacks", content.at_risk)):
        if boxes:
            yield from ("", f"{title} ({len(boxes)})")
        for number, box in enumerate(boxes, 1):
            what, how = box_texts(box)
            yield from _wrapped(f"{number:>3}. {what}")
            if how:
                yield from _wrapped(f"     {how}")
    if content.found:
        yield from ("", "Heard or seen again, so not lost")
        yield from _wrapped(f"     {', '.join(box.container for box in content.found)}")


def _sendings(report: LossReport) -> Iterator[str]:
    if report.sendings:
        yield from ("", "Sent")
    for one in report.sendings:
        yield from _wrapped(f"     {time_text(one.sent_at_ms)} to {one.to} {one.name} by {one.means}, recorded by {one.by}")
        yield from _wrapped(f"       {receipt_text(report, one)}")


def receipt_text(report: LossReport, sending: Sending) -> str:
    """Return whether the recipient acknowledged a sending: who, when, and who recorded that."""
    receipt = receipt_of(report, sending)
    if receipt is None:
        return "not acknowledged yet"
    return f"acknowledged by {receipt.who} at {time_text(receipt.acknowledged_at_ms)}, recorded by {receipt.by}"


def _wrapped(text: str) -> list[str]:
    return (
        textwrap.wrap(text, WIDTH, subsequent_indent="     ", drop_whitespace=True, replace_whitespace=False)
        if len(text) > WIDTH
        else [text]
    )
