"""An incident's loss reports, and those of containers seen adrift: how far each has come, its text to transcribe, files of it, to whom it
went; and the company's own hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from cargo.report.loss_form import BY_NAME, DRIFTING, HINTS, LINES, value_text
from cargo.report.loss_report import RECIPIENTS
from cargo.vocabulary.instants import DOUBTED
from dashboards import markup, page_tables, texts
from dashboards.api_client import address
from dashboards.views import tab_session

Answer = Mapping[str, Any]
FILES = (("Text", "txt", "text/plain"), ("PDF", "pdf", "application/pdf"), ("JSON", "json", "application/json"))
"""Each file of a report: the button's label, the ending, the media type."""


def show(incident_id: str) -> None:
    """Draw the section, the newest report first. Raises Trouble."""
    answer = tab_session.ask(address("incidents", incident_id, "reports"))
    reports, now = answer["items"], tab_session.latest_now_ms(answer)
    if not reports:
        st.html(markup.paragraph("No loss report has arrived from the ship yet. It drafts one within seconds of a loss.", muted=True))
    if tab_session.logged_in().reports_losses:
        _own_draft(incident_id, reports)
    for report in reversed(reports):
        _report(report, now)


def show_sightings(answer: Answer, names: Mapping[str, str]) -> None:
    """Draw the reports of containers that ships saw adrift, each sighting's newest first."""
    now = tab_session.latest_now_ms(answer)
    for sighting in sorted({report["incident_id"] for report in answer["items"]}):
        reports = [report for report in answer["items"] if report["incident_id"] == sighting]
        with st.container(border=True, key=f"sighting-{sighting}"):
            ship = reports[-1]["ship"]
            st.html(markup.paragraph(f"{names.get(ship, ship)} · {texts.sighted(reports[-1]['lines'])}"))
            for report in reversed(reports):
                _report(report, now)


def _own_draft(incident_id: str, reports: Sequence[Answer]) -> None:
    """Draw the way to a draft of headquarters' own, when the ship's did not come or there is news; and to the FINAL once something was
    sent."""
    offered = {"draft": "Draft an update here" if reports else "Draft one here, in the company's name"}
    if any(report["state"] == "sent" for report in reports) and reports[-1]["kind"] != "FINAL":
        offered["final"] = "Draft the FINAL here"
    with st.container(horizontal=True, gap="small"):
        for what, label in offered.items():
            if st.button(label, key=f"own-{what}-{incident_id}", icon=":material/edit_document:"):
                tab_session.do(address("incidents", incident_id, "reports"), do=what)
                st.rerun(scope="fragment")


def _report(report: Answer, now_at_ms: int) -> None:
    key = f"{report['report_id']}-{report['digest']}-{report['state']}-{len(report['sendings'])}-{len(report['receipts'])}"
    state, tone = texts.REPORT_STATES[report["state"]]
    of = "Containers seen adrift, report" if _is_sighting(report) else "Loss report"
    head = f"<b>{of} {report['number']}, {report['kind']}</b> {markup.pill(state, tone)}"
    st.html(f'{head}<p class="lf-note">{markup.escape(_history(report, now_at_ms))}</p>')
    name = f"loss-report-{report['incident_id'][:8]}-{report['number']}"
    with st.container(horizontal=True, gap="small"):
        for label, ending, kind in FILES:
            made = tab_session.file(address("reports", report["report_id"], "file"), **{"as": ending})
            file, icon = f"{name}.{ending}", ":material/download:"
            st.download_button(label, made, file, kind, key=f"{ending}-{key}", icon=icon, on_click="ignore")
    with st.expander("As text to transcribe", icon=":material/description:", key=f"text-{key}"):
        st.code(report["text"], language=None, wrap_lines=True)
    if report["sendings"]:
        st.html(markup.table(page_tables.SENDINGS, page_tables.sending_rows(report, now_at_ms), ""))
    if tab_session.logged_in().reports_losses:
        _company(report, key)


def _company(report: Answer, key: str) -> None:
    """Draw the acts of the company that the master can not do: fill in a line, approve, record a sending."""
    with st.expander("Report in the company's name", icon=":material/edit_document:", key=f"company-{key}"):
        st.html(
            markup.paragraph("The company reports where the ship can not. Nothing is sent automatically: record what you sent.", muted=True)
        )
        if report["state"] != "sent":
            _edit_form(report, key)
        if report["state"] in ("draft", "edited"):
            _approval(report, key)
            return
        if report["sendings"]:
            _receipt_form(report, key)
        with st.form(f"sent-{key}", border=False):
            to = st.selectbox("It went to", RECIPIENTS, format_func=lambda code: texts.recipient(code) or "Other", key=f"to-{key}")
            name = st.text_input("Name", key=f"name-{key}")
            means = st.text_input("By what means", key=f"means-{key}")
            if st.form_submit_button("Record as sent", type="primary"):
                _do(report, do="sent", to=to, name=name, means=means)


def _edit_form(report: Answer, key: str) -> None:
    """Draw the form that fills in one line. Lines that the registry knows are not among them."""
    titles = {line.name: line.title for line in LINES if line.name not in report["locked"]}
    name = st.selectbox("Line", list(titles), list(titles).index("reported_by"), titles.__getitem__, key=f"line-{key}")
    line, value = BY_NAME[name], report["lines"][name]["value"]
    with st.form(f"edit-{key}", border=False):
        if line.words:
            options = ("", *line.words)
            at = options.index("COMPANY" if name == "reported_by" else value or "")
            text = st.selectbox(line.title, options, at, lambda word: word or "unknown", key=f"given-{name}-{key}")
        else:
            known = "" if value is None else value_text(name, value)
            text = st.text_input(line.title, known, placeholder=HINTS.get(line.holds, "unknown"), key=f"given-{name}-{key}")
        if st.form_submit_button("Save"):
            _do(report, do="edit", given={name: text})


def _approval(report: Answer, key: str) -> None:
    """Draw the button that approves, which asks once more and shows what is empty."""
    asking = f"approving-{key}"
    if not st.session_state.get(asking):
        st.button("Approve as it stands", key=f"approve-{key}", type="primary", on_click=st.session_state.update, args=({asking: True},))
        return
    empty = {
        voluntary: [line.title for line in LINES if line.name in report["empty"] and line.voluntary is voluntary]
        for voluntary in (False, True)
    }
    if empty[False]:
        st.html(markup.banner(f"Empty: {', '.join(empty[False])}.", "warning"))
    else:
        st.html(markup.paragraph("No line that the report must have is empty."))
    if empty[True]:
        st.html(markup.paragraph(f"Empty, voluntary: {', '.join(empty[True])}.", muted=True))
    with st.container(horizontal=True, gap="small"):
        if st.button(f"Approve as {tab_session.logged_in().name}", key=f"approve-now-{key}", type="primary"):
            _do(report, do="approve", digest=report["digest"])
        st.button("Cancel", key=f"approve-not-{key}", on_click=st.session_state.pop, args=(asking,))


def _receipt_form(report: Answer, key: str) -> None:
    """Draw the form that records that a recipient acknowledged it."""
    sent = report["sendings"]
    with st.form(f"receipt-{key}", border=False):
        at = st.selectbox(
            "Acknowledged by",
            range(len(sent)),
            format_func=lambda at: f"{texts.recipient(sent[at]['to'])} {sent[at]['name']}".strip() or "Other",
            key=f"receipt-of-{key}",
        )
        who = st.text_input("Name of the person", key=f"who-{key}")
        if st.form_submit_button("Record as acknowledged"):
            _do(report, do="acknowledged", to=sent[at]["to"], name=sent[at]["name"], who=who)


def _do(report: Answer, **what: Any) -> None:
    tab_session.do(address("incidents", report["incident_id"], "reports"), report=report["report_id"], **what)
    st.rerun(scope="fragment")


def _history(report: Answer, now_at_ms: int) -> str:
    said = [f"written by {report['written_by']} {texts.age(report['written_at_ms'], now_at_ms)}"]
    if report["approved_by"]:
        said.append(f"approved by {report['approved_by']}, {texts.moment(report['approved_at_ms'])}")
    said.append(f"sent {texts.counted(len(report['sendings']), 'time')}" if report["sendings"] else "not sent")
    if report["clock_doubted"]:
        said.append(DOUBTED)
    boxes = f"{len(report['lost'])} lost, {len(report['at_risk'])} at risk, {len(report['found'])} found again"
    return " · ".join(said if _is_sighting(report) else [boxes, *said])


def _is_sighting(report: Answer) -> bool:
    return bool(report["lines"].get("type", {}).get("value") == DRIFTING)
