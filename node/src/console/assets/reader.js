// The page viewer: the scan with its lines, and what was read in them.

import { get, part } from "./api.js";
import { count, fill, h, percent } from "./dom.js";

const UNSURE = 0.8;

export async function reader(place, job, volume, number) {
  const path = `/jobs/${part(job)}/volumes/${part(volume)}`;
  const { pages } = await get(`${path}/pages`);
  const at = Math.max(0, Math.min(pages.length - 1, Number(number ?? 1) - 1));
  const link = (page) => `#/read/${part(job)}/${part(volume)}/${page + 1}`;
  const go = (page) => page >= 0 && page < pages.length && (location.hash = link(page));
  const page = await get(`${path}/pages/${at + 1}`);
  const wanted = new URLSearchParams(location.hash.split("?")[1] ?? "").get("line");

  const lines = page.lines.map((line, index) => h("li", {
    lang: "bo", tabindex: 0, title: `confidence ${percent(line.confidence)}`,
    onclick: () => choose(index), onfocus: () => choose(index),
  }, h("span", { class: line.confidence < UNSURE ? "unsure" : undefined }, line.text)));
  const outlines = page.lines.map((line, index) => h("polygon", {
    points: line.polygon.map(([x, y]) => `${x},${y}`).join(" "),
    onclick: () => {
      choose(index);
      lines[index].scrollIntoView({ block: "nearest" });
    },
  }, h("title", {}, `line ${index + 1}`)));
  const choose = (index) => {
    for (const [other, line] of lines.entries()) {
      line.classList.toggle("on", other === index);
      outlines[other].classList.toggle("on", other === index);
    }
  };
  const sheet = h("div", { class: "sheet" },
    h("img", { src: `/api/v1${path}/pages/${at + 1}/image`, alt: `Scan of page ${at + 1}`, width: page.width, height: page.height }),
    h("svg", { viewBox: `0 0 ${page.width} ${page.height}`, preserveAspectRatio: "none" }, outlines));
  const hits = h("div", {});
  const search = h("form", { class: "row", role: "search", onsubmit: (event) => find(event) },
    h("input", { type: "search", "aria-label": "Text to look for", lang: "bo", placeholder: "find in this volume" }),
    h("button", {}, "Find"));
  const find = async (event) => {
    event.preventDefault();
    const text = search.querySelector("input").value.trim();
    if (!text) return fill(hits);
    const { matches, more } = await get(`/jobs/${part(job)}/search`, { text, volume, limit: 50 });
    fill(hits, h("p", { class: "note" }, `${count(matches.length)}${more ? " and more" : ""} found`),
      h("ul", { class: "hits" }, matches.map((match) => h("li", {},
        h("a", { href: `${link(match.page - 1)}?line=${match.line}` }, `page ${match.page}, line ${match.line}`), " ",
        h("span", { lang: "bo" }, match.before, h("mark", {}, match.text), match.after)))));
  };
  fill(place,
    h("h1", {}, `${volume}, page ${at + 1} of ${count(pages.length)}`),
    h("div", { class: "row" },
      h("a", { href: `#/jobs/${part(job)}/${part(volume)}` }, job),
      h("button", { onclick: () => go(at - 1), disabled: at === 0, accesskey: "p" }, "← Previous"),
      h("button", { onclick: () => go(at + 1), disabled: at + 1 === pages.length, accesskey: "n" }, "Next →"),
      h("select", { "aria-label": "Page", onchange: (event) => go(Number(event.target.value)) },
        pages.map((name, index) => h("option", { value: index, selected: index === at }, `${index + 1} ${name}`))),
      h("label", {}, h("input", { type: "checkbox", checked: true, onchange: (event) => sheet.classList.toggle("plain", !event.target.checked) }), " outlines"),
      [["text", "text"], [`pages/${at + 1}/pagexml`, "PAGE XML of the page"], ["parquet", "Parquet"]]
        .map(([file, name]) => h("a", { href: `/api/v1${path}/${file}`, download: true }, name))),
    search, hits,
    page.error ? h("p", { class: "bad" }, page.error) : undefined,
    h("div", { class: page.width > 2 * page.height ? "reader leaf" : "reader" }, sheet, h("ol", { class: "lines" }, lines)));
  if (wanted) choose(Number(wanted) - 1);

  const keys = (event) => {
    if (event.target.closest("input, select, textarea") || event.ctrlKey || event.metaKey || event.altKey) return;
    const keys = { ArrowLeft: () => go(at - 1), ArrowRight: () => go(at + 1), "/": () => search.querySelector("input").focus() };
    if (keys[event.key]) {
      event.preventDefault();
      keys[event.key]();
    }
  };
  addEventListener("keydown", keys);
  return { leave: () => removeEventListener("keydown", keys) };
}
