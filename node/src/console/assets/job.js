import { again } from "./again.js";
import { get, may, part, post } from "./api.js";
import { ago, alarm, badge, bar, count, duration, fill, h, percent, state, table, tile } from "./dom.js";
import { histogram } from "./histogram.js";
import { quality } from "./quality.js";
import { search } from "./search.js";

const STATES = ["", "waiting", "running", "retrying", "failed", "done"];

export async function job(place, name) {
  const head = h("div", {}), errors = h("div", {}), stats = h("div", {}), read = quality(name), volumes = h("div", {});
  const list = { state: "", after: [] };
  const path = `/jobs/${part(name)}`;

  let turn = 0;
  const drawVolumes = async () => {
    const mine = ++turn;
    const { tasks, next } = await get(`${path}/tasks`, { state: list.state, after: list.after.at(-1), limit: 50 });
    // Another list has been asked for since, and may have come before this one.
    if (mine !== turn) return;
    const turnTo = (after) => () => {
      list.after = after;
      return drawVolumes();
    };
    fill(volumes,
      table([
        ["volume", (task) => h("a", { href: `#/jobs/${part(name)}/${part(task.volume)}` }, task.volume)],
        ["", (task) => task.state === "done" && h("a", { href: `#/read/${part(name)}/${part(task.volume)}` }, "read")],
        ["state", (task) => state(task.state)],
        ["stage", (task) => task.stage ?? ""],
        ["failures", (task) => task.attempts, "n"],
        ["worker", (task) => task.worker ?? ""],
        ["error", (task) => task.error ?? "", "wrap"],
      ], tasks),
      h("div", { class: "row" },
        list.after.length > 0 && h("button", { onclick: turnTo(list.after.slice(0, -1)) }, "Previous"),
        next && h("button", { onclick: turnTo([...list.after, next]) }, "Next")));
  };

  // Made once: who is about to choose a state is not to lose the list when something changes.
  const chosen = h("select", {
    onchange: (event) => {
      Object.assign(list, { state: event.target.value, after: [] });
      return drawVolumes();
    },
  }, STATES.map((word) => h("option", { value: word }, word || "any")));
  place.append(head, errors, stats, read.place,
    h("h2", {}, "Volumes"), h("div", { class: "row" }, h("label", {}, "state ", chosen)), volumes,
    h("h2", {}, "Text"), search({ job: name }).place);

  const draw = async () => {
    const [about, { groups }, { stages }] = await Promise.all([get(path), get(`${path}/errors`), get(`${path}/stats`)]);
    fill(head, header(about, path, draw));
    fill(errors, h("h2", {}, "Errors"), table([
      ["volumes", (group) => count(group.tasks), "n"],
      ["for good", (group) => count(group.terminal), "n"],
      ["stage", (group) => group.stage],
      ["kind", (group) => group.category],
      ["such as", (group) => group.message, "wrap"],
      ["in", (group) => group.volumes.map((volume) => [h("a", { href: `#/jobs/${part(name)}/${part(volume)}` }, volume), " "])],
    ], groups, "No volume's last try failed."));
    fill(stats, h("h2", {}, "Runs"), table([
      ["stage", (stage) => stage.stage],
      ["runs", (stage) => count(stage.done), "n"],
      ["failed", (stage) => count(stage.failed), "n"],
      ["interrupted", (stage) => count(stage.interrupted), "n"],
      ["p50", (stage) => duration(stage.p50_s), "n"],
      ["p95", (stage) => duration(stage.p95_s), "n"],
      ["pages", (stage) => count(stage.pages), "n"],
      ["pages a second and slot", (stage) => (stage.pages > 0 ? stage.pages_per_slot_second.toFixed(2) : ""), "n"],
    ], stages, "No stage has run yet."),
    h("div", { class: "figures" }, stages.map((stage) => histogram(stage.stage, stage.durations))));
    await Promise.all([read.draw(), drawVolumes()]);
  };
  await draw();
  return { refresh: draw };
}

function header(about, path, draw) {
  const act = (word, question) => async () => {
    if (question && !confirm(question)) return;
    await post(`${path}/${word}`).finally(draw);
  };
  const left = about.volumes - about.done - about.failed;
  return [
    h("h1", {}, about.job, state(about.status), about.standing && badge("standing")),
    may("operate") && h("div", { class: "row" },
      about.status === "running" && h("button", { onclick: act("pause") }, "Pause"),
      about.status === "paused" && h("button", { class: "primary", onclick: act("resume") }, "Resume"),
      about.standing && ["running", "paused"].includes(about.status)
        && h("button", { onclick: act("close", `Take no more volumes for job ${about.job}? It ends once those that it has are done.`) }, "Close"),
      ["running", "paused"].includes(about.status)
        && h("button", { onclick: act("cancel", `End job ${about.job} for good? What has been written stays.`) }, "Cancel"),
      about.status !== "cancelled" && h("button", { onclick: () => again(about.job, undefined, draw) }, "Do a stage again")),
    about.obstacles.map(alarm),
    h("div", { class: "tiles" },
      tile(`${count(about.done)} of ${count(about.volumes)}`, "volumes done"),
      tile(percent(about.volumes ? about.done / about.volumes : 0), "done"),
      tile(count(about.failed), "failed", about.failed ? "bad" : undefined),
      tile(left > 0 && about.eta_s !== null ? duration(about.eta_s) : left > 0 ? "not known" : "none", "left to do"),
      (Number(about.spent) > 0 || Number(about.budget) > 0)
        && tile(Number(about.budget) > 0 ? `${about.spent} of ${about.budget}` : about.spent, `${about.currency} spent`.trim(),
          Number(about.budget) > 0 && Number(about.spent) >= Number(about.budget) ? "bad" : undefined),
      tile(about.priority, "priority")),
    about.models.length > 0 && h("p", { class: "note" }, `read with ${about.models.join(", ")}`),
    about.failed_pages > 0 && h("p", {}, `${count(about.failed_pages)} ${about.failed_pages === 1 ? "page" : "pages"} could not be read and left out, of `,
      about.volumes_with_failed_pages.map((volume) => [h("a", { href: `#/jobs/${part(about.job)}/${part(volume)}` }, volume), " "])),
    h("h2", {}, "Progress"),
    table([
      ["stage", (stage) => stage.stage],
      ["", (stage) => bar([["good", stage.done, "done"], ["busy", stage.running, "running"], ["bad", stage.failed, "failed"],
        ["idle", about.volumes - stage.done - stage.running - stage.failed, "to do"]])],
      ["done", (stage) => count(stage.done), "n"],
      ["running", (stage) => count(stage.running), "n"],
      ["waiting", (stage) => count(stage.waiting), "n"],
      ["failed", (stage) => count(stage.failed), "n"],
    ], about.stages),
    h("p", { class: "note" }, "made ", ago(about.created_at), about.finished_at ? [", ended ", ago(about.finished_at)] : ""),
  ];
}
