import { again } from "./again.js";
import { get, may, part, post } from "./api.js";
import { ago, duration, fill, h, kindOf, percent, state, table } from "./dom.js";

export async function task(place, job, volume) {
  const path = `/jobs/${part(job)}/tasks/${part(volume)}`;
  const draw = async () => {
    const [about, why] = await Promise.all([get(path), get(`${path}/why`)]);
    const retry = () => post(`${path}/retry`).finally(draw);
    const named = tries(about.runs);
    fill(place,
      h("h1", {}, volume, state(about.state)),
      h("p", {}, h("a", { href: `#/jobs/${part(job)}` }, job),
        about.results && [" · ", h("a", { href: `#/read/${part(job)}/${part(volume)}` }, "read the pages")]),
      h("h2", {}, "Why it is where it is"),
      h("p", {}, why.reason, "."),
      why.advice && h("p", { class: "note" }, why.advice),
      may("operate") && h("div", { class: "row" },
        ["failed", "retrying"].includes(about.state) && h("button", { class: "primary", onclick: retry }, "Try again"),
        h("button", { onclick: () => again(job, volume, draw) }, "Do a stage again")),
      h("h2", {}, "Tries"),
      timeline(about.runs, named),
      table([
        ["stage", (run) => run.stage],
        ["try", named],
        ["status", (run) => state(run.status)],
        ["worker", (run) => run.worker],
        ["began", (run) => ago(run.started_at)],
        ["took", (run) => run.ended_at && duration((new Date(run.ended_at) - new Date(run.started_at)) / 1000), "n"],
        ["error", (run) => run.error ?? "", "wrap"],
      ], about.runs, "No stage has run yet."),
      about.services.length > 0 && [h("h2", {}, "At services"), table([
        ["stage", (job) => job.stage],
        ["try", named],
        ["job", (job) => job.job, "wrap"],
        ["submitted", (job) => ago(job.submitted_at)],
        ["asked", (job) => job.polls, "n"],
        ["last", (job) => (job.polled_at ? ago(job.polled_at) : "never")],
        ["webhook", (job) => (job.told_at ? ago(job.told_at) : "none")],
      ], about.services)],
      about.results && h("h2", {}, "What came out"),
      about.results && h("dl", { class: "facts" }, [
        ["pages", about.results.images], ["lines", about.results.lines], ["characters", about.results.characters],
        ["errors", about.results.errors], ["confidence, mean", percent(about.results.confidence_mean)],
        ["confidence, of the worst tenth at most", percent(about.results.confidence_p10)],
        ["perplexity of the text", about.results.perplexity?.toFixed(1) ?? "not known"],
        ...models(about.runs),
      ].map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])));
  };
  await draw();
  return { refresh: draw };
}

// What the stages were done with last.
function models(runs) {
  const last = new Map(runs.filter((run) => run.status === "done").map((run) => [run.stage, run.models]));
  return [...last].filter(([, names]) => names.length > 0).map(([stage, names]) => [`${stage} with`, names.join(", ")]);
}

// What tells the tries of a stage apart: their number, and their generation where there are several.
function tries(runs) {
  const generations = Map.groupBy(runs, (run) => run.stage);
  const several = (run) => new Set(generations.get(run.stage).map((other) => other.generation)).size > 1;
  return (run) => `${run.attempt}${several(run) ? ` g${run.generation}` : ""}`;
}

// A bar for each try, over the time from the first one to now or the last one's end.
function timeline(runs, named) {
  if (runs.length === 0) return undefined;
  const time = (text) => (text ? new Date(text).getTime() : Date.now());
  const first = Math.min(...runs.map((run) => time(run.started_at)));
  const last = Math.max(...runs.map((run) => time(run.ended_at)), first + 1);
  const width = Math.min(900, document.getElementById("main").clientWidth - 32);
  const [left, row] = [150, 20];
  const x = (at) => left + ((width - left - 4) * (at - first)) / (last - first);
  const bars = runs.map((run, number) => {
    const [from, to] = [x(time(run.started_at)), x(time(run.ended_at))];
    return h("g", { class: kindOf(run.status) },
      h("text", { x: 0, y: number * row + 13 }, `${run.stage} ${named(run)}`),
      h("rect", { x: from, y: number * row + 4, width: Math.max(2, to - from), height: 11, rx: 2, fill: "currentColor" },
        h("title", {}, `${run.status} on ${run.worker}`)));
  });
  return h("svg", {
    class: "timeline", viewBox: `0 0 ${width} ${runs.length * row + 4}`, role: "img",
    "aria-label": `${runs.length} tries in ${duration((last - first) / 1000)}`,
  }, bars);
}
