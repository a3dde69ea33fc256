// Building and showing elements. Text always goes in as text, never as markup.

const SVG = "http://www.w3.org/2000/svg";
const DRAWN = new Set(["svg", "g", "rect", "line", "text", "polygon", "title", "image"]);

export function h(name, attributes = {}, ...children) {
  const element = DRAWN.has(name) ? document.createElementNS(SVG, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), heard(value));
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...shown(children));
  return element;
}

// What goes wrong with what somebody does is said above the page.
const heard = (does) => async (event) => {
  try {
    await does(event);
  } catch (error) {
    trouble(error.message);
  }
};

// Says what went wrong, until it is put away or something else is asked for; nothing takes it back.
export function trouble(message) {
  fill(document.getElementById("trouble"), message && h("p", { role: "alert" }, message),
    message && h("button", { "aria-label": "Put away", onclick: () => trouble() }, "×"));
}

const shown = (children) => children.flat(Infinity).filter((child) => child !== undefined && child !== null && child !== false);

// A click is a press and a release on one element: what is pressed stays until then, and its successors wait here.
let pressed;
const successors = new Map();

addEventListener("pointerdown", (event) => {
  // A list of choices, and a menu of the browser, take the release for themselves.
  if (event.button === 0 && !event.target.closest("select")) pressed = event.target;
}, true);

function released() {
  pressed = undefined;
  for (const [element, children] of successors) element.replaceChildren(...children);
  successors.clear();
}

// The click comes after the release, before what is due then.
for (const end of ["pointerup", "pointercancel", "contextmenu", "dragend"]) addEventListener(end, () => setTimeout(released), true);
addEventListener("blur", released);

// Shows these and nothing else in an element.
export function fill(element, ...children) {
  successors.delete(element);
  if (pressed && element.contains(pressed)) successors.set(element, shown(children));
  else element.replaceChildren(...shown(children));
}

// A table; a column is [heading, cell of a row, class]. Where there is no room beside each other, cells name their headings themselves.
export function table(columns, rows, empty = "None.") {
  if (rows.length === 0) return h("p", { class: "note" }, empty);
  const head = columns.map(([heading, , kind]) => h("th", { class: kind, scope: "col" }, heading));
  const body = rows.map((row) => h("tr", {}, columns.map(([heading, cell, kind]) =>
    h("td", { class: kind, "data-heading": heading || undefined }, cell(row)))));
  return h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, head)), h("tbody", {}, body)));
}

// What calls for somebody; commands stand between backticks.
export function alarm(text) {
  const parts = text.split("`").map((part, place) => (place % 2 === 1 ? h("code", {}, part) : part));
  return h("p", { class: "alarm", role: "alert" }, parts);
}

export function tile(value, label, kind) {
  return h("div", { class: "tile" }, h("b", { class: kind }, value), h("span", {}, label));
}

const KINDS = {
  running: "busy", joined: "good", done: "good", completed: "good", failed: "bad", lost: "bad", quarantined: "bad",
  "left alone": "bad", "in doubt": "busy",
  working: "busy", reporting: "busy", restarting: "busy", silent: "bad",
  retrying: "busy", draining: "busy", interrupted: "busy", paused: "idle", waiting: "idle", cancelled: "idle", left: "idle", created: "idle",
};

export const kindOf = (state) => KINDS[state] ?? "idle";
export const state = (word) => h("span", { class: `state ${kindOf(word)}` }, word);

// What something is besides its state.
export const badge = (word) => h("span", { class: "badge" }, word);

// Shares of a whole: [kind, number, label]. What is idle is left empty.
export function bar(parts) {
  const whole = parts.reduce((sum, [, number]) => sum + number, 0);
  const label = parts.filter(([, number]) => number > 0).map(([, number, name]) => `${count(number)} ${name}`).join(", ");
  const pieces = parts.filter(([, number]) => number > 0)
    .map(([kind, number]) => h("i", { class: kind, style: `width:${(100 * number) / whole}%` }));
  return h("div", { class: "bar", role: "img", "aria-label": label, title: label }, pieces);
}

export const count = (number) => number.toLocaleString("en");

export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "";
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 60) return `${Number.isInteger(seconds) ? seconds : seconds.toFixed(1)} s`;
  const units = [["d", 86400], ["h", 3600], ["min", 60]];
  const at = units.findIndex(([, size]) => seconds >= size);
  const [unit, size] = units[at];
  const rest = units[at + 1] && Math.floor((seconds % size) / units[at + 1][1]);
  return `${Math.floor(seconds / size)} ${unit}${rest ? ` ${rest} ${units[at + 1][0]}` : ""}`;
}

export function ago(time) {
  const seconds = (Date.now() - new Date(time)) / 1000;
  return h("time", { datetime: time, title: new Date(time).toLocaleString() },
    seconds >= 0 ? `${duration(Math.max(1, Math.round(seconds)))} ago` : `in ${duration(Math.round(-seconds))}`);
}

export const percent = (share, digits = 1) => (share === null || share === undefined ? "" : `${(100 * share).toFixed(digits)} %`);
