// The chosen line, large, with what was read in it at the same width below: the one is checked against the other.

import { h, fill } from "./dom.js";
import { surety } from "./lines.js";
import { bounds } from "./sheet.js";

// Of what is around a line, in its heights.
const MARGIN = 0.15;
// Of the text, in heights of the line.
const ROOM = 0.85, GAP = 0.05, [SMALLEST, LARGEST] = [0.25, 0.45];
// A text that is so many times shorter than its line at its largest is not drawn out to it.
const DRAWN_OUT = 1.6;
const MOST_PIXELS = 6000;

// Of a page whose parts are at `picture(x, y, width, height, pixels)`; `whole` is a picture of all of it. `turn` goes on by so
// many lines, and `pointed` is told which place of the text has been clicked on, or lies below what has been.
export function strip(page, whole, picture, turn, pointed) {
  const about = h("span", { role: "status" });
  const view = h("div", { class: "strip", tabindex: 0, role: "region", "aria-label": "Chosen line" });
  let line;
  const fit = () => line && fitted(line);
  new ResizeObserver(fit).observe(view);
  document.fonts.ready.then(fit);
  const retext = (text) => {
    line.words.textContent = text;
    fit();
  };
  const show = (index) => {
    fill(about, page.lines[index] ? [`Line ${index + 1} of ${page.lines.length}, `, surety(page.lines[index])] : "No lines");
    const { text, polygon } = page.lines[index] ?? {};
    // The picture stays where the line does.
    if (polygon && line?.outline === String(polygon)) return retext(text);
    line = undefined;
    if (!polygon) return fill(view);
    const box = bounds(polygon);
    const [x, y, width, height] = region(page, box);
    const words = h("text", { lang: page.language }, text);
    const image = (href, x, y, width, height) => h("image", { href, x, y, width, height, preserveAspectRatio: "none" });
    fill(view, h("svg", {
      viewBox: `${x} ${y} ${width} ${height * (1 + ROOM)}`, style: `--rows: ${1 + ROOM}`,
      onclick: ({ clientX, currentTarget }) => {
        const { left, width: shown } = currentTarget.getBoundingClientRect();
        pointed(placeNear(words, x + ((clientX - left) * width) / shown));
      },
    }, h("svg", { x, y, width, height, viewBox: `${x} ${y} ${width} ${height}` },
      // What there is already, until the line itself has come.
      image(whole(), 0, 0, page.width, page.height),
      image(picture(x, y, width, height, Math.min(width, MOST_PIXELS)), x, y, width, height)), words));
    line = { words, outline: String(polygon), box, x, width, base: y + height * (1 + GAP + LARGEST), size: height * LARGEST };
    view.scrollTo(0, 0);
    fit();
  };
  const center = (x) => view.scrollTo(((x - line.x) / line.width) * view.scrollWidth - view.clientWidth / 2, 0);
  return {
    place: h("section", { class: "chosen" }, h("div", { class: "row" }, about,
      h("button", { "aria-label": "Line before", title: "Line before (↑)", onclick: () => turn(-1) }, "↑"),
      h("button", { "aria-label": "Line behind", title: "Line behind (↓)", onclick: () => turn(1) }, "↓")), view),
    // Shows this line.
    show,
    // Shows another text with it.
    retext,
    // Shows what lies here on the scan in the middle.
    center,
    // The place of the text that lies here on the scan.
    placeAt: (x) => placeNear(line.words, x),
    // Brings a place of the text into view.
    reveal: (place) => {
      const x = columnOf(line.words, place);
      const seen = ((x - line.x) / line.width) * view.scrollWidth - view.scrollLeft;
      if (seen < 0 || seen > view.clientWidth) center(x);
    },
  };
}

// Where signs of a text lie on the scan: how far to the right the one at a place begins, or the last one ends.
function columnOf(words, place) {
  const number = words.getNumberOfChars();
  if (number === 0) return 0;
  const { x } = place < number ? words.getStartPositionOfChar(place) : words.getEndPositionOfChar(number - 1);
  const { a, e } = words.transform.baseVal.consolidate().matrix;
  return a * x + e;
}

// The place of the sign that begins nearest to a column of the scan.
function placeNear(words, column) {
  const away = Array.from({ length: words.getNumberOfChars() + 1 }, (_, place) => Math.abs(columnOf(words, place) - column));
  return away.indexOf(Math.min(...away));
}

// The part of the scan that shows a line: left, top, width and height in whole pixels of it.
function region(page, { left, right, top, bottom }) {
  const margin = MARGIN * (bottom - top);
  const within = (length, at) => Math.round(Math.max(0, Math.min(length, at)));
  const [x, y] = [Math.min(page.width - 1, within(page.width, left - margin)), Math.min(page.height - 1, within(page.height, top - margin))];
  return [x, y, Math.max(1, within(page.width, right + margin) - x), Math.max(1, within(page.height, bottom + margin) - y)];
}

// Gives the words of a line the width that they have on the scan.
function fitted({ words, box: { left, right }, base, size }) {
  words.removeAttribute("transform");
  words.setAttribute("font-size", size);
  const stretch = (right - left) / words.getComputedTextLength();
  const smaller = Math.max(SMALLEST / LARGEST, Math.min(1, stretch));
  words.setAttribute("font-size", size * smaller);
  // Before they are shown they have no width.
  words.setAttribute("transform", `translate(${left} ${base}) scale(${stretch > DRAWN_OUT ? 1 : stretch / smaller} 1)`);
}
