import { get, part } from "./api.js";
import { ago, bar, count, fill, h, state } from "./dom.js";

export async function nodes(place) {
  const draw = async () => {
    const { nodes: found } = await get("/nodes");
    fill(place, h("h1", {}, "Nodes"), h("p", {}, h("a", { href: "#/actors" }, "Their actors")), found.length === 0
      ? h("p", { class: "note" }, "No node is there: node --role orchestrator, node --role gpu and node --role cpu start them.")
      : found.map(node));
  };
  await draw();
  return { refresh: draw };
}

function node(about) {
  return h("section", {},
    h("h2", {}, about.name, " ", state(about.state), about.leads ? " leads" : "", " ",
      h("a", { href: `#/actors/${part(about.name)}` }, "actors")),
    h("p", { class: "note" }, about.roles.join(", "), about.host ? ` on ${about.host}` : "", `, build ${about.build}, seen `,
      ago(about.last_seen), about.resident_bytes ? `, ${count(Math.round(about.resident_bytes / 2 ** 20))} MiB of memory` : "",
      about.tags.length > 0 ? `, tagged ${about.tags.join(" ")}` : ""),
    h("ul", {}, about.workers.map((worker) => h("li", {}, worker.stage, `: ${worker.in_use} of ${worker.slots} slots in use`,
      worker.pages ? `, page ${worker.pages_finished} of ${worker.pages}` : "",
      worker.restarts > 0 ? `, replaced ${count(worker.restarts)} ${worker.restarts === 1 ? "time" : "times"}` : "",
      worker.models.length > 0 ? `, has loaded ${worker.models.join(", ")}` : "",
      bar([["busy", worker.in_use, "in use"], ["idle", Math.max(0, worker.slots - worker.in_use), "free"]])))));
}
