import { get } from "./api.js";
import { ago, fill, h, table } from "./dom.js";

export async function audit(place) {
  const draw = async () => {
    const { entries } = await get("/audit");
    fill(place, h("h1", {}, "Audit"), h("p", { class: "note" }, "Every command that could change something, the newest first."),
      table([
        ["when", (entry) => ago(entry.at)],
        ["who", (entry) => entry.who],
        ["through", (entry) => entry.via],
        ["command", (entry) => entry.command],
        ["with", (entry) => h("code", {}, JSON.stringify(entry.arguments)), "wrap"],
        ["outcome", (entry) => outcome(entry), "wrap"],
      ], entries, "Nobody has changed anything yet."));
  };
  await draw();
  return { refresh: draw };
}

function outcome({ refusal, done_at }) {
  if (refusal) return `refused: ${refusal}`;
  return done_at ? "done" : "under way, or cut off";
}
