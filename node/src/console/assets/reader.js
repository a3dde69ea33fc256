// The page viewer: the scan with its lines, and what was read in them.

import { get, part } from "./api.js";
import { count, fill, h, percent } from "./dom.js";
import { search } from "./search.js";

const UNSURE = 0.8;
// What is shown of the lines, on this page and the next one.
const shows = { outlines: true, numbers: false };

export async function reader(place, job, volume, number) {
  const path = `/jobs/${part(job)}/volumes/${part(volume)}`;
  const { pages } = await get(`${path}/pages`);
  const at = Math.max(0, Math.min(pages.length - 1, Number(number ?? 1) - 1));
  const go = (to) => to >= 0 && to < pages.length && (location.hash = `#/read/${part(job)}/${part(volume)}/${to + 1}`);
  const page = await get(`${path}/pages/${at + 1}`);
  const wanted = new URLSearchParams(location.hash.split("?")[1] ?? "").get("line");

  const lines = page.lines.map((line, index) => h("li", { tabindex: 0, onclick: () => choose(index), onfocus: () => choose(index) },
    h("span", { lang: "bo", class: line.confidence < UNSURE ? "unsure" : undefined }, line.text),
    h("small", { title: "confidence" }, percent(line.confidence, 0))));
  const outlines = page.lines.map((line, index) => h("polygon", {
    points: line.polygon.map(([x, y]) => `${x},${y}`).join(" "),
    onclick: () => {
      choose(index);
      lines[index].scrollIntoView({ block: "nearest" });
    },
  }, h("title", {}, `line ${index + 1}, confidence ${percent(line.confidence)}`)));
  const choose = (index) => {
    for (const [other, line] of lines.entries()) {
      line.classList.toggle("on", other === index);
      outlines[other].classList.toggle("on", other === index);
    }
  };
  const sheet = h("div", { class: "sheet" },
    h("img", { src: `/api/v1${path}/pages/${at + 1}/image`, alt: `Scan of page ${at + 1}`, width: page.width, height: page.height }),
    h("svg", { viewBox: `0 0 ${page.width} ${page.height}`, preserveAspectRatio: "none" }, outlines, page.lines.map(placed(page))));
  const show = (what) => sheet.classList.toggle(what, shows[what]);
  const toggle = (what) => h("label", {}, h("input", {
    type: "checkbox", checked: shows[what], onchange: (event) => {
      shows[what] = event.target.checked;
      show(what);
    },
  }), ` ${what}`);
  Object.keys(shows).forEach(show);
  const finder = search(job, volume);
  fill(place,
    h("h1", {}, `${volume}, page ${at + 1} of ${count(pages.length)}`),
    h("p", {}, h("a", { href: `#/jobs/${part(job)}` }, job), " · ", h("a", { href: `#/jobs/${part(job)}/${part(volume)}` }, volume)),
    h("div", { class: "row" },
      h("button", { onclick: () => go(at - 1), disabled: at === 0, accesskey: "p" }, "← Previous"),
      h("button", { onclick: () => go(at + 1), disabled: at + 1 === pages.length, accesskey: "n" }, "Next →"),
      downloads(job, volume, at + 1, page.image_name),
      h("select", { "aria-label": "Page", onchange: (event) => go(Number(event.target.value)) },
        pages.map((name, index) => h("option", { value: index, selected: index === at }, `${index + 1} ${name}`))),
      Object.keys(shows).map(toggle)),
    finder.place,
    page.error ? h("p", { class: "bad" }, page.error) : undefined,
    h("div", { class: page.width > 2 * page.height ? "reader leaf" : "reader" }, sheet, h("ol", { class: "lines" }, lines)));
  if (wanted && lines[Number(wanted) - 1]) choose(Number(wanted) - 1);

  const keys = (event) => {
    if (event.target.closest("input, select, textarea, dialog") || event.ctrlKey || event.metaKey || event.altKey) return;
    const keys = { ArrowLeft: () => go(at - 1), ArrowRight: () => go(at + 1), "/": finder.focus };
    if (keys[event.key]) {
      event.preventDefault();
      keys[event.key]();
    }
  };
  addEventListener("keydown", keys);
  return { leave: () => removeEventListener("keydown", keys) };
}

// The number of a line, before its beginning.
const placed = (page) => (line, index) => {
  const rows = line.polygon.map(([, y]) => y);
  const size = Math.min(Math.max(page.width, page.height) / 50, page.height / 12);
  return h("text", {
    x: Math.max(size, Math.min(...line.polygon.map(([x]) => x)) - size), y: (Math.min(...rows) + Math.max(...rows)) / 2, "font-size": size,
  }, index + 1);
};

function downloads(job, volume, page, image) {
  const [files, iiif] = ["volumes", "iiif"].map((kind) => `/api/v1/jobs/${part(job)}/${kind}/${part(volume)}`);
  const list = (title, links) => [h("b", {}, title),
    links.map(([name, href]) => h("a", { href, download: true }, name))];
  return h("details", { class: "menu" }, h("summary", {}, "Download"), h("div", {},
    list("This page", [
      ["PAGE XML", `${files}/pages/${page}/pagexml`], ["ALTO", `${files}/pages/${page}/alto`], ["hOCR", `${files}/pages/${page}/hocr`],
      ["IIIF annotations", `${iiif}/annotations/${part(image)}.json`], ["Picture", `${iiif}/images/${part(image)}.jpg`],
    ]),
    list("The volume", [
      ["Text", `${files}/text`], ["JSON lines", `${files}/lines`], ["Parquet", `${files}/parquet`],
      ["IIIF manifest", `${iiif}/manifest.json`],
    ])));
}
