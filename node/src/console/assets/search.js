// Search: in a volume, in a job, or in all jobs.

import { get, part } from "./api.js";
import { count, fill, h } from "./dom.js";

const AT_ONCE = 20;
// Milliseconds until an index that is behind is asked again.
const AGAIN = 3000;

// The page with a query of its own address, so that it can be bookmarked and sent.
export function searchPage(place) {
  const given = new URLSearchParams(location.hash.split("?")[1] ?? "");
  const finder = search({ text: given.get("q") ?? "", asked: (text) => history.replaceState(null, "", `#/search?q=${part(text)}`) });
  fill(place, h("h1", {}, "Search"), h("div", { class: "all" }, finder.place),
    h("p", { class: "note" }, "A page is found by the words on it; misread letters are forgiven, and Wylie is read as Tibetan. ",
      "“Some words” in quotation marks stand in a row, +word must be there, −word must not; title:word, volume:W1*, lang:bo."));
  if (given.get("q")) finder.look();
  // Once the view is on the screen.
  else setTimeout(finder.focus);
  return {};
}

export function search({ job, volume, text = "", asked }) {
  const found = h("div", {});
  const input = h("input", { type: "search", "aria-label": "Text to look for", lang: "bo", placeholder: "find a text", required: true, value: text });
  const scope = volume && h("select", { "aria-label": "Where to look" },
    h("option", { value: volume }, "in this volume"), h("option", { value: "" }, "in the whole job"));
  const exact = h("input", { type: "checkbox" });
  let turn = 0;
  const look = async (offset = 0, hits = []) => {
    const mine = ++turn;
    const query = input.value.trim();
    if (query === "") return;
    asked?.(query);
    const within = scope?.value;
    const answer = await get("/search", { query, job, volume: within, exact: exact.checked || undefined, offset, limit: AT_ONCE })
      .catch((error) => fill(found, h("p", { class: "bad", role: "alert" }, error.message)));
    // Something else has been asked for since.
    if (mine !== turn || !answer) return;
    hits = [...hits, ...answer.hits];
    fill(found,
      h("p", { class: "note", role: "status" }, told(answer)),
      answer.troubles.map((trouble) => h("p", { class: "bad" }, trouble)),
      h("ol", { class: "hits" }, hits.map((hit) => shown(hit, { job, volume: within }))),
      hits.length < answer.total && h("button", { onclick: () => look(hits.length, hits) }, "Show more"));
    if ((answer.behind > 0 || answer.is_updating) && offset === 0 && answer.troubles.length === 0) setTimeout(() => mine === turn && found.isConnected && look(), AGAIN);
  };
  const form = h("form", {
    class: "row", role: "search", onsubmit: (event) => {
      event.preventDefault();
      return look();
    },
  }, input, scope, h("button", {}, "Find"), h("label", {}, exact, " as spelled"));
  return { place: h("div", {}, form, found), focus: () => input.focus(), look };
}

const told = ({ total, volumes, behind, is_updating }) => [
  total === 0 ? "Not found" : `${count(total)} ${total === 1 ? "page" : "pages"}`, ` in ${count(volumes)} ${volumes === 1 ? "volume" : "volumes"}.`,
  behind > 0 ? ` ${count(behind)} more are being indexed.` : is_updating && " The index is being brought up to date.",
];

// A page that matches: where it is, and each line as it reads and as it looks.
function shown(hit, known) {
  const page = `/jobs/${part(hit.job)}/volumes/${part(hit.volume)}/pages/${hit.page}`;
  const where = [!known.job && hit.job, !known.volume && hit.volume, `page ${hit.page}`].filter(Boolean).join(", ");
  const passage = hit.lines.length === 0 && h("div", {},
    h("a", { href: `#/read/${part(hit.job)}/${part(hit.volume)}/${hit.page}` }, where), " ", h("span", {}, hit.passage));
  return h("li", {}, passage, hit.lines.map(({ line, parts }) => h("div", {},
    h("a", { href: `#/read/${part(hit.job)}/${part(hit.volume)}/${hit.page}?line=${line}` }, `${where}, line ${line}`), " ",
    h("span", { lang: "bo" }, parts.map(({ text, is_match }) => (is_match ? h("mark", {}, text) : text))),
    h("img", {
      src: `/api/v1${page}/image?line=${line}&width=1600`, alt: "", loading: "lazy", class: "line",
      // A scan that is out of reach is no reason not to show what was read.
      onerror: (event) => event.target.remove(),
    }))));
}
