// Outlines of lines: polygons of whole pixels of the scan, cut, joined and put in order.

import { bounds } from "./sheet.js";

// The two parts of an outline on either side of an upright line, at this share of its width.
export function cut(polygon, share) {
  const { left, right } = bounds(polygon);
  const at = Math.min(right - 1, Math.max(left + 1, Math.round(left + share * (right - left))));
  return [half(polygon, (x) => x <= at, at), half(polygon, (x) => x >= at, at)];
}

// The part of an outline that `isIn`, which ends at `at` (Sutherland and Hodgman).
function half(polygon, isIn, at) {
  return polygon.flatMap(([x, y], index) => {
    const [beforeX, beforeY] = polygon.at(index - 1);
    const edge = isIn(x) !== isIn(beforeX) ? [[at, Math.round(beforeY + ((y - beforeY) * (at - beforeX)) / (x - beforeX))]] : [];
    return isIn(x) ? [...edge, [x, y]] : edge;
  });
}

// The convex outline around these corners (Andrew's monotone chain).
export function hull(corners) {
  const sorted = corners.toSorted(([x, y], [otherX, otherY]) => x - otherX || y - otherY);
  const side = (points) => {
    const found = [];
    for (const point of points) {
      while (found.length > 1 && turn(found.at(-2), found.at(-1), point) <= 0) found.pop();
      found.push(point);
    }
    return found.slice(0, -1);
  };
  return [...side(sorted), ...side(sorted.toReversed())];
}

const turn = ([x, y], [atX, atY], [toX, toY]) => (atX - x) * (toY - y) - (atY - y) * (toX - x);

// The outline as far as it is on the page: those that models find can reach beyond it.
export const within = ({ width, height }, polygon) => polygon.map(([x, y]) => [Math.max(0, Math.min(width, x)), Math.max(0, Math.min(height, y))]);

export const box = ([x, y], [toX, toY]) => [[x, y], [toX, y], [toX, toY], [x, toY]];

// The place of the line behind which one with this outline is read: the last one above it or to the left of it; -1 where it is the first.
export function placeBehind(lines, polygon) {
  const own = bounds(polygon);
  return lines.findLastIndex((line) => {
    const other = bounds(line.polygon);
    const shared = Math.min(own.bottom, other.bottom) - Math.max(own.top, other.top);
    if (shared > 0.5 * Math.min(own.bottom - own.top, other.bottom - other.top)) return other.left < own.left;
    return other.top < own.top && other.left < own.right && own.left < other.right;
  });
}
