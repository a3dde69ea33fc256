// How well the volumes of a job were read: a plot of all of them, and a list of the worst.

import { get, part } from "./api.js";
import { count, fill, h, percent, table } from "./dom.js";

const INDEXES = ["confidence", "perplexity"];
// Sides of a class in the plot, and the room that its axes take.
const [WIDTH, HEIGHT, LEFT, BELOW, ABOVE] = [34, 18, 44, 18, 4];

export function quality(job) {
  const plotted = h("div", { class: "figures" }), worst = h("div", {});
  let by = INDEXES[0], turn = 0;
  const draw = async () => {
    const mine = ++turn;
    const about = await get(`/jobs/${part(job)}/quality`, { by });
    // Another index has been asked for since.
    if (mine !== turn) return;
    place.hidden = about.classes.length === 0;
    fill(plotted, about.classes.length > 0 && plot(about.classes));
    fill(worst, table([
      ["volume", (volume) => h("a", { href: `#/jobs/${part(job)}/${part(volume.volume)}` }, volume.volume)],
      ["perplexity", (volume) => volume.perplexity?.toFixed(1) ?? "", "n"],
      ["confidence", (volume) => percent(volume.confidence_mean), "n"],
      ["worst tenth", (volume) => percent(volume.confidence_p10), "n"],
      ["pages", (volume) => count(volume.pages), "n"],
      ["failed", (volume) => (volume.failed_pages > 0 ? count(volume.failed_pages) : ""), "n"],
      ["worst pages", (volume) => volume.worst_pages.map((page) => [h("a", {
        href: `#/read/${part(job)}/${part(volume.volume)}/${page.page}`,
        title: `perplexity ${page.perplexity.toFixed(1)}${page.confidence === null ? "" : `, confidence ${percent(page.confidence)}`}`,
      }, page.page), " "])],
    ], about.worst, "No finished volume has this index."));
  };
  const chosen = h("select", {
    onchange: (event) => {
      by = event.target.value;
      return draw();
    },
  }, INDEXES.map((value) => h("option", { value }, value)));
  const place = h("div", { hidden: true }, h("h2", {}, "Quality"), plotted,
    h("div", { class: "row" }, h("label", {}, "worst by ", chosen)), worst);
  return { place, draw };
}

// Volumes by both indexes: what is right or low is worth a look.
function plot(classes) {
  const perplexities = range(classes.map((one) => one.perplexity), (from) => Math.round(2 * Math.log2(from)));
  const confidences = range(classes.map((one) => one.confidence), (from) => Math.round(20 * from));
  const most = Math.max(...classes.map((one) => one.volumes));
  const [width, height] = [LEFT + perplexities.steps * WIDTH, ABOVE + confidences.steps * HEIGHT + BELOW];
  const x = (value) => LEFT + perplexities.at(value) * WIDTH;
  const y = (value) => ABOVE + (confidences.steps - 1 - confidences.at(value)) * HEIGHT;
  const about = ({ volumes, perplexity, confidence }) =>
    `${count(volumes)} ${volumes === 1 ? "volume" : "volumes"}: perplexity ${between(perplexity, Math.SQRT2, 1)}, confidence ${
      confidence === null ? "not known" : `${percent(confidence, 0)} to ${percent(confidence + 0.05, 0)}`}`;
  return h("figure", {},
    h("figcaption", {}, "Volumes by perplexity and confidence", h("small", {}, " perplexity to the right, confidence upwards")),
    h("svg", { class: "quality", width, height, role: "img", "aria-label": classes.map(about).join("; ") },
      classes.map((one) => h("g", {},
        h("title", {}, about(one)),
        h("rect", {
          x: x(one.perplexity) + 1, y: y(one.confidence) + 1, width: WIDTH - 2, height: HEIGHT - 2, rx: 2,
          "fill-opacity": 0.15 + 0.85 * Math.sqrt(one.volumes / most),
        }))),
      confidences.labels.map(([value, step]) => h("text", {
        class: "idle", x: LEFT - 6, y: ABOVE + (confidences.steps - step) * HEIGHT - 4, "text-anchor": "end",
      }, value === null ? "none" : percent(value, 0))),
      perplexities.labels.map(([value, step]) => h("text", {
        class: "idle", x: LEFT + step * WIDTH, y: height - BELOW + 14,
      }, value === null ? "none" : value < 10 ? value.toFixed(1) : Math.round(value)))));
}

const between = (from, factor, digits) => (from === null ? "not known" : `${from.toFixed(digits)} to ${(factor * from).toFixed(digits)}`);

// Places of values on an axis, those that are not known before all others.
function range(values, step) {
  const known = values.filter((value) => value !== null).map(step);
  const [first, last] = known.length > 0 ? [Math.min(...known), Math.max(...known)] : [0, -1];
  const none = values.includes(null) ? 1 : 0;
  const at = (value) => (value === null ? 0 : none + step(value) - first);
  const labels = new Map(values.map((value) => [at(value), value]));
  return { steps: none + last - first + 1, at, labels: [...labels].map(([place, value]) => [value, place]) };
}
