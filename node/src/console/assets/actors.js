import { get, may, part, post } from "./api.js";
import { ago, bar, fill, h, state } from "./dom.js";

const EVERY = 3000;
// What an operator may put another in the place of.
const REPLACEABLE = new Set(["pool", "worker", "device"]);

// The actors of all nodes, or of one. What is folded stays so, and whatever has the focus keeps it, when it is shown anew.
export async function actors(place, only) {
  const folded = new Set();
  const draw = async () => {
    const { nodes } = await get("/actors", { node: only });
    const focus = place.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
    fill(place, h("h1", {}, "Actors"),
      only && h("p", {}, h("a", { href: "#/actors" }, "Those of all nodes")),
      nodes.length === 0 ? h("p", { class: "note" }, "No node is there.") : nodes.map((about) => node(about, folded, draw)));
    if (focus) [...place.querySelectorAll("[data-key]")].find((element) => element.dataset.key === focus)?.focus();
  };
  await draw();
  const timer = setInterval(() => document.hidden || draw().catch(() => {}), EVERY);
  return { refresh: draw, leave: () => clearInterval(timer) };
}

function node(about, folded, draw) {
  const path = `/nodes/${part(about.node)}`;
  const act = (verb, body, question) => async () => {
    if (!confirm(question)) return;
    await post(`${path}/${verb}`, body).finally(draw);
  };
  const below = (parent) => about.actors.filter((actor) => actor.parent === parent);
  const known = new Set(about.actors.map((actor) => actor.name));
  const item = (actor) => {
    const children = below(actor.name).map(item);
    if (children.length === 0) return h("li", {}, line(actor, about.node, act));
    const key = `${about.node} ${actor.name}`;
    return h("li", {}, h("details", {
      open: !folded.has(key),
      ontoggle: (event) => (event.target.open ? folded.delete(key) : folded.add(key)),
    }, h("summary", { "data-key": key }, line(actor, about.node, act)), h("ul", {}, children)));
  };
  const works = about.actors.some((actor) => actor.kind === "supervisor");
  return h("section", { "aria-label": about.node },
    h("h2", {}, about.node, " ", state(about.state)),
    h("p", { class: "note" }, about.roles.join(", "), ", ",
      about.told_at ? ["reported ", ago(about.told_at)] : "has not reported its actors yet"),
    may("operate") && works && about.state === "joined" && h("div", { class: "row" }, h("button", {
      "data-key": `${about.node} drain`,
      onclick: act("drain", {}, `Let ${about.node} take no more work, and hand back what it has? It does nothing more until it is started again.`),
    }, "Drain")),
    h("ul", {}, about.actors.filter((actor) => !known.has(actor.parent)).map(item)));
}

function line(actor, node, act) {
  const level = (taken, of) => (taken ? ` ${taken.used}${taken.capacity === null ? "" : ` of ${taken.capacity}`} ${of}` : "");
  const words = [
    actor.kind, level(actor.slots, "slots in use"), level(actor.inbox, "waiting"),
    actor.attempt ? ` attempt ${actor.attempt}` : "",
    actor.generation === null ? "" : ` generation ${actor.generation}`,
    actor.restarts === 0 ? "" : ` ${actor.restarts} ${actor.restarts === 1 ? "restart" : "restarts"}`,
    actor.models.length === 0 ? "" : ` ${actor.models.join(", ")}`,
    actor.left_out === 0 ? "" : ` ${actor.left_out} more below it`,
  ];
  return [
    h("b", {}, actor.name), " ", state(actor.state), " ",
    h("span", { class: "note" }, words.filter(Boolean).map((word) => word.trim()).join(", "), actor.since && [", since ", ago(actor.since)]),
    actor.at_work.map((page) => [" ", h("span", { class: "note" }, `${page.page} ${page.step} since `, ago(page.since))]),
    actor.job && [" ", h("a", { href: `#/jobs/${part(actor.job)}/${part(actor.volume)}` }, `${actor.volume} of ${actor.job}`)],
    may("operate") && REPLACEABLE.has(actor.kind) && [" ", h("button", {
      "data-key": `${node} ${actor.name} restart`,
      "aria-label": `Restart ${actor.name}`,
      onclick: act("restart", { actor: actor.name }, `Put another in the place of ${actor.name}? What it holds is given back uncharged.`),
    }, "Restart")],
    actor.pages ? bar([["good", actor.pages_finished, "pages done"], ["idle", actor.pages - actor.pages_finished, "to do"]]) : null,
  ];
}
