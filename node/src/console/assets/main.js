// Which view is shown, and when it is shown anew.

import { leave, listen, session } from "./api.js";
import { fill, h } from "./dom.js";
import { overview } from "./overview.js";
import { job } from "./job.js";
import { task } from "./task.js";
import { nodes } from "./nodes.js";
import { actors } from "./actors.js";
import { audit } from "./audit.js";
import { reader } from "./reader.js";

const VIEWS = [
  [/^\/$/, overview],
  [/^\/nodes$/, nodes],
  [/^\/actors(?:\/([^/]+))?$/, actors],
  [/^\/audit$/, audit],
  [/^\/jobs\/([^/]+)$/, job],
  [/^\/jobs\/([^/]+)\/([^/]+)$/, task],
  [/^\/read\/([^/]+)\/([^/]+)(?:\/(\d+))?$/, reader],
];

const main = document.getElementById("main");
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
    const here = link.getAttribute("href") === (location.hash || "#/");
    link.toggleAttribute("aria-current", here);
  }
  const place = h("div", {});
  try {
    const next = await view(place, ...parts);
    if (mine !== turn) return next?.leave?.();
    shown = next;
  } catch (error) {
    fill(place, h("p", { class: "bad", role: "alert" }, error.message));
  }
  if (mine === turn) {
    fill(main, place);
    document.title = `${place.querySelector("h1")?.firstChild?.textContent ?? "Overview"} · Parkhang`;
  }
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
  if (heard) changed();
});
addEventListener("hashchange", show);
document.addEventListener("visibilitychange", changed);
const { name, access } = await session();
fill(document.getElementById("who"), h("span", { title: `may ${access}` }, name), h("button", { onclick: leave }, "Sign out"));
await show();
