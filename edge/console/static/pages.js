// The pages: muster, alerts, losses with their reports, link and backlog. Each is a function of what the node told last.

import { act, ago, alertCount, ask, count, field, forget, h, moment, myName, open, save, seen, shape, show, unkept, when } from "/console/console.js";

const REASONS = {
  heard: "heard", below_deck_not_due: "below deck, not due", not_due: "not due yet", collapsed: "fallen, still aboard", seen: "seen on board, silent", ashore: "ashore",
  not_heard: "never reported",
  late: "late", gateway_silent: "its gateway is silent", missing: "missing", gone: "gone", not_instrumented: "no tracker",
};
const WORST = ["gone", "missing", "collapsed", "gateway_silent", "late", "not_heard", "seen", "ashore", "heard"];
const ACCOUNTED = ["heard", "below_deck_not_due", "not_due", "collapsed", "seen", "ashore"];
const SAID = { seen: "Seen on board", collapsed: "Stack collapsed, still aboard", gone: "Count taken: gone", ashore: "Was put ashore" };
const STATES = {
  ONBOARD: "on board", LATE: "late", MISSING: "missing", PROBABLE_OVERBOARD: "probably overboard", CONFIRMED_LOST: "lost: confirmed by a count", REPORTED_INITIAL: "reported as lost",
  REPORTED_FINAL: "reported as lost, final report", FOUND: "seen or heard again", DEVICE_FAULT: "its tracker fails", GATEWAY_OUTAGE: "its gateway is silent", DISCHARGED: "discharged", COLLAPSED_ON_BOARD: "fallen, still aboard",
};
const RECIPIENTS = { SHIPS_IN_VICINITY: "Ships in the vicinity", COASTAL_STATE: "Nearest coastal State", FLAG_STATE: "Flag State", COMPANY: "Company", OTHER: "Other" };
const BASES = { MEASURED: "measured", RECKONED: "estimated", PAPER: "from documents", GIVEN: "given", UNKNOWN: "unknown" };
const BAYS = { none: "no list", unknown: "no slot" };
const BAY_TITLES = { none: "Heard aboard, on no list", unknown: "On the list, slot unknown" };
const FAMILIES = {
  presence: "Silence", kinematic: "Its own movement", group: "Its neighbours", motion: "The ship's motion", slot: "Where it stood", power: "Power of the stack", position: "Its position", contra: "Against a loss",
  incident: "The incident", person: "A person's statement",
};
const NUMBERS = { ilu: "ILU code of a swap body or trailer", owner: "shipper-owned, without check digit", unreadable: "not a valid container number" };
const LINKS = { auto: "automatic", none: "none", satellite: "satellite" };

const severity = (one) => (one.severity === "LOG" ? "info" : one.severity.toLowerCase());
const containers = (number) => `${count(number)} container${number === 1 ? "" : "s"}`;

// Muster

export function musterPage(board) {
  const muster = board.muster;
  const without = muster.reasons.not_instrumented || 0;
  const all = muster.accounted === muster.instrumented;
  if (!muster.total && !muster.bays.length) return h("section", { class: "panel" }, h("h2", {}, "No load list in force"), h("p", { class: "muted" }, "The muster begins when the load list arrives from headquarters, or when a box is heard."));
  return [
    h("section", { class: "panel muster" },
      muster.instrumented
        ? h("h1", { class: `sum num ${all ? "heard" : "missing"}` }, shape(all ? "heard" : "missing"), ` ${count(muster.accounted)} of ${count(muster.instrumented)} accounted for`)
        : h("h1", { class: "sum not_instrumented" }, shape("not_instrumented"), " No count: no container on the list carries a tracker"),
      h("p", {}, "containers with a tracker · as of ", when(muster.at_ms)),
      h("p", { class: "late ifaged" }, shape("late"), " The muster was not updated since then: the present state of the boxes is not known."),
      (muster.reported || []).length ? h("p", { class: "gone" }, shape("gone"), ` ${containers(muster.reported.length)} of those gone ${muster.reported.length === 1 ? "is" : "are"} reported as lost.`) : null,
      without ? h("p", { class: "not_instrumented" }, shape("not_instrumented"), ` ${containers(without)} ${without === 1 ? "carries" : "carry"} no tracker; ${without === 1 ? "it is" : "they are"} not counted above.`) : null,
      muster.not_on_list.length ? h("p", { class: "late" }, `${containers(muster.not_on_list.length)} heard aboard that are on no list: see bay “no list”.`) : null,
      h("div", { class: "legend" }, Object.entries(REASONS).filter(([reason]) => muster.reasons[reason]).map(([reason, title]) => h("span", { class: reason }, shape(reason), " ", h("b", { class: "num" }, count(muster.reasons[reason])), ` ${title}`)))),
    h("section", { class: "panel muster" }, h("h2", {}, "Bays, from the bow"), h("div", { class: "bays", role: "group", "aria-label": "Bays" }, muster.bays.map(bayButton))),
    seen.bay && seen.bayBoxes ? h("div", { class: "split" }, bayPanel(seen.bayBoxes), boxPanel(seen.bayBoxes)) : h("p", { class: "muted" }, "Select a bay to see its boxes."),
  ];
}

function bayButton(one) {
  const worst = WORST.find((reason) => one.reasons[reason]) || Object.keys(one.reasons)[0];
  const name = BAYS[one.bay] || one.bay;
  const title = `Bay ${name}: ${count(one.accounted)} of ${count(one.instrumented)} accounted for; ${Object.entries(one.reasons).map(([reason, number]) => `${number} ${REASONS[reason]}`).join(", ")}`;
  const grave = one.reasons.gone || one.reasons.missing;
  return h("button", { key: `bay-${one.bay}`, class: grave ? "wrongbay" : "", "aria-pressed": String(seen.bay === one.bay), "aria-label": title, title, onclick: () => show({ bay: one.bay, box: null, bring: `#bay-${one.bay}`, bayBoxes: seen.bay === one.bay ? seen.bayBoxes : null }) },
    h("span", { class: "n" }, name, shape(worst)), h("span", { class: "small num muted" }, one.instrumented ? `${count(one.accounted)} / ${count(one.instrumented)}` : "no tracker"));
}

const across = (row) => (row % 2 ? (row + 1) / 2 : -row / 2);

// From port to starboard, those where nothing stands among them: who reads "12, 08" takes the second stack for row 10.
function rowsOf(boxes) {
  const places = boxes.map((box) => across(box.row));
  const rows = [];
  for (let place = Math.min(...places); place <= Math.max(...places); place += 1) {
    if (place || places.includes(0)) rows.push(place > 0 ? 2 * place - 1 : -2 * place);
  }
  return rows;
}

/** The bay as one looks forward from aft: port at the left, hatch cover between deck and hold. */
export function bayPanel(told) {
  const placed = told.boxes.filter((box) => box.slot);
  const rows = rowsOf(placed);
  const tiers = [...new Set(placed.map((box) => box.tier))].sort((one, other) => other - one);
  const at = new Map(placed.map((box) => [`${box.row}/${box.tier}`, box]));
  const lines = [];
  const below = tiers.find((tier) => placed.some((box) => box.tier === tier && !box.on_deck));
  tiers.forEach((tier) => {
    if (tier === below) lines.push(h("tr", {}, h("th", {}, ""), h("td", { class: "hatch", colspan: rows.length, title: "hatch cover" })));
    lines.push(h("tr", {}, h("th", { scope: "row" }, String(tier).padStart(2, "0")), rows.map((row) => h("td", {}, at.has(`${row}/${tier}`) ? cell(at.get(`${row}/${tier}`)) : null))));
  });
  const loose = told.boxes.filter((box) => !box.slot);
  return h("section", { class: "panel muster", id: `bay-${told.bay}` },
    h("h2", {}, BAY_TITLES[told.bay] || `Bay ${told.bay}`), h("p", { class: "small muted" }, "seen from aft: port left, starboard right · as of ", when(told.at_ms)),
    placed.length ? h("div", { class: "hold" }, h("table", { class: "bay" }, h("thead", {}, h("tr", {}, h("th", {}, "tier"), rows.map((row) => h("th", { scope: "col" }, String(row).padStart(2, "0"))))), h("tbody", {}, lines))) : null,
    loose.length ? h("div", { class: "bays" }, loose.map(cell)) : null);
}

const slotText = (slot) => (/^\d{7}$/.test(slot || "") ? `bay ${slot.slice(0, 3)}, row ${slot.slice(3, 5)}, tier ${slot.slice(5)}` : slot);
const slotOf = (box) => slotText(box.slot) || (box.slot === "" ? "slot unknown" : "on no list");

function cell(box) {
  const name = `${box.container}, ${slotOf(box)}: ${REASONS[box.reason]}`;
  return h("button", { key: `box-${box.container}`, class: `cell ${box.reason}`, "aria-pressed": String(seen.box === box.container), "aria-label": name, title: name, onclick: () => show({ box: box.container, bring: "#box" }) }, shape(box.reason), h("span", { class: "tail mono" }, box.container.slice(-7)));
}

function boxPanel(told) {
  const box = told.boxes.find((one) => one.container === seen.box);
  if (!box) return h("section", { class: "panel" }, h("h2", {}, "A box"), h("p", { class: "muted" }, "Select a box to see when and by which gateway it was heard, and to record what you know of it."));
  return h("section", { class: "panel muster", id: "box", "aria-label": `Box ${box.container}` },
    h("h2", { class: "mono" }, box.container), NUMBERS[box.number_kind] ? h("p", { class: "late" }, `Number: ${NUMBERS[box.number_kind]}.`) : null, h("p", { class: box.reason }, shape(box.reason), ` ${REASONS[box.reason]}`),
    h("dl", {}, h("dt", {}, "Slot"), h("dd", { class: "mono" }, slotOf(box)), h("dt", {}, "Last heard"), h("dd", {}, when(box.last_heard_at_ms)), h("dt", {}, "By gateway"), h("dd", {}, box.gateway || "none yet"), h("dt", {}, "State"), h("dd", {}, STATES[box.state] || "never reported")),
    box.may_say.length ? sayForm(box) : h("p", { class: "small muted" }, "No action needed: neither silent nor lost."));
}

function sayForm(box) {
  const note = field("input", { maxlength: 200, key: `note-${box.container}`, placeholder: "what was seen, from where" });
  const say = (said) => () => {
    if (said === "gone" && !confirm(`${box.container}: a count was taken and it is not aboard?`)) return;
    act(`${box.container}: “${SAID[said]}” is recorded, by ${myName()}.`, () => ask("/ship/decide", { container: box.container, said, note: note.value }), `note-${box.container}`);
  };
  return h("div", { class: "stackv" }, h("h3", {}, "What you know of it"), h("label", {}, h("span", {}, "Note (may be empty)"), note),
    box.may_say.map((said) => h("button", { key: `say-${said}`, class: said === "gone" ? "grave" : "", onclick: say(said) }, SAID[said])), h("p", { class: "small muted" }, `Recorded with your name, ${myName()}, and reported ashore.`));
}

// Alerts

export function alertsPage(board) {
  const waiting = open();
  const single = (one) => !one.incident_id;
  const of = (stage) => board.alerts.filter((one) => one.stage === stage);
  const stageOf = (id) => ["open", "acknowledged"].find((stage) => of(stage).some((one) => one.incident_id === id)) || "closed";
  const incidents = (stage) => board.alerts.filter((one) => one.incident && stageOf(one.incident_id) === stage).map((one) => incidentCard(one, board));
  const folded = (stage) => of(stage).length ? h("details", { class: "panel" }, h("summary", { key: stage }, `${count(alertCount(of(stage)))} ${stage}`), h("div", { class: "stackv" }, incidents(stage), of(stage).filter(single).map(alertCard))) : null;
  return [
    h("div", { class: "row" }, h("h2", { class: "grow" }, waiting.length ? `${count(alertCount(waiting))} open` : of("acknowledged").length ? `${count(alertCount(of("acknowledged")))} acknowledged, none open` : "None open"), waiting.length > 1 ? h("button", { class: "main", key: "ack-all", onclick: () => acknowledge(waiting) }, `Acknowledge all ${count(alertCount(waiting))}`) : null),
    waiting.length ? null : h("section", { class: "panel heard" }, shape("heard"), " No alert is open."),
    incidents("open"),
    waiting.filter(single).map(alertCard),
    folded("acknowledged"),
    folded("closed"),
  ];
}

const alertsOf = (alerts) => `${count(alertCount(alerts))} alert${alertCount(alerts) === 1 ? "" : "s"}`;

const acknowledge = (alerts) => act(`Acknowledged by ${myName()}: ${alertsOf(alerts)}.`, async () => {
  for (const one of alerts) await ask("/ship/acknowledge", { alert: one.alert_id });
});

function noteForm(one) {
  const key = `noted-${one.alert_id}`;
  const note = field("input", { key, maxlength: 500, placeholder: "note (may be empty)", "aria-label": `Note on ${one.title}` });
  const keep = (event) => {
    event.preventDefault();
    document.activeElement.blur();
    act(`Acknowledged by ${myName()}: 1 alert.`, () => ask("/ship/acknowledge", { alert: one.alert_id, note: note.value }), key);
  };
  return h("form", { class: "row", onsubmit: keep }, note, h("button", { class: "main", key: `ack-${one.alert_id}` }, "Acknowledge"));
}

const takeBack = (one) => act(`Taken back by ${myName()}: the alert is open again.`, () => ask("/ship/unacknowledge", { alert: one.alert_id }));

const notedBy = (one) => `✓ ${one.acknowledgement.by}, ${moment(one.acknowledgement.at_ms)}${one.acknowledgement.note ? `: ${one.acknowledgement.note}` : ""}`;

function noted(one) {
  if (one.stage === "open") return noteForm(one);
  return [one.acknowledgement ? h("span", { class: "pill heard" }, notedBy(one)) : null, one.stage === "acknowledged" ? h("button", { key: `back-${one.alert_id}`, onclick: () => takeBack(one) }, "Take back") : null];
}

function worsened(one) {
  if (!one.reopened) return null;
  return h("p", { class: "gone" }, `Worse since ${one.acknowledgement.by} acknowledged it at ${moment(one.acknowledgement.at_ms)}: ${one.change}.`);
}

const repeated = (one) => one.count > 1 ? [` · ${count(one.count)} times, last `, when(one.last_at_ms)] : "";

const doubted = (one) => one.clock_doubted ? " · times not confirmed: the clock of the node was in doubt" : "";

// Of what began a minute or more before its alert was raised.
const began = (one) => one.count === 1 && one.raised_at_ms - one.first_at_ms >= 60000 ? [" · began ", when(one.first_at_ms)] : "";

function alertCard(one) {
  const closed = one.stage === "closed" ? ` · ${one.state}${one.by ? ` by ${one.by}${one.note ? `: ${one.note}` : ""}` : ""}` : "";
  return h("section", { class: `panel alert ${one.stage === "open" ? one.severity : "closed"}` },
    h("div", { class: "row" }, h("div", { class: "grow" }, h("h3", {}, `${severity(one)} · ${one.title}`), h("p", { class: "small muted" }, one.topic.includes(".") ? "the ship" : h("span", { class: "mono" }, one.topic), one.slot ? ` · ${slotText(one.slot)}` : "", began(one), " · raised ", when(one.raised_at_ms), repeated(one), closed, doubted(one))), noted(one)),
    worsened(one), one.detail ? h("p", {}, one.detail) : null, evidence(one));
}

function evidence(one) {
  if (!one.evidence.length) return null;
  const rows = one.evidence.map((piece) => h("tr", {}, h("td", {}, FAMILIES[piece.family] || piece.family), h("td", {}, piece.detail || piece.signal), h("td", { class: "r num" }, weight(piece)), h("td", { class: "num" }, moment(piece.at_ms))));
  return h("details", {}, h("summary", { key: `why-${one.alert_id}` }, `Evidence${one.posterior === null ? "" : ` · probability of a loss ${percent(one.posterior)} %`}`), h("table", { class: "list" }, h("thead", {}, h("tr", {}, h("th", {}, "family"), h("th", {}, "what"), h("th", { class: "r" }, "weight"), h("th", {}, "when"))), h("tbody", {}, rows)));
}

/** A log10 likelihood ratio in words: `1,000× for a loss`. A person's statement is not weighed. */
export function weight(piece) {
  if (piece.weight === null || piece.family === "person") return "–";
  if (!piece.weight) return "opens the case";
  const times = 10 ** Math.abs(piece.weight);
  return `${times >= 10 ? count(Math.round(times)) : times.toFixed(1)}× ${piece.weight > 0 ? "for" : "against"} a loss`;
}

// Never rounded up to certainty, nor down to none, as headquarters' pages write it.
export function percent(share) {
  if (share > 0.9999 || share < 0.01) return share < 0.5 ? "< 1" : "> 99.99";
  return (share * 100).toFixed(share >= 0.99 ? 2 : 0);
}

function arc(degrees, ends) {
  const tenths = Math.round(Math.abs(degrees) * 600); // of a minute: 59.96 of them are the next degree
  return `${Math.floor(tenths / 600)}°${((tenths % 600) / 10).toFixed(1).padStart(4, "0")}′ ${ends[degrees < 0 ? 1 : 0]}`;
}

export function position(where) {
  return where ? `${arc(where.latitude_deg, "NS")} ${arc(where.longitude_deg, "EW")}` : "position not known";
}

function incidentCard(one, board) {
  const boxes = board.alerts.filter((other) => other.incident_id === one.incident_id && !other.incident);
  const waiting = [one, ...boxes].filter((other) => other.stage === "open");
  const isClosed = one.stage === "closed";
  const fate = (box) => (box.state === "retracted" ? "heard" : "gone");
  const rows = boxes.map((box) => h("tr", {}, h("td", { class: fate(box) }, shape(fate(box)), " ", h("span", { class: "mono" }, box.topic)), h("td", {}, slotText(box.slot) || ""), h("td", {}, box.state === "retracted" ? "taken back" : STATES[box.status] || box.status, evidence(box)), h("td", {}, box.acknowledgement ? `✓ ${box.acknowledgement.by}` : "")));
  return h("section", { class: `panel alert ${isClosed ? "closed" : one.severity}` },
    h("div", { class: "row" }, h("div", { class: "grow" }, h("h2", { class: isClosed ? "" : "gone" }, one.title), h("p", {}, one.detail), h("p", { class: "small muted" }, `${position(one.position)} (estimated) · raised `, when(one.raised_at_ms), isClosed ? [` · ${one.state} `, when(one.at_ms), one.by ? ` by ${one.by}` : ""] : null, doubted(one)), worsened(one)),
      one.stage === "open" ? null : noted(one),
      waiting.length ? h("button", { class: "main", key: `ack-${one.alert_id}`, onclick: () => acknowledge(waiting) }, `Acknowledge ${count(alertCount(waiting))}`) : null,
      seen.page === "alerts" ? h("button", { key: `loss-${one.incident_id}`, onclick: () => show({ page: "loss" }) }, "Loss report") : null),
    one.incident.at_risk.length ? h("p", { class: "not_instrumented" }, shape("not_instrumented"), ` At risk next to them, without a working tracker: ${one.incident.at_risk.join(", ")}`) : null,
    h("table", { class: "list" }, h("thead", {}, h("tr", {}, ["container", "slot", "", "acknowledged by"].map((title) => h("th", {}, title)))), h("tbody", {}, rows)));
}

// Losses and their reports

export function lossPage(board) {
  const incidents = board.alerts.filter((one) => one.incident);
  const known = new Set(incidents.map((one) => one.incident_id));
  const adrift = [...new Set(board.reports.map((one) => one.incident_id))].filter((id) => !known.has(id));
  return [
    incidents.length ? null : h("section", { class: "panel heard" }, shape("heard"), " This ship knows of no loss."),
    incidents.map((one) => [incidentCard(one, board), reportsPanel(one, board)]),
    adrift.map((id) => reportsPanel({ incident_id: id, adrift: true }, board)),
    board.reports.length ? ashore(board) : null,
    sightingForm(),
  ];
}

function ashore(board) {
  const waits = board.reports_waiting;
  return h("p", { class: waits ? "late" : "heard" }, waits ? `${count(waits)} record${waits === 1 ? "" : "s"} of the reports ${waits === 1 ? "is" : "are"} not ashore yet.` : "All records of the reports are ashore: a port or headquarters has them.");
}

function sightingForm() {
  const number = field("input", { key: "adrift-number", inputmode: "numeric", placeholder: "how many", "aria-label": "How many are adrift" });
  const what = field("input", { key: "adrift-what", maxlength: 2000, placeholder: "40-foot, blue, low in the water", "aria-label": "What they look like" });
  const draft = (event) => {
    event.preventDefault();
    document.activeElement.blur();
    act("A report of containers seen adrift is drafted: read it, add what is known, approve it.", () => ask("/ship/report", { do: "drifting", given: { number_lost: number.value, description: what.value } }), "adrift-");
  };
  return h("form", { class: "panel row", onsubmit: draft, "aria-label": "Containers seen adrift" }, h("h2", { class: "grow" }, "Containers seen adrift, of any carrier"), number, what, h("button", { key: "adrift" }, "Draft a report"));
}

function reportsPanel(incident, board) {
  const reports = board.reports.filter((one) => one.incident_id === incident.incident_id);
  const sent = reports.some((one) => one.state === "sent");
  const last = reports.at(-1);
  const open = last && last.kind !== "FINAL" && (last.state === "approved" || last.state === "sent");
  const chosen = reports.find((one) => one.report_id === seen.report);
  return h("section", { class: "panel stackv" },
    h("div", { class: "row" }, h("h2", { class: "grow" }, incident.adrift ? "Report of containers seen adrift" : "Loss report"), incident.adrift && open ? h("button", { key: `update-${incident.incident_id}`, onclick: () => act("An UPDATE is drafted: say what is new, approve it.", () => ask("/ship/report", { do: "drifting", given: {}, after: last.report_id })) }, "Draft an UPDATE") : null, sent && (!incident.adrift || open) ? h("button", { key: `final-${incident.incident_id}`, onclick: () => act("The FINAL is drafted.", () => ask("/ship/report", { do: "final", incident: incident.incident_id })) }, "Draft the FINAL") : null),
    h("p", { class: "muted small" }, "The ship drafts, the master approves and sends by the ship's own means, then records to whom. Nothing is sent automatically."),
    reports.length ? h("div", { class: "row" }, reports.map((one) => h("button", { key: `report-${one.report_id}`, "aria-pressed": String(one === chosen), class: one === chosen ? "main" : "", onclick: () => show({ report: one.report_id }) }, `${one.number}. ${one.kind} · ${one.state}`))) : h("p", { class: "late" }, "It is being drafted."),
    chosen && seen.whole?.report_id === chosen.report_id ? reportPanel(seen.whole) : null);
}

function reportPanel(report) {
  const name = `loss-report-${report.report_id.slice(0, 8)}-${report.number}`;
  const files = ["txt", "pdf", "json"].map((kind) => h("button", { key: `save-${kind}`, onclick: () => save(`/ship/reports/${report.report_id}.${kind}`, `${name}.${kind}`).catch((problem) => show({ wrong: `Not saved: ${problem.message}.` })) }, kind === "txt" ? "Text" : kind.toUpperCase()));
  return h("div", { class: "stackv" },
    h("p", {}, `${report.kind}, number ${report.number} · ${report.lost.length} lost, ${report.at_risk.length} at risk, ${report.found.length} found again · ${report.state} · written by ${report.written_by} `, when(report.written_at_ms), report.approved_by ? ` · approved by ${report.approved_by}, ${moment(report.approved_at_ms)}` : ""),
    h("div", { class: "row" }, h("span", { class: "muted" }, "Save as"), files),
    linesForm(report),
    report.state === "sent" ? null : driftForm(report),
    h("details", {}, h("summary", { key: "as-text" }, "As text to transcribe"), h("pre", { class: "hold small" }, report.text)),
    report.state === "draft" || report.state === "edited" ? approval(report) : null,
    report.state === "approved" || report.state === "sent" ? sentForm(report) : null,
    report.sendings.length ? h("table", { class: "list" }, h("thead", {}, h("tr", {}, ["sent", "to", "by what", "recorded by", "receipt"].map((title) => h("th", {}, title)))), h("tbody", {}, report.sendings.map((one) => h("tr", {}, h("td", {}, when(one.sent_at_ms)), h("td", {}, `${RECIPIENTS[one.to] || one.to} ${one.name}`), h("td", {}, one.means), h("td", {}, one.by), h("td", {}, receipt(report, one)))))) : null);
}

function receipt(report, sending) {
  const known = report.receipts.find((one) => one.to === sending.to && one.name === sending.name && one.acknowledged_at_ms >= sending.sent_at_ms);
  if (known) return h("span", { class: "pill heard" }, `✓ ${known.who}, ${moment(known.acknowledged_at_ms)}`);
  const whom = `${RECIPIENTS[sending.to] || sending.to} ${sending.name}`.trim();
  const key = `who-${report.report_id}-${sending.to}-${sending.name}`;
  const who = field("input", { key, maxlength: 200, required: true, placeholder: "duty officer", "aria-label": `Who acknowledged it at ${whom}` });
  const keep = (event) => {
    event.preventDefault();
    document.activeElement.blur();
    act(`Recorded: acknowledged by ${whom}.`, () => ask("/ship/report", { do: "acknowledged", report: report.report_id, to: sending.to, name: sending.name, who: who.value }), key);
  };
  return h("form", { class: "row", onsubmit: keep, "aria-label": `Receipt of ${whom}` }, who, h("button", { key: `receipt-${sending.to}-${sending.name}` }, "Acknowledged now"));
}

const linesOf = (report) => `line-${report.report_id}-`;

/** Does something with a report as it was saved; not while lines of it are changed and not saved, which it would leave out. */
function actOn(report, not, done, work, ...fields) {
  const left = unkept(linesOf(report)).size;
  if (left) return show({ wrong: `${not}: ${left === 1 ? "a line is" : `${left} lines are`} changed and not saved yet. Save or discard the changes.` });
  return act(done, work, ...fields);
}

/** The button that approves; it asks once more, and shows what is empty. */
function approval(report) {
  if (seen.approving !== report.digest) return h("button", { class: "main", key: "approve", onclick: () => show({ approving: report.digest }) }, `Approve as ${myName()}`);
  const empty = (voluntary) => report.form.filter((line) => report.empty.includes(line.name) && line.voluntary === voluntary).map((line) => line.title).join(", ");
  return h("div", { class: "panel stackv", role: "group", "aria-label": "Approve this report" },
    h("p", { class: empty(false) ? "late" : "heard" }, empty(false) ? `Empty: ${empty(false)}.` : "No line that the report must have is empty."),
    empty(true) ? h("p", { class: "muted small" }, `Empty, voluntary: ${empty(true)}.`) : null,
    h("div", { class: "row" }, h("button", { class: "main", key: "approve-now", onclick: () => approve(report) }, `Approve version ${report.digest.slice(0, 8)}`), h("button", { key: "approve-not", onclick: () => show({ approving: null }) }, "Cancel")));
}

const approve = (report) => actOn(report, "Not approved", `Approved by ${myName()}. Nothing is sent by that.`, () => ask("/ship/report", { do: "approve", report: report.report_id, digest: report.digest }));

function linesForm(report) {
  const fixed = report.state === "sent";
  const inputs = [];
  const rows = report.form.map((line) => {
    const filled = report.lines[line.name];
    const ends = { latitude: "NS", longitude: "EW" }[line.holds];
    const text = filled.value === null ? "" : ends ? arc(filled.value, ends) : String(filled.value);
    let holds = h("span", {}, text || "unknown");
    if (!fixed && !report.locked.includes(line.name)) {
      const known = { key: `${linesOf(report)}${line.name}`, "aria-label": line.title };
      holds = line.words.length ? field("select", known, ["", ...line.words].map((word) => h("option", { value: word, selected: word === text }, word || "unknown"))) : field("input", { ...known, value: text, maxlength: 2000, inputmode: line.holds === "count" ? "numeric" : null, placeholder: line.hint || "unknown" });
      inputs.push([line.name, text, holds]);
    }
    return h("tr", {}, h("td", {}, line.title, line.voluntary ? h("span", { class: "small muted" }, " (voluntary)") : null), h("td", {}, holds), h("td", {}, h("span", { class: `basis ${filled.basis}` }, BASES[filled.basis]), " ", h("span", { class: "small muted" }, filled.source)));
  });
  const keep = (event) => {
    event.preventDefault();
    const given = Object.fromEntries(inputs.filter(([, before, holds]) => holds.value !== before).map(([name, , holds]) => [name, holds.value]));
    if (!Object.keys(given).length) return show({ wrong: "Nothing was changed: change a line, then save it." });
    document.activeElement.blur();
    act(`Saved as given by ${myName()}: ${Object.keys(given).length} line${Object.keys(given).length === 1 ? "" : "s"}.`, () => ask("/ship/report", { do: "edit", report: report.report_id, given }), linesOf(report));
  };
  const takeBack = () => {
    forget(linesOf(report));
    show({});
  };
  return h("form", { onsubmit: keep }, h("table", { class: "list form" }, h("thead", {}, h("tr", {}, h("th", {}, "line"), h("th", {}, "value"), h("th", {}, "from what"))), h("tbody", {}, rows)), fixed ? null : h("div", { class: "row" }, h("button", { key: "keep" }, "Save"), h("button", { key: "take-back", type: "button", onclick: takeBack }, "Discard")));
}

function driftForm(report) {
  const number = (key, most, needed) => field("input", { key: `drift-${key}`, type: "number", min: 0, max: most, step: "any", required: needed });
  const wind = number("wind", 100, true);
  const from = number("from", 360, true);
  const current = number("current", 10);
  const towards = number("towards", 360);
  const fill = (event) => {
    event.preventDefault();
    document.activeElement.blur();
    const weather = { at_ms: 0, wind_speed_ms: Number(wind.value), wind_from_deg: Number(from.value), current_speed_ms: Number(current.value), current_towards_deg: Number(towards.value) };
    act("The drift is filled in for this wind and current.", () => ask("/ship/report", { do: "drift", report: report.report_id, weather: [weather] }), "drift-");
  };
  return h("form", { class: "row", onsubmit: fill, "aria-label": "Drift in a wind and a current of your own" }, [["Wind, m/s", wind], ["from, degrees", from], ["Current, m/s", current], ["to, degrees", towards]].map(([title, field]) => h("label", { class: "grow" }, h("span", {}, title), field)), h("button", { key: "drift" }, "Fill in the drift, 24 h"));
}

function sentForm(report) {
  const to = field("select", { key: "sent-to" }, Object.entries(RECIPIENTS).map(([value, title]) => h("option", { value }, title)));
  const name = field("input", { key: "sent-name", maxlength: 200, placeholder: "RCC Australia" });
  const means = field("input", { key: "sent-means", maxlength: 200, required: true, placeholder: "Inmarsat-C, VHF 16, e-mail" });
  const at = field("input", { key: "sent-at", type: "datetime-local" });
  const keep = (event) => {
    event.preventDefault();
    document.activeElement.blur();
    const sent = { do: "sent", report: report.report_id, to: to.value, name: name.value, means: means.value, ...(at.value ? { sent_at_ms: Date.parse(`${at.value}Z`) } : {}) };
    actOn(report, "Not recorded", `Recorded: sent to ${RECIPIENTS[to.value]}.`, () => ask("/ship/report", sent), "sent-");
  };
  const fields = [["It went to", to], ["name", name], ["by what means", means], ["when, UTC (empty: now)", at]].map(([title, one]) => h("label", { class: "grow" }, h("span", {}, title), one));
  return h("form", { class: "row", onsubmit: keep, "aria-label": "Record that it was sent" }, fields, h("button", { class: "main", key: "sent" }, "Record as sent"));
}

// Link and backlog

const bytes = (number) => (number < 10000 ? `${count(number)} B` : number < 1e7 ? `${count(Math.round(number / 1000))} kB` : `${count(Math.round(number / 1e6))} MB`);

export function linkPage(board) {
  const ship = seen.ship;
  if (!ship) return h("p", { class: "muted" }, "Loading …");
  const waits = Object.entries(ship.waiting);
  const total = waits.reduce((sum, [, one]) => sum + one.records, 0);
  return [
    h("section", { class: "panel stackv" }, h("h2", {}, board.peers.length ? `In session with ${board.peers.join(", ")}` : "No link now"),
      h("div", { class: "row" }, h("span", { class: "muted" }, "Link:"), ["auto", "satellite", "none"].map((wish) => h("button", { key: `wish-${wish}`, "aria-pressed": String(ship.link.wish === wish), class: ship.link.wish === wish ? "main" : "", onclick: () => act(`Link: ${LINKS[wish]}.`, () => ask("/ship/link", { link: wish })) }, LINKS[wish])), LINKS[ship.link.wish] ? null : h("span", {}, `now ${ship.link.wish}`)),
      h("p", {}, `Position ${position(ship.position)} · `, when(ship.position?.at_ms)),
      peersTable(Object.entries(ship.link.peers))),
    h("section", { class: "panel stackv" }, h("h2", {}, total ? `${count(total)} records wait to go ashore` : "All sent"),
      waits.length ? h("table", { class: "list" }, h("thead", {}, h("tr", {}, h("th", {}, "stream"), h("th", { class: "r" }, "records"), h("th", {}, "since"))), h("tbody", {}, waits.map(([stream, one]) => h("tr", {}, h("td", { class: "mono" }, stream), h("td", { class: "r num" }, count(one.records)), h("td", {}, when(one.since_at_ms)))))) : null,
      h("p", { class: "small muted" }, digests(ship.digests))),
    Object.entries(ship.link.budgets).map(([name, one]) => h("section", { class: "panel" }, h("h2", {}, `Budget of the ${name} link, ${one.day} UTC`),
      h("p", { class: "num" }, `${bytes(one.spent_bytes)} of ${bytes(one.bytes_per_day + one.granted_bytes)} spent · ${bytes(one.reserve_bytes)} of it kept for alerts · cost ${one.cost.toFixed(2)} today`),
      h("p", { class: one.state === "open" ? "heard" : "late" }, { open: "Open.", alerts: "Spent: for alerts alone until midnight UTC.", overdrawn: "Overdrawn by alerts." }[one.state] || one.state))),
  ];
}

function digests(told) {
  const last = told.last ? `the last of ${moment(told.last.from_at_ms)} to ${moment(told.last.until_at_ms)}, ${containers(told.last.boxes)}` : "none yet";
  return `Digests every ${told.every_h} h: ${told.wait ? `the next at ${moment(told.next_at_ms)}` : "none while readings need not wait"}; ${last}.`;
}

function peersTable(peers) {
  if (!peers.length) return h("p", { class: "late" }, "New alerts wait on board until there is a link.");
  const rows = peers.map(([name, one]) => h("tr", {}, h("td", {}, name), h("td", {}, one.link), h("td", { class: "r num" }, bytes(one.sent_bytes)), h("td", { class: "r num" }, bytes(one.received_bytes)), h("td", { class: "r num" }, count(one.sent_records)), h("td", { class: "r num" }, count(one.backlog_records))));
  return h("table", { class: "list" }, h("thead", {}, h("tr", {}, h("th", {}, "link to"), h("th", {}, "class"), ["sent", "received", "records sent", "still to send"].map((title) => h("th", { class: "r" }, title)))), h("tbody", {}, rows));
}
