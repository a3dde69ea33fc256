"use strict";
const volume = JSON.parse(document.getElementById("volume").textContent);
const by = (id) => document.getElementById(id);
const main = by("page"), stage = by("stage"), image = by("image"), overlay = by("overlay"), text = by("text");
const pages = by("pages"), search = by("search"), matches = by("matches");
let current = 0, line = -1, zoom = 1, query = "";

// Low confidence matters more than the difference between good and very good.
const LOWEST = 0.4;
const colour = (confidence, alpha = 1) => `hsl(${Math.round(120 * Math.max(0, Math.min(1, (confidence - LOWEST) / (1 - LOWEST))))} 65% 45% / ${alpha})`;
by("scale").style.background = `linear-gradient(90deg, ${[LOWEST, (1 + LOWEST) / 2, 1].map((confidence) => colour(confidence))})`;

volume.pages.forEach((page, index) => pages.add(new Option(`${index + 1} / ${volume.pages.length}  ${page.source}`, index)));

function show(index, selected = -1) {
  current = Math.max(0, Math.min(volume.pages.length - 1, index));
  const page = volume.pages[current];
  if (!page) { text.textContent = "This volume has no pages."; return; }
  pages.value = current;
  history.replaceState(null, "", `#${current + 1}`);
  const scan = document.getElementById(`scan-${current}`);
  image.hidden = !scan;
  image.src = scan ? `data:image/jpeg;base64,${scan.textContent.trim()}` : "data:,";
  image.alt = page.source;
  by("missing").textContent = scan ? "" : `no picture of ${page.source}`;
  stage.style.aspectRatio = page.width && page.height ? `${page.width} / ${page.height}` : "";
  main.className = page.width > page.height ? "wide" : "tall";
  overlay.setAttribute("viewBox", `0 0 ${page.width || 1} ${page.height || 1}`);
  overlay.replaceChildren(...page.lines.map((entry, number) => outline(entry, number)));
  text.replaceChildren(...(page.error ? [failure(page.error)] : page.lines.map((entry, number) => written(entry, number))));
  text.scrollTop = 0;
  setZoom(1);
  line = -1;
  if (selected >= 0) select(selected);
  const mean = page.lines.reduce((sum, entry) => sum + entry.confidence, 0) / (page.lines.length || 1);
  by("status").textContent = page.lines.length ? `${page.lines.length} lines, mean confidence ${mean.toFixed(3)}` : page.error ? "not read" : "no lines";
}

function outline(entry, number) {
  const polygon = document.createElementNS("http://www.w3.org/2000/svg", "polygon");
  polygon.setAttribute("points", entry.polygon.map((point) => point.join(",")).join(" "));
  polygon.style.setProperty("--line", colour(entry.confidence));
  polygon.addEventListener("click", () => select(number));
  return polygon;
}

function written(entry, number) {
  const paragraph = document.createElement("p");
  paragraph.className = "line";
  paragraph.title = `line ${number + 1}, confidence ${entry.confidence.toFixed(3)}`;
  paragraph.style.setProperty("--line", colour(entry.confidence));
  if (query && entry.text.includes(query)) {
    entry.text.split(query).forEach((part, index) => {
      if (index) paragraph.append(Object.assign(document.createElement("mark"), { textContent: query }));
      paragraph.append(part);
    });
  } else {
    for (const segment of entry.segments.length ? entry.segments : [[entry.text, entry.confidence]]) {
      const span = Object.assign(document.createElement("span"), { textContent: segment[0], title: segment[1].toFixed(3) });
      span.style.setProperty("--shade", segment[1] < 0.9 ? colour(segment[1], 0.3) : "transparent");
      paragraph.append(span);
    }
  }
  paragraph.addEventListener("click", () => select(number));
  return paragraph;
}

function failure(message) {
  return Object.assign(document.createElement("p"), { className: "failed", textContent: message });
}

function select(number) {
  for (const shown of document.querySelectorAll(".current")) shown.classList.remove("current");
  line = Math.max(0, Math.min(volume.pages[current].lines.length - 1, number));
  const shown = [overlay.children[line], text.children[line]];
  for (const element of shown) {
    element?.classList.add("current");
    element?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }
}

function setZoom(factor) {
  zoom = Math.max(1, Math.min(8, factor));
  stage.style.width = `${100 * zoom}%`;
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
  "+": () => setZoom(zoom * 1.25), "=": () => setZoom(zoom * 1.25), "-": () => setZoom(zoom / 1.25), 0: () => setZoom(1),
  l: () => document.body.classList.toggle("no-outlines"), c: () => document.body.classList.toggle("confidence"),
  "/": () => search.focus(), "?": () => by("help").showModal(),
};
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || by("help").open) return;
  const action = keys[event.key];
  if (action) { event.preventDefault(); action(); }
});
document.body.classList.add("confidence");
show((Number(location.hash.slice(1)) || 1) - 1);
