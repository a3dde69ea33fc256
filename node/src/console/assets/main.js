// Which view is shown, and when it is shown anew.

import { AGAIN, leave, listen, may, session } from "./api.js";
import { fill, h, trouble } from "./dom.js";
import { overview } from "./overview.js";
import { job } from "./job.js";
import { task } from "./task.js";
import { nodes } from "./nodes.js";
import { actors } from "./actors.js";
import { audit } from "./audit.js";
import { reader } from "./reader.js";
import { searchPage } from "./search.js";

const VIEWS = [
  [/^\/$/, overview],
  [/^\/nodes$/, nodes],
  [/^\/actors(?:\/([^/]+))?$/, actors],
  [/^\/audit$/, audit],
  [/^\/search$/, searchPage],
  [/^\/jobs\/([^/]+)$/, job],
  [/^\/jobs\/([^/]+)\/([^/]+)$/, task],
  [/^\/read\/([^/]+)\/([^/]+)(?:\/(\d+))?$/, reader],
];

const main = document.getElementById("main");
const who = document.getElementById("who");
let shown; // what is on the screen: { refresh, leave }
let turn = 0;

function route() {
  const path = location.hash.replace(/^#/, "").split("?")[0] || "/";
  for (const [pattern, view] of VIEWS) {
    const match = pattern.exec(path);
    if (match) return [view, match.slice(1).map((part) => part && decodeURIComponent(part))];
  }
  return [async (place) => fill(place, h("p", {}, "There is no such page. ", h("a", { href: "#/" }, "Overview"))), []];
}

async function show() {
  const mine = ++turn;
  shown?.leave?.();
  shown = undefined;
  const [view, parts] = route();
  main.className = view === reader ? "wide" : "";
  for (const link of document.querySelectorAll("nav a")) {
    const here = link.getAttribute("href") === (location.hash.split("?")[0] || "#/");
    link.toggleAttribute("aria-current", here);
  }
  let place = h("div", {});
  try {
    if (!who.hasChildNodes()) identify(await session());
    const next = await view(place, ...parts);
    if (mine !== turn) return next?.leave?.();
    shown = next;
  } catch (error) {
    if (mine !== turn) return;
    if (error.isPassing) setTimeout(() => mine === turn && show(), AGAIN);
    // Said once, however often it is asked for.
    if (main.querySelector(":scope > [role=alert]")?.textContent === error.message) return;
    const hope = error.isPassing && h("p", { class: "note" }, "The page is asked for again until it comes.");
    place = [h("p", { class: "bad", role: "alert" }, error.message), hope];
  }
  fill(main, place);
  document.title = `${main.querySelector("h1")?.firstChild?.textContent ?? "Console"} · Parkhang`;
}

function identify({ name, access }) {
  fill(who, h("span", { title: `may ${access}` }, access === "read" ? `${name} (may read only)` : name),
    h("button", { onclick: leave }, "Sign out"));
}

// However often something changes, a view is asked for at most once a second.
let waiting = false;

function changed() {
  if (waiting || document.hidden) return;
  waiting = true;
  setTimeout(async () => {
    waiting = false;
    try {
      await shown?.refresh?.();
    } catch {
      // What is shown stays until the next change.
    }
  }, 1000);
}

const live = document.getElementById("live");
listen(changed, (heard) => {
  live.textContent = heard ? "live" : "connection lost";
  live.className = heard ? "" : "lost";
  if (!heard) return;
  changed();
  // What somebody has corrected, and could not be sent. If even this does not come, the next time is soon enough.
  if (may("edit")) import("./queue.js").then(({ deliver }) => deliver(), () => {});
});
addEventListener("hashchange", () => {
  trouble();
  show();
});
document.addEventListener("visibilitychange", changed);
show();
