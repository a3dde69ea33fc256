// Doing a stage again: what it would compute is said before it is ordered.

import { get, part, post } from "./api.js";
import { count, duration, fill, h, table } from "./dom.js";

const volumes = (number) => `${count(number)} ${number === 1 ? "volume" : "volumes"}`;

// Asks for the stage of a job from which on one volume, or all of them, are to be done again. `ordered` is called when they are.
export async function again(job, volume, ordered) {
  const path = `/jobs/${part(job)}`;
  const { stages, status } = await get(path);
  const about = h("div", { role: "status" });
  const from = h("select", { onchange: () => look() }, stages.map(({ stage }) => h("option", {}, stage)));
  const force = h("input", { type: "checkbox", onchange: () => look() });
  const go = h("button", { class: "primary", value: "go" }, "Do it again");
  const order = (dry) => post(`${path}/rerun`, { from: from.value, force: force.checked, dry_run: dry, volume: volume && [volume] });
  let turn = 0;
  const look = async () => {
    const mine = ++turn;
    go.disabled = true;
    fill(about, h("p", { class: "note" }, "…"));
    const answer = await order(true).catch((error) => error);
    if (mine !== turn) return;
    go.disabled = answer instanceof Error || answer.number === 0;
    fill(about, answer instanceof Error ? h("p", { class: "bad", role: "alert" }, answer.message) : outlook(answer, status));
  };
  const dialog = h("dialog", { "aria-labelledby": "again", onclose: async () => {
    dialog.remove();
    if (dialog.returnValue !== "go") return;
    await order(false);
    await ordered();
  } }, h("form", { method: "dialog" },
    h("h2", { id: "again" }, `Do a stage of ${volume ?? job} again`),
    h("p", {}, h("label", {}, "from the stage ", from)),
    h("p", {}, h("label", {}, force, " also pages whose results still stand")),
    about,
    h("div", { class: "row" }, go, h("button", {}, "Leave it"))));
  document.body.append(dialog);
  dialog.showModal();
  await look();
}

function outlook({ from, number, not_reached_number: behind, plan }, status) {
  const touched = (plan?.stages ?? []).filter((stage) => stage.runs + stage.stands > 0);
  const computed = touched.some((stage) => stage.runs > 0);
  return [
    h("p", {}, number === 0 ? `No volume has come as far as ${from}.` : `${volumes(number)} ${number === 1 ? "goes" : "go"} back to ${from}.`,
      behind > 0 && ` ${volumes(behind)} ${behind === 1 ? "has" : "have"} not come that far and will run it anyway.`),
    touched.length > 0 && table([
      ["stage", (stage) => stage.stage],
      ["computed again", (stage) => volumes(stage.runs), "n"],
      ["pages", (stage) => (stage.runs > 0 && stage.pages !== null ? count(Math.round(stage.pages)) : ""), "n"],
      ["still stands", (stage) => volumes(stage.stands), "n"],
      ["time of a slot", (stage) => (stage.runs > 0 && stage.minutes !== null ? duration(60 * stage.minutes) : ""), "n"],
    ], touched),
    number > 0 && h("p", { class: "note" },
      !computed && "What stands was made with the same models and settings, and would be kept. ",
      "Running work on these volumes is cut off.", ["completed", "failed"].includes(status) && " The job, which has ended, runs again."),
  ];
}
