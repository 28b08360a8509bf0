// The crew's console: who is logged in, what the node was asked last, and which page is shown. Everything shown is text, never markup.

import { alertsPage, bayPanel, linkPage, lossPage, musterPage } from "/console/pages.js";

const POLL_MS = 2000;
const ANSWER_MS_MAX = 10000;
const LOGIN = "landfall.login";
const USER = "landfall.user";
const PAGES = { muster: "Muster", alerts: "Alerts", loss: "Loss", link: "Link & backlog" };

export const seen = { page: "muster", board: null, bay: null, box: null, ship: null, report: null, approving: null, bayBoxes: null, bring: null, said: null, wrong: null };
let shown = "";
let answeredAt = 0;
let trouble = null;
let polling = null;

/** An element; `on…` are listeners, `key` finds it again after the page is drawn anew, null children are left out. */
export function h(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "key") made.dataset.key = value;
    else if (name === "at") made.dataset.at = value;
    else if (name === "value") made.value = value;
    else made.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat(9)) if (child !== null && child !== undefined && child !== false) made.append(child);
  return made;
}

// What stands in a field and is not written down yet, by the field's key.
const typed = new Map();

/** An input or a select with a `key`: what is typed into it outlives that the page is drawn anew, or left for another, until it is done or taken back. */
export function field(tag, attributes, ...children) {
  const made = h(tag, attributes, ...children);
  const { key } = attributes;
  const before = made.value;
  if (typed.get(key) === before) typed.delete(key);
  if (typed.has(key)) made.value = typed.get(key);
  const mark = () => made.classList.toggle("unkept", typed.has(key));
  made.addEventListener("input", () => {
    if (made.value === before) typed.delete(key);
    else typed.set(key, made.value);
    mark();
  });
  mark();
  return made;
}

/** What was typed into fields whose key begins so: key to value. */
export const unkept = (prefix) => new Map([...typed].filter(([key]) => key.startsWith(prefix)));

/** Takes back what was typed into fields whose keys begin so. */
export function forget(...prefixes) {
  for (const prefix of prefixes) for (const key of unkept(prefix).keys()) typed.delete(key);
}

/** One of the shapes of console.html. */
export function shape(reason) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("class", `shape ${reason}`);
  svg.setAttribute("aria-hidden", "true");
  const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
  use.setAttribute("href", `#s-${reason}`);
  svg.append(use);
  return svg;
}

export const count = (number) => Number(number).toLocaleString("en-GB");

/** `14:03:11 UTC`, with the day where it is not today's by the fleet's clock. */
export function moment(atMs) {
  const text = new Date(atMs).toISOString();
  const today = seen.board ? new Date(seen.board.now_at_ms).toISOString().slice(0, 10) : "";
  return (text.slice(0, 10) === today ? "" : `${text.slice(0, 10)} `) + `${text.slice(11, 19)} UTC`;
}

/** The fleet's time: as the node told it last, and on from there by this browser's clock, also while the node can not be reached. */
const now = () => seen.board.now_at_ms + Math.max(0, Date.now() - answeredAt);

const UNITS = [[365 * 86400, "y"], [86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];

/** A duration in its two largest units, as on headquarters' pages: `1 d 2 h`. */
function span(exact) {
  const seconds = Math.floor(exact);
  const at = UNITS.findIndex(([size]) => seconds >= size);
  if (at < 0) return "0 s";
  const [size, unit] = UNITS[at];
  const [part, partUnit] = UNITS[at + 1] || [1, ""];
  const rest = partUnit ? Math.floor((seconds % size) / part) : 0;
  return `${Math.floor(seconds / size)} ${unit}${rest ? ` ${rest} ${partUnit}` : ""}`;
}

/** How long ago by the fleet's clock; of what lies in its future, by how much a clock is wrong. */
export function ago(atMs) {
  const seconds = (now() - atMs) / 1000;
  if (seconds <= -86400) return `clock wrong by ${span(-seconds)}`;
  if (seconds < -5) return `${span(-seconds)} ahead of the clock`;
  return seconds < 1 ? "just now" : `${span(seconds)} ago`;
}

/** A moment and its age, which goes on while the page stands. */
export function when(atMs) {
  if (!atMs) return h("span", { class: "muted" }, "never");
  return h("span", { class: "num" }, `${moment(atMs)} · `, h("span", { at: atMs }, ago(atMs)));
}

/** The name and rank that the node writes down with what is done here. */
export const myName = () => seen.board?.you || "";

/** What the node answers. Throws an Error with its own sentence where it refuses. */
export async function ask(path, body = null) {
  const how = { headers: { Authorization: `Basic ${sessionStorage.getItem(LOGIN) || ""}` }, signal: AbortSignal.timeout(ANSWER_MS_MAX), cache: "no-store" };
  if (body) Object.assign(how, { method: "POST", body: JSON.stringify(body) });
  const answer = await fetch(path, how);
  if (answer.ok) return answer;
  const told = await answer.json().catch(() => ({}));
  if (answer.status === 401) {
    leave("Wrong username or password. The operator of the node creates logins with landfall credential add.");
  }
  throw new Error(told.problem || `the node answered ${answer.status}`);
}

/** Does something and says how it ended; the page is drawn with the news. What was typed for it stays in its fields, whose keys begin as `fields` say, unless it was done. */
export async function act(done, work, ...fields) {
  seen.wrong = seen.said = null;
  const told = { said: null, wrong: null };
  try {
    await work();
    forget(...fields);
    told.said = done;
  } catch (problem) {
    told.wrong = problem.name === "TimeoutError" ? "The node did not answer in time. Check whether it was done before you repeat it." : `Not done: ${problem.message}.`;
  }
  await latest();
  Object.assign(seen, told);
  document.getElementById("spoken").textContent = told.wrong || told.said;
  draw(true);
}

/** Saves what the node answers as a file. */
export async function save(path, name) {
  const answer = await ask(path);
  const url = URL.createObjectURL(await answer.blob());
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

/** Shows another page, or another part of one. */
export function show(what) {
  Object.assign(seen, { said: null, wrong: null }, what);
  location.hash = seen.page;
  draw(true);
  latest();
}

/** Asks the node once; who asks while that is under way has the same answer. */
function poll() {
  return (polling ??= look().finally(() => {
    polling = null;
  }));
}

/** The news from now on: an answer that is under way may be of before. */
async function latest() {
  await polling;
  await poll();
}

async function look() {
  if (!sessionStorage.getItem(LOGIN)) return;
  try {
    const board = await (await ask("/ship/board")).json();
    const bay = seen.page === "muster" && seen.bay ? await bayOf(seen.bay, board) : null;
    const ship = seen.page === "link" ? await (await ask("/ship")).json() : null;
    const head = board.reports.find((one) => one.report_id === seen.report);
    const whole = seen.page === "loss" && head && !sameReport(head, seen.whole) ? await (await ask(`/ship/reports/${head.report_id}.json`)).json() : seen.whole;
    Object.assign(seen, { board, bayBoxes: bay, ship, whole });
    answeredAt = Date.now();
    trouble = null;
  } catch (problem) {
    trouble = problem.name === "TypeError" ? "can not be reached" : problem.name === "TimeoutError" ? "does not answer in time" : `says: ${problem.message}`;
  }
  draw(false);
}

const sameReport = (head, whole) => whole && ["report_id", "digest", "state"].every((name) => head[name] === whole[name]) && ["sendings", "receipts"].every((name) => head[name].length === whole[name].length);

async function bayOf(bay, board) {
  if (!board.muster.bays.some((one) => one.bay === bay)) return null;
  return (await ask(`/ship/bays/${bay}`)).json();
}

function leave(why = null) {
  if (!why) typed.clear();
  sessionStorage.removeItem(LOGIN);
  Object.assign(seen, { board: null, wrong: why, said: null, whole: null });
  draw(true);
}

function draw(always) {
  const app = document.getElementById("app");
  const { now_at_ms: _, ...standing } = seen.board || {};
  const news = JSON.stringify([seen.page, seen.bay, seen.box, seen.report, standing, seen.page === "muster" ? seen.bayBoxes?.boxes : null, seen.page === "link" ? seen.ship : null, seen.whole?.digest, seen.wrong, seen.said]);
  if (always || news !== shown) {
    if (!always && writing()) return tick();
    shown = news;
    const key = document.activeElement?.dataset?.key;
    const unfolded = [...app.querySelectorAll("details[open] > summary")].map((one) => one.dataset.key);
    app.replaceChildren(...(sessionStorage.getItem(LOGIN) ? frame() : [login()]));
    for (const one of unfolded) app.querySelector(`summary[data-key="${CSS.escape(one || "")}"]`)?.parentElement.setAttribute("open", "");
    if (key) app.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus({ preventScroll: true });
    const wanted = seen.bring && app.querySelector(seen.bring);
    if (wanted) {
      wanted.scrollIntoView({ block: "nearest" });
      seen.bring = null;
    }
  }
  tick();
}

/** Clock and ages go on, whether the node answers or not; so does the muster's, which is good for as long as its shortest interval. */
export function tick() {
  const muster = seen.board?.muster;
  document.getElementById("app").classList.toggle("aged", Boolean(muster) && now() - muster.at_ms > muster.fresh_ms);
  if (seen.board) for (const one of document.querySelectorAll("#app [data-at]")) one.textContent = ago(Number(one.dataset.at));
  const clock = document.getElementById("clock");
  if (clock && seen.board) clock.textContent = `${new Date(now()).toISOString().slice(0, 19).replace("T", " ")} UTC`;
  banner();
}

/** Whether somebody is writing into a field: then the page stays as it is. */
const writing = () => document.activeElement?.matches?.("input, select");

function banner() {
  const place = document.getElementById("old");
  if (!place) return;
  const age = Math.round((Date.now() - answeredAt) / 1000);
  const away = trouble && `The node ${trouble}. ${answeredAt ? `What you see is ${age} s old; its clock and ages continue by this browser's clock.` : ""} The page asks again every ${POLL_MS / 1000} s.`;
  place.textContent = [away, ...(seen.board?.troubles.map((one) => `This node: ${one}.`) || [])].filter(Boolean).join(" ");
  place.hidden = !place.textContent;
}

/** User name and password as HTTP's Basic wants them: base64 of their UTF-8. */
const basic = (user, password) => btoa(String.fromCharCode(...new TextEncoder().encode(`${user}:${password}`)));

function login() {
  const user = h("input", { name: "user", required: true, maxlength: 100, pattern: "[^:]+", autocomplete: "username", value: sessionStorage.getItem(USER) || "", key: "user" });
  const password = h("input", { name: "password", required: true, type: "password", autocomplete: "current-password", key: "password" });
  const enter = async (event) => {
    event.preventDefault();
    sessionStorage.setItem(USER, user.value.trim());
    sessionStorage.setItem(LOGIN, basic(user.value.trim(), password.value));
    seen.wrong = null;
    await latest();
    draw(true);
  };
  return h("form", { class: "login", onsubmit: enter }, h("h1", {}, "Landfall console"), h("p", { class: "muted" }, "Served by the ship's own node. Your actions are recorded with your name."),
    seen.wrong && h("p", { class: "wrong", role: "alert" }, seen.wrong),
    h("label", {}, h("span", {}, "User name"), user), h("label", {}, h("span", {}, "Password"), password), h("button", { class: "main" }, "Log in"));
}

function frame() {
  const board = seen.board;
  if (!board) return [h("div", { id: "old", class: "old", role: "alert", hidden: true }), h("p", { class: "page muted" }, "Loading …")];
  const tabs = Object.entries(PAGES).map(([page, title]) =>
    h("button", { key: `page-${page}`, "aria-current": seen.page === page ? "page" : null, onclick: () => show({ page }) }, title, page === "alerts" && open().length ? h("span", { class: "count" }, count(alertCount(open()))) : null));
  const page = { muster: musterPage, alerts: alertsPage, loss: lossPage, link: linkPage }[seen.page];
  return [
    h("header", { class: "top" }, h("div", {}, h("div", { class: "who" }, board.name || board.node), h("div", { class: "small muted" }, `IMO ${board.ship} · ${board.port ? `in ${board.port}` : "at sea"}`)), h("nav", { "aria-label": "Pages" }, tabs),
      h("div", { class: "clock" }, h("div", { class: "num", id: "clock" }), h("div", { class: "small muted" }, `${myName()} · `, h("a", { href: "#", role: "button", onclick: (event) => { event.preventDefault(); leave(); } }, "log out")))),
    h("div", { id: "old", class: "old", role: "alert", hidden: true }),
    h("div", { class: "page" }, seen.wrong && h("p", { class: "wrong", role: "alert" }, seen.wrong), seen.said && h("p", { class: "done" }, seen.said), page(board)),
  ];
}

/** Alerts that need a person: the node decides which. */
export const open = () => seen.board.alerts.filter((one) => one.stage === "open");

/** How many alerts people count: that of an incident is not counted in addition to those of its boxes. */
export function alertCount(alerts) {
  const ofBoxes = new Set(alerts.filter((one) => one.rule === "lost_container").map((one) => one.incident_id));
  return alerts.filter((one) => one.rule !== "incident" || !ofBoxes.has(one.incident_id)).length;
}

export { bayPanel };
if (PAGES[location.hash.slice(1)]) seen.page = location.hash.slice(1);
draw(true);
poll();
setInterval(poll, POLL_MS);
setInterval(tick, 1000);
addEventListener("beforeunload", (event) => typed.size && event.preventDefault());
