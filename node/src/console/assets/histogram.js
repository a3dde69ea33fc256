// How long the runs of a stage took.

import { count, duration, h } from "./dom.js";

const [COLUMN, HEIGHT, BELOW] = [44, 56, 16];

// Counts of runs, each with the seconds that they took less than; those before the first run and behind the last are left out.
export function histogram(stage, counts) {
  const columns = counts.map(({ under_s, runs }, place) => ({ from: counts[place - 1]?.under_s ?? 0, under: under_s, runs }));
  const first = columns.findIndex((column) => column.runs > 0);
  if (first < 0) return undefined;
  const shown = columns.slice(first, columns.findLastIndex((column) => column.runs > 0) + 1);
  const most = Math.max(...shown.map((column) => column.runs));
  const whole = shown.reduce((sum, column) => sum + column.runs, 0);
  return h("figure", {},
    h("figcaption", {}, stage, h("small", {}, ` ${count(whole)} ${whole === 1 ? "run" : "runs"}`)),
    h("svg", {
      class: "histogram", width: (shown.length + 1) * COLUMN, height: HEIGHT + 2 * BELOW, role: "img",
      "aria-label": `${stage}: ${shown.map((column) => `${count(column.runs)} ${within(column)}`).join(", ")}`,
    }, shown.map((column, place) => {
      const height = (HEIGHT * column.runs) / most;
      const [x, y] = [(place + 0.5) * COLUMN, BELOW + HEIGHT - height];
      return h("g", {},
        h("title", {}, `${count(column.runs)} ${within(column)}`),
        h("rect", { x: x + 1, y, width: COLUMN - 2, height, rx: 2 }),
        column.runs > 0 && h("text", { x: x + COLUMN / 2, y: y - 4 }, count(column.runs)),
        h("text", { class: "idle", x, y: HEIGHT + 2 * BELOW - 3 }, column.from === 0 ? 0 : duration(column.from)));
    }), shown.at(-1).under !== null && h("text", {
      class: "idle", x: (shown.length + 0.5) * COLUMN, y: HEIGHT + 2 * BELOW - 3,
    }, duration(shown.at(-1).under))));
}

const within = ({ from, under }) => (under === null ? `longer than ${duration(from)}` : `within ${duration(under)}`);
