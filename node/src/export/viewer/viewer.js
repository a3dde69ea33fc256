// The exported viewer: a volume that lies in this file, but for its pictures if they are many; these lie in a folder beside it.

import { fill, h } from "./dom.js";
import { scanSheet, wordBox } from "./sheet.js";

const volume = JSON.parse(document.getElementById("volume").textContent);
const by = (id) => document.getElementById(id);
const main = by("page"), text = by("text"), pages = by("pages"), search = by("search"), matches = by("matches");
let current = 0, line = -1, query = "", drawn;

// Low confidence matters more than the difference between good and very good.
const LOWEST = 0.4;
const colour = (confidence, alpha = 1) => confidence === null ? `hsl(0 0% 60% / ${alpha})` : `hsl(${Math.round(120 * Math.max(0, Math.min(1, (confidence - LOWEST) / (1 - LOWEST))))} 65% 45% / ${alpha})`;
// Some services give none.
const surety = (confidence) => (confidence === null ? "no confidence" : `confidence ${confidence.toFixed(3)}`);
by("scale").style.background = `linear-gradient(90deg, ${[LOWEST, (1 + LOWEST) / 2, 1].map((confidence) => colour(confidence))})`;

volume.pages.forEach((page, index) => pages.add(new Option(`${index + 1} / ${volume.pages.length}  ${page.source}`, index)));

function show(index, selected = -1) {
  current = Math.max(0, Math.min(volume.pages.length - 1, index));
  const page = volume.pages[current];
  if (!page) { text.textContent = "This volume has no pages."; return; }
  pages.value = current;
  history.replaceState(null, "", `#${current + 1}`);
  const source = pictureOf(page);
  const picture = source && h("img", { src: source, alt: page.source });
  drawn = scanSheet(page, picture, { about, choose: (number) => select(number, true), words: (entry) => entry.segments.map(boxed) });
  // A page without a picture has its outlines all the same.
  if (page.width && page.height) drawn.place.style.aspectRatio = `${page.width} / ${page.height}`;
  for (const [number, outline] of drawn.outlines.entries()) outline.style.setProperty("--line", colour(page.lines[number].confidence));
  drawn.zoom.fit();
  main.className = page.width > page.height ? "wide" : "tall";
  fill(by("scan"), !source && h("figcaption", {}, `no picture of ${page.source}`), drawn.zoom.place);
  fill(text, page.error ? h("p", { class: "failed" }, page.error) : page.lines.map(written));
  text.lang = page.language;
  text.scrollTop = 0;
  line = -1;
  if (selected >= 0) select(selected);
  const known = page.lines.map((entry) => entry.confidence).filter((confidence) => confidence !== null);
  const mean = known.length ? known.reduce((sum, confidence) => sum + confidence, 0) / known.length : null;
  by("status").textContent = page.lines.length ? `${page.lines.length} lines, ${mean === null ? "" : "mean "}${surety(mean)}` : page.error ? "not read" : "no lines";
}

function pictureOf(page) {
  if (page.picture) return page.picture.split("/").map(encodeURIComponent).join("/");
  const inside = by(`scan-${current}`);
  return inside && `data:image/jpeg;base64,${inside.textContent.trim()}`;
}

function about(entry, number) {
  return `line ${number + 1}, ${surety(entry.confidence)}`;
}

function written(entry, number) {
  const isHit = query && entry.text.includes(query);
  const paragraph = h("p", { class: "line", title: about(entry, number), onclick: () => select(number) },
    isHit ? entry.text.split(query).map((part, index) => [index > 0 && h("mark", {}, query), part]) : segments(entry).map(shaded));
  paragraph.style.setProperty("--line", colour(entry.confidence));
  return paragraph;
}

const segments = (entry) => (entry.segments.length ? entry.segments : [[entry.text, entry.confidence]]);

function shaded([part, confidence]) {
  const span = h("span", { title: surety(confidence) }, part);
  span.style.setProperty("--shade", confidence !== null && confidence < 0.9 ? colour(confidence, 0.3) : "transparent");
  return span;
}

function boxed([part, confidence, box]) {
  return wordBox(box, `${part.trim()}, ${surety(confidence)}`, `--line: ${colour(confidence)}`);
}

function select(number, isSeen) {
  line = Math.max(0, Math.min(volume.pages[current].lines.length - 1, number));
  for (const [index, paragraph] of [...text.children].entries()) paragraph.classList.toggle("on", index === line);
  text.children[line]?.scrollIntoView({ block: "nearest", inline: "nearest" });
  drawn.mark(line, isSeen);
}

function find(start) {
  query = search.value.trim();
  matches.textContent = "";
  if (!query) return show(current, line);
  const hits = [];
  volume.pages.forEach((page, p) => page.lines.forEach((entry, l) => entry.text.includes(query) && hits.push([p, l])));
  if (!hits.length) { matches.textContent = "not found"; return; }
  let hit = hits.findIndex(([p, l]) => p > start[0] || (p === start[0] && l > start[1]));
  if (hit < 0) hit = 0;
  show(...hits[hit]);
  matches.textContent = `${hit + 1} / ${hits.length}`;
}

by("previous").addEventListener("click", () => show(current - 1));
by("next").addEventListener("click", () => show(current + 1));
by("help-button").addEventListener("click", () => by("help").showModal());
pages.addEventListener("change", () => show(Number(pages.value)));
search.addEventListener("keydown", (event) => {
  event.stopPropagation();
  if (event.key === "Enter") find([current, search.value.trim() === query ? line : -1]);
  if (event.key === "Escape") { search.value = ""; find([current, -1]); search.blur(); }
});
const keys = {
  ArrowLeft: () => show(current - 1), PageUp: () => show(current - 1),
  ArrowRight: () => show(current + 1), PageDown: () => show(current + 1),
  Home: () => show(0), End: () => show(volume.pages.length - 1),
  ArrowUp: () => select(line - 1), ArrowDown: () => select(line + 1),
  l: () => document.body.classList.toggle("no-outlines"), w: () => document.body.classList.toggle("boxes"), c: () => document.body.classList.toggle("confidence"),
  "/": () => search.focus(), "?": () => by("help").showModal(),
};
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || by("help").open) return;
  const action = keys[event.key] ?? drawn?.zoom.keys[event.key];
  if (action) { event.preventDefault(); action(); }
});
document.body.classList.add("confidence");
show((Number(location.hash.slice(1)) || 1) - 1);
