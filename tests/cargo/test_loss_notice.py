"""Goal: an owner is told of its own boxes, when the carrier's policy lets it, and nothing that the others' boxes have a part in."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cargo.report.loss_form import Filled
from cargo.report.loss_report import Content, Head, LossReport, ReportedBox, State
from cargo.report.owner_notice import Notice, notice_text, notices
from cargo.vocabulary.instants import DOUBTED, window_text
from cargo.vocabulary.registry_entries import BookedContainer, Booking, Custody, Entry, NoticeStage, Ship
from cargo.vocabulary.registry_fold import Registry
from cargo.vocabulary.trade_codes import make_container
from tests.support.sea import SHIP, START_MS

LOST_AT_MS = START_MS + 3_600_000
OWNERS = ("duckworks", "merlion", "zenith")
NUMBERS = [make_container("DUCU", serial) for serial in range(12)]

words = st.text("abcdefgh", min_size=6, max_size=6)
boxes = st.builds(
    ReportedBox,
    container=st.sampled_from(NUMBERS),
    at_ms=st.integers(LOST_AT_MS, LOST_AT_MS + 600_000),
    slot=st.sampled_from(["0020782", "0060884"]),
    cargo=words,
    un_numbers=st.tuples(st.from_regex("[0-9]{4}", fullmatch=True)),
    lost_at_ms=st.integers(LOST_AT_MS, LOST_AT_MS + 600_000),
    lost_until_ms=st.integers(LOST_AT_MS + 600_000, LOST_AT_MS + 900_000),
    latitude_deg=st.floats(-60, 60),
    longitude_deg=st.floats(-180, 180),
    posterior=st.floats(0.9, 1),
    evidence=st.tuples(st.sampled_from(NUMBERS).map(lambda other: f"3 boxes fell silent within 2 min: {other}")),
)


@st.composite
def contents(draw: st.DrawFn) -> Content:
    """Up to twelve boxes, each lost, at risk or heard again; lines with their numbers and names in them."""
    drawn = draw(st.lists(boxes, min_size=1, max_size=12, unique_by=lambda box: box.container))
    kinds = [draw(st.sampled_from(("lost", "at_risk", "found"))) for _ in drawn]
    parts = {kind: tuple(box for box, own in zip(drawn, kinds, strict=True) if own == kind) for kind in ("lost", "at_risk", "found")}
    lines = {"number_lost": Filled(len(parts["lost"]), "RECKONED"), "cargo": Filled("; ".join(str(box.cargo) for box in drawn), "PAPER")}
    return Content(lines, parts["lost"], parts["at_risk"], parts["found"])


@st.composite
def registries(draw: st.DrawFn) -> Registry:
    """Each box in a booking of one of the owners, whose span began before the loss, or ended before it."""
    entries = [Entry("ship", SHIP, 1, START_MS, "clerk", Ship(SHIP, "Big Blue One", "9V1234", "563012345", "SG", 2_000))]
    for at, number in enumerate(NUMBERS):
        until = draw(st.sampled_from((None, START_MS + 60_000)))
        booking = Booking(
            f"BK-{at}",
            draw(st.sampled_from(OWNERS)),
            f"consignee-{at}",
            f"cargo-{at}",
            "JPTYO",
            "GBLON",
            containers=(BookedContainer(number, START_MS, until),),
        )
        entries.append(Entry("booking", booking.reference, 1, START_MS, "clerk", booking))
    return Registry(entries)


def report(content: Content, state: State = "draft", number: int = 1) -> LossReport:
    head = Head("incident-7", SHIP, "INITIAL", number)
    return LossReport(head, content, "d", "n", 0, state, START_MS, "ship", None, None, ())


def of(customer: str, made: list[Notice]) -> Notice | None:
    return next((one for one in made if one.customer == customer), None)


def owned_by(customer: str, registry: Registry, box: ReportedBox) -> bool:
    return registry.may_see(customer, box.container, box.at_ms)


@given(contents(), registries(), st.sampled_from(OWNERS), contents())
def test_others_boxes_change_nothing_in_an_owners_notice(content: Content, registry: Registry, owner: str, other: Content) -> None:
    """The boxes of all others taken out, and another incident's put in their place: the owner's notice is the same, byte for byte."""
    told = of(owner, notices([report(content)], registry, "drafted"))

    def swapped(kind: str) -> tuple[ReportedBox, ...]:
        own = [box for box in getattr(content, kind) if owned_by(owner, registry, box)]
        taken = {box.container for box in (*content.lost, *content.at_risk, *content.found)}
        foreign = [box for box in getattr(other, kind) if not owned_by(owner, registry, box) and box.container not in taken]
        return (*foreign, *own)

    changed = Content(other.lines, swapped("lost"), swapped("at_risk"), swapped("found"))
    assert of(owner, notices([report(changed)], registry, "drafted")) == told


@given(contents(), registries())
def test_a_notice_names_every_own_box_and_nothing_foreign(content: Content, registry: Registry) -> None:
    every = (*content.lost, *content.at_risk, *content.found)
    made = notices([report(content)], registry, "drafted")
    for owner in OWNERS:
        own = {box.container for box in every if owned_by(owner, registry, box)}
        notice = of(owner, made)
        assert (notice is not None) == bool(own)
        if notice is None:
            continue
        text = json.dumps(notice.to_json()) + notice_text(notice)
        assert {box.container for box in notice.boxes} == own
        foreign = [number for number in NUMBERS if number not in own]
        secrets = [*foreign, *(name for name in OWNERS if name != owner), "consignee-", "incident-7", "0020782", "0060884", "silent"]
        assert [secret for secret in secrets if secret in text] == []
        held = {f"cargo-{NUMBERS.index(number)}" for number in own}
        assert {box.cargo for box in notice.boxes} == held, "the cargo its own booking says, not the report's line of all"


SEEN: dict[NoticeStage, tuple[str, ...]] = {
    "drafted": ("draft", "edited", "approved", "sent"),
    "approved": ("approved", "sent"),
    "sent": ("sent",),
}


def content() -> tuple[Content, Registry]:
    lost = tuple(
        ReportedBox(container=number, at_ms=LOST_AT_MS, lost_at_ms=LOST_AT_MS, lost_until_ms=LOST_AT_MS + 60_000) for number in NUMBERS[:2]
    )
    spans = tuple(BookedContainer(number, START_MS) for number in NUMBERS[:2])
    booking = Booking("BK-1", "duckworks", "Toys", "toy ducks", "JPTYO", "GBLON", containers=spans)
    return Content({}, lost, (), ()), Registry([Entry("booking", "BK-1", 1, START_MS, "clerk", booking)])


def test_a_notice_says_when_and_that_its_place_is_estimated() -> None:
    told, registry = content()
    window = window_text(LOST_AT_MS, LOST_AT_MS + 60_000)
    text = notice_text(notices([report(told, "draft")], registry, "drafted")[0])
    assert f"     B{window[1:]} (UTC).\n" in text
    assert "reckoned" not in text


@pytest.mark.parametrize("told_from", SEEN)
@pytest.mark.parametrize("state", ["draft", "edited", "approved", "sent"])
def test_from_when_an_owner_is_told_is_the_carriers_policy(told_from: NoticeStage, state: State) -> None:
    told, registry = content()
    assert bool(notices([report(told, state)], registry, told_from)) == (state in SEEN[told_from])


def test_the_last_report_an_owner_may_know_counts() -> None:
    """Two boxes were reported, then one was heard again: until the UPDATE is sent, an owner told of sent reports alone knows of two."""
    told, registry = content()
    update = msgspec.structs.replace(told, lost=told.lost[:1], found=told.lost[1:])
    both = [report(told, "sent"), replace(report(update, "draft", 2))]

    def became(told_from: NoticeStage) -> list[Any]:
        return [box.became for box in notices(both, registry, told_from)[0].boxes]

    assert became("sent") == ["PROBABLY_LOST", "PROBABLY_LOST"]
    assert became("drafted") == ["PROBABLY_LOST", "HEARD_AGAIN"]
    assert "aboard: " in notice_text(notices(both, registry, "drafted")[0])


def test_an_owner_reads_that_the_times_may_be_wrong() -> None:
    told, registry = content()
    for doubted in (True, False):
        [notice] = notices([replace(report(told), clock_doubted=doubted)], registry, "drafted")
        assert (notice.to_json()["clock_doubted"], DOUBTED.capitalize() in notice_text(notice)) == (doubted, doubted)


def test_a_loss_from_a_ship_that_has_the_box_by_no_paper_is_not_confirmed() -> None:
    """The first box is on the ship by its custody record, the second on a quay; a box that was heard again is no claim at all."""
    told, registry = content()
    custody = (("ship/" + SHIP, NUMBERS[0]), ("quay/SGSIN", NUMBERS[1]))
    papers = Registry([*registry.entries(), *(Entry("custody", box, 1, START_MS, "quay", Custody(at, START_MS)) for at, box in custody)])
    [notice] = notices([report(told)], papers, "drafted")
    assert [box.unconfirmed for box in notice.boxes] == [False, True]
    assert notice_text(notice).count("Not confirmed") == 1
    [again] = notices([report(Content({}, (), (), told.lost))], papers, "drafted")
    assert [box.unconfirmed for box in again.boxes] == [False, False]
