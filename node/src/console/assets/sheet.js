// The scan of a page with the outlines of its lines and the boxes of their words over it, in a frame that zooms. The console and the exported viewer draw it alike: the
// viewer is one file, and has this module and those that it imports inlined.

import { fill, h } from "./dom.js";
import { zoomable } from "./zoom.js";

// `picture` shows all of the page. `about(line, index)` is the title of a line, `choose(index, event)` is called when it or a word of it is clicked,
// and `shown` as by `zoomable`; `words(line)` are rectangles, and `label(line, index)` is drawn over them. `draw` is for lines that have changed.
export function scanSheet(page, picture, { about, choose, shown, words, label }) {
  const outlines = [];
  const drawn = h("svg", { viewBox: `0 0 ${page.width || 1} ${page.height || 1}`, preserveAspectRatio: "none" });
  const draw = () => {
    outlines.splice(0, outlines.length, ...page.lines.map((line, index) => h("polygon", {
      points: line.polygon.map((corner) => corner.join(",")).join(" "), onclick: (event) => choose(index, event),
    }, h("title", {}, about(line, index)))));
    const boxes = page.lines.map((line, index) => h("g", { class: "words", onclick: (event) => choose(index, event) }, words(line)));
    fill(drawn, outlines, boxes, label && page.lines.map(label));
  };
  draw();
  const place = h("div", { class: "sheet" }, picture, drawn);
  const zoom = zoomable(place, page.width, shown);
  // Marks one line, and brings it into the frame unless it `isSeen`.
  const mark = (chosen, isSeen) => {
    for (const [index, outline] of outlines.entries()) outline.classList.toggle("on", index === chosen);
    if (isSeen || !page.lines[chosen]) return;
    const { left, top, right, bottom } = bounds(page.lines[chosen].polygon);
    zoom.reveal([left / page.width, top / page.height, right / page.width, bottom / page.height]);
  };
  return { place, outlines, zoom, mark, draw };
}

// The box of a word, with what is said of it.
export const wordBox = ([x, y, width, height], title, style) => h("rect", { x, y, width, height, style }, h("title", {}, title));

// The sides of the upright rectangle around a polygon.
export function bounds(polygon) {
  const [columns, rows] = [0, 1].map((axis) => polygon.map((corner) => corner[axis]));
  return { left: Math.min(...columns), right: Math.max(...columns), top: Math.min(...rows), bottom: Math.max(...rows) };
}
