// The page viewer: the scan with its lines, and what was read in them, which those who may can correct.

import { get, may, part } from "./api.js";
import { count, fill, h, percent } from "./dom.js";
import { clickedAt, nextUnsure, unplacedList, written } from "./lines.js";
import { search } from "./search.js";
import { bounds, scanSheet, wordBox } from "./sheet.js";
import { strip } from "./strip.js";

// What is shown of the lines and their words, on this page and the next one.
const shows = { outlines: true, words: false, numbers: false };
// How many pixels wide the picture of a scan is: the first of these that is no less than what is shown of it.
const WIDTHS = [1600, 3000, 6000];
const SIDEWAYS = new Set(["ArrowLeft", "ArrowRight"]);

export async function reader(place, job, volume, number) {
  const path = `/jobs/${part(job)}/volumes/${part(volume)}`;
  const { pages } = await get(`${path}/pages`);
  const at = Math.max(0, Math.min(pages.length - 1, Number(number ?? 1) - 1));
  const go = (to) => to >= 0 && to < pages.length && (location.hash = `#/read/${part(job)}/${part(volume)}/${to + 1}`);
  const own = `${path}/pages/${at + 1}`;
  let latest = await get(own);
  const page = { ...latest };
  // Only those who may correct it take what that needs.
  const { editor } = may("edit") ? await import("./editor.js") : {};
  const wanted = new URLSearchParams(location.hash.split("?")[1] ?? "").get("line");

  const list = h("ol", { class: "lines" });
  const [lines, unplaced] = [[], h("div", {})];
  // Each place of the list has its element, whatever line is there.
  const draw = () => {
    for (const gone of lines.splice(page.lines.length)) gone.remove();
    for (const [index, line] of page.lines.entries()) {
      if (!lines[index]) {
        lines[index] = h("li", {
          tabindex: 0, onclick: (event) => {
            // Before anything moves.
            const places = clickedAt(event);
            choose(index);
            if (places) corrections?.open(places);
          },
          // By a key: whoever clicks has not let go yet.
          onfocus: () => lines[index].matches(":focus-visible") && choose(index),
        });
        list.append(lines[index]);
      }
      if (lines[index].shows === line) continue;
      lines[index].shows = line;
      fill(lines[index], written(line, page.language));
    }
    fill(unplaced, unplacedList(page.unplaced, page.language));
  };
  const address = (query) => `/api/v1${own}/image?${query}`;
  const pictureOf = (width) => Math.min(WIDTHS.find((known) => known >= width) ?? WIDTHS.at(-1), page.width || WIDTHS[0]);
  let width = pictureOf(0);
  const missing = h("p", { class: "note", hidden: true }, "There is no picture of the scan.");
  const seen = (isSeen) => {
    missing.hidden = isSeen;
    zoom.place.hidden = !isSeen;
  };
  const picture = h("img", {
    src: page.width > 0 && address(`width=${width}`), alt: `Scan of page ${at + 1}`, width: page.width, height: page.height,
    onload: () => seen(true), onerror: () => seen(false),
  });
  const sharper = async (pixels) => {
    const wanted = pictureOf(pixels);
    if (wanted <= width) return;
    width = wanted;
    const next = h("img", { src: address(`width=${width}`) });
    // The one that is there stays until the next has come.
    const come = await next.decode().then(() => true, () => false);
    if (come && wanted === width) picture.src = next.src;
  };
  const { place: sheet, zoom, mark, draw: drawSheet } = scanSheet(page, picture, {
    about: (line, index) => `line ${index + 1}, ${line.corrected ? `corrected by ${line.corrected.who}` : `confidence ${percent(line.confidence)}`}`,
    choose: (index, event) => {
      choose(index, true);
      const box = sheet.getBoundingClientRect();
      const x = (page.width * (event.clientX - box.left)) / box.width;
      large.center(x);
      const at = large.placeAt(x);
      corrections?.open([at, at]);
    },
    shown: sharper, words: (line) => line.words.map(boxed), label: placed(page),
  });

  let chosen;
  const turn = (by) => {
    if (lines.length === 0) return;
    const index = Math.max(0, Math.min(lines.length - 1, chosen + by));
    // Whoever is in the list stays in it.
    if (lines.includes(document.activeElement)) lines[index].focus();
    choose(index);
  };
  const large = strip(page, () => picture.src, (x, y, width, height, pixels) =>
    address(`region=${x},${y},${width},${height}&width=${pixels}`), turn, (place) => corrections?.open([place, place]));
  const show = (index, isSeen) => {
    chosen = index;
    for (const [other, line] of lines.entries()) line.classList.toggle("on", other === index);
    large.show(index);
    mark(index, isSeen);
  };
  const choose = (index, isSeen) => {
    if (index === chosen) return;
    corrections?.commit();
    show(index, isSeen);
    corrections?.arrive();
  };
  // Shows other lines in place of those that are there; those that are the same stay as they are.
  const take = (next, others) => {
    const known = new Map([...page.lines, ...page.unplaced].map((line) => [JSON.stringify(line), line]));
    const [fresh, unplaced] = [next, others].map((lines) => lines.map((line) => known.get(JSON.stringify(line)) ?? line));
    const isOld = (lines, old) => lines.length === old.length && lines.every((line, index) => line === old[index]);
    if (isOld(fresh, page.lines) && isOld(unplaced, page.unplaced)) return;
    const before = page.lines[chosen]?.id;
    Object.assign(page, { lines: fresh, unplaced });
    draw();
    drawSheet();
    const found = fresh.findIndex((line) => line.id === before);
    show(found < 0 ? Math.max(0, Math.min(chosen ?? 0, fresh.length - 1)) : found, true);
  };
  const receive = (answer) => {
    // One that was asked for earlier may come later.
    if (answer.revision < latest.revision) return;
    latest = answer;
    if (corrections) corrections.receive(latest);
    else take(latest.lines, latest.unplaced);
  };
  const reload = async () => receive(await get(own));
  const corrections = editor?.({
    page, path: own, sheet, large, take, choose, receive, reload, chosen: () => chosen, focus: () => lines[chosen]?.focus(),
  });
  const unsure = () => {
    const next = nextUnsure(page.lines, chosen);
    if (next >= 0) choose(next);
  };
  if (page.width === 0) seen(false);
  const showKind = (what) => sheet.classList.toggle(what, shows[what]);
  const toggle = (what) => h("label", {}, h("input", {
    type: "checkbox", checked: shows[what], onchange: (event) => {
      shows[what] = event.target.checked;
      showKind(what);
    },
  }), ` ${what}`);
  Object.keys(shows).forEach(showKind);
  draw();
  const finder = search({ job, volume });
  fill(place,
    h("h1", {}, `${volume}, page ${at + 1} of ${count(pages.length)}`),
    h("p", {}, h("a", { href: `#/jobs/${part(job)}` }, job), " · ", h("a", { href: `#/jobs/${part(job)}/${part(volume)}` }, volume)),
    h("div", { class: "row" },
      h("button", { onclick: () => go(at - 1), disabled: at === 0, accesskey: "p" }, "← Previous"),
      h("button", { onclick: () => go(at + 1), disabled: at + 1 === pages.length, accesskey: "n" }, "Next →"),
      downloads(job, volume, at + 1, page.image_name),
      h("select", { "aria-label": "Page", onchange: (event) => go(Number(event.target.value)) },
        pages.map((name, index) => h("option", { value: index, selected: index === at }, `${index + 1} ${name}`))),
      page.width > 0 && [zoom.buttons, Object.keys(shows).map(toggle)], corrections?.toggle),
    finder.place,
    page.error ? h("p", { class: "bad" }, page.error) : undefined,
    (lines.length > 0 || corrections) && large.place, corrections?.notices,
    h("div", { class: page.width > 2 * page.height ? "reader leaf" : "reader" }, zoom.place, missing, h("div", {}, list, unplaced)));
  if (corrections) large.place.append(corrections.place);
  choose(lines[wanted - 1] ? wanted - 1 : 0);
  if (corrections) corrections.receive(latest);

  const keyed = {
    ArrowLeft: () => go(at - 1), ArrowRight: () => go(at + 1), "/": finder.focus, ...zoom.keys,
    ArrowUp: () => turn(-1), ArrowDown: () => turn(1), u: unsure, ...corrections?.keys,
  };
  const keys = (event) => {
    if (event.target.closest("input, select, textarea, dialog") || event.ctrlKey || event.metaKey || event.altKey) return;
    // What can be scrolled is.
    if (event.target.closest(".zoomed") ? event.key.startsWith("Arrow") : event.target.closest(".strip") && SIDEWAYS.has(event.key)) return;
    // A button and a link have their own.
    if (event.key === "Enter" && event.target.closest("button, a, summary")) return;
    if (keyed[event.key]) {
      event.preventDefault();
      keyed[event.key]();
    }
  };
  addEventListener("keydown", keys);
  return {
    refresh: async () => {
      // A picture that did not come.
      if (page.width > 0 && !missing.hidden) picture.src = address(`width=${width}`);
      await reload();
    },
    leave: () => {
      removeEventListener("keydown", keys);
      corrections?.leave();
    },
  };
}

function boxed({ text, bounds: box, confidence }) {
  return wordBox(box, `${text.trim()}, confidence ${percent(confidence)}`);
}

// The number of a line, before its beginning.
const placed = (page) => (line, index) => {
  const { left, top, bottom } = bounds(line.polygon);
  const size = Math.min(Math.max(page.width, page.height) / 50, page.height / 12);
  return h("text", { x: Math.max(size, left - size), y: (top + bottom) / 2, "font-size": size }, index + 1);
};

// What the interface gives no name of its own has one here: none of another page or volume has the same.
function downloads(job, volume, page, image) {
  const [files, iiif] = ["volumes", "iiif"].map((kind) => `/api/v1/jobs/${part(job)}/${kind}/${part(volume)}`);
  const list = (title, links) => [h("b", {}, title),
    links.map(([name, href, file]) => h("a", { href, download: file ?? true }, name))];
  return h("details", { class: "menu" }, h("summary", {}, "Download"), h("div", {},
    list("This page", [
      ["PAGE XML", `${files}/pages/${page}/pagexml`], ["ALTO", `${files}/pages/${page}/alto`], ["hOCR", `${files}/pages/${page}/hocr`],
      ["IIIF annotations", `${iiif}/annotations/${part(image)}.json`, `${volume}.${image}.annotations.json`],
      ["Picture", `${iiif}/images/${part(image)}.jpg`, `${volume}.${image}.jpg`],
    ]),
    list("The volume", [
      ["Text", `${files}/text`], ["JSON lines", `${files}/lines`], ["Parquet", `${files}/parquet`],
      ["IIIF manifest", `${iiif}/manifest.json`, `${volume}.manifest.json`],
    ])));
}
