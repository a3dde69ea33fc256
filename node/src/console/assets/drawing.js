// Drawing the outline of a line over the scan, with a mouse, a pen or a finger: a box that is dragged, or corners one after the other.

import { h } from "./dom.js";
import { box } from "./outlines.js";

// Pixels of the screen within which a pointer has not moved.
const STILL = 6;

// Begins to draw; `done` is called with the outline. `end` takes away what was not ended.
export function drawing(page, sheet, done) {
  let corners = [], from, to;
  const shape = h("polygon", { class: "on" });
  const layer = h("svg", { class: "drawing", viewBox: `0 0 ${page.width} ${page.height}`, preserveAspectRatio: "none" }, shape);
  const at = (event) => {
    const { left, top, width, height } = layer.getBoundingClientRect();
    const within = (place, most) => Math.round(Math.max(0, Math.min(1, place)) * most);
    return [within((event.clientX - left) / width, page.width), within((event.clientY - top) / height, page.height)];
  };
  const isNear = (one, other) => {
    const scale = layer.getBoundingClientRect().width / page.width;
    return one && other && Math.hypot(one[0] - other[0], one[1] - other[1]) * scale < STILL;
  };
  const isBox = () => from && corners.length === 0 && !isNear(from, to);
  const paint = () => shape.setAttribute("points", (isBox() ? box(from, to) : to ? [...corners, to] : corners).join(" "));
  const end = () => layer.remove();
  const ended = (polygon) => {
    const [wide, tall] = [0, 1].map((axis) => new Set(polygon.map((corner) => corner[axis])).size);
    if (polygon.length < 3 || wide < 2 || tall < 2) return;
    end();
    done(polygon);
  };
  const close = () => ended(corners);
  const on = (name, does) => layer.addEventListener(name, (event) => {
    event.preventDefault();
    // The frame would move the scan.
    event.stopPropagation();
    does(event);
  });
  on("pointerdown", (event) => {
    // Two fingers enlarge.
    from = event.isPrimary && event.button === 0 ? at(event) : undefined;
    to = from;
    if (from) layer.setPointerCapture(event.pointerId);
  });
  on("pointermove", (event) => {
    to = at(event);
    paint();
  });
  on("pointerup", (event) => {
    if (!from) return;
    to = at(event);
    if (isBox()) return ended(box(from, to));
    from = undefined;
    if (corners.length > 2 && isNear(to, corners[0])) return close();
    if (!isNear(to, corners.at(-1))) corners.push(to);
    paint();
  });
  on("pointercancel", () => (from = undefined));
  on("dblclick", close);
  sheet.append(layer);
  return {
    end, close,
    // Takes away the last corner.
    back: () => {
      corners = corners.slice(0, -1);
      paint();
    },
  };
}
