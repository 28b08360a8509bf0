"""An incident's loss reports: how far each has come, its text to transcribe, files of it, and to whom it went."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import streamlit as st

from cargo.losspdf import report_pdf
from cargo.lossreport import report_of
from dashboards import markup, tables, words
from dashboards.client import address
from dashboards.views import session

Answer = Mapping[str, Any]


def show(incident_id: str, now_at_ms: int) -> None:
    """The section, the newest report first. Raises Trouble."""
    told = session.ask(address("incidents", incident_id, "reports"))["items"]
    if not told:
        st.html(markup.paragraph("No loss report has come from the ship yet: she drafts it within seconds of a loss.", muted=True))
    for report in reversed(told):
        _report(report, now_at_ms)


def _report(report: Answer, now_at_ms: int) -> None:
    key = f"{report['report_id']}-{report['digest']}-{report['state']}-{len(report['sendings'])}"
    state, tone = words.REPORT_STATES[report["state"]]
    head = f"<b>Loss report {report['number']}, {report['kind']}</b> {markup.pill(state, tone)}"
    st.html(f'{head}<p class="lf-note">{markup.escape(_history(report, now_at_ms))}</p>')
    name = f"loss-report-{report['incident_id'][:8]}-{report['number']}"
    with st.container(horizontal=True, gap="small"):
        for ending, kind, made in _files(report):
            label, icon = ending.upper() if ending != "txt" else "Text", ":material/download:"
            st.download_button(label, made, f"{name}.{ending}", kind, key=f"{ending}-{key}", icon=icon, on_click="ignore")
    with st.expander("As text to transcribe", icon=":material/description:", key=f"text-{key}"):
        st.code(report["text"], language=None, wrap_lines=True)
    if report["sendings"]:
        st.html(markup.table(tables.SENDINGS, tables.sending_rows(report, now_at_ms), ""))


def _history(report: Answer, now_at_ms: int) -> str:
    said = [f"written by {report['written_by']} {words.age(report['written_at_ms'], now_at_ms)}"]
    if report["approved_by"]:
        said.append(f"approved by {report['approved_by']}, {words.moment(report['approved_at_ms'])}")
    said.append(f"sent {words.counted(len(report['sendings']), 'time')}" if report["sendings"] else "sent to nobody yet")
    boxes = f"{len(report['lost'])} lost, {len(report['at_risk'])} at risk, {len(report['found'])} heard again"
    return " · ".join([boxes, *said])


def _files(report: Answer) -> tuple[tuple[str, str, Callable[[], bytes]], ...]:
    """Ending, media type, and what makes the file when somebody asks for it."""
    bare = {name: value for name, value in report.items() if name != "text"}
    return (
        ("txt", "text/plain", partial(str.encode, report["text"])),
        ("pdf", "application/pdf", lambda: report_pdf(report_of(report))),
        ("json", "application/json", lambda: json.dumps(bare, ensure_ascii=False, indent=1).encode()),
    )
