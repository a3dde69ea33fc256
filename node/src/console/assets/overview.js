import { get } from "./api.js";
import { ago, alarm, badge, bar, count, duration, fill, h, state, table, tile } from "./dom.js";

const NEWEST = 50;

export async function overview(place) {
  let all = false;
  const draw = async () => {
    const [cluster, { jobs }] = await Promise.all([get("/cluster"), get("/jobs", { limit: all ? undefined : NEWEST + 1 })]);
    fill(place,
      h("h1", {}, "Overview"),
      cluster.alarms.map(alarm),
      h("div", { class: "tiles" },
        tile(count(Math.round(cluster.pages_a_minute)), "pages a minute"),
        tile(count(cluster.running), "stages running"),
        tile(count(cluster.waiting), "volumes waiting"),
        tile(count(cluster.failed), "volumes failed in open jobs", cluster.failed > 0 ? "bad" : undefined),
        tile(count(cluster.nodes), "nodes"),
        // The last part of a name says which start of the process it is.
        tile(cluster.leader?.replace(/\.[^.]*$/, "") ?? "nobody", "leads", cluster.leader ? "word" : "word bad")),
      h("h2", {}, "Stages"),
      table([
        ["stage", (stage) => stage.stage],
        ["waiting", (stage) => count(stage.waiting), "n"],
        ["running", (stage) => count(stage.running), "n"],
        ["slots", (stage) => count(stage.slots), "n"],
        ["pages a minute", (stage) => count(Math.round(stage.pages_a_minute)), "n"],
        ["in use", (stage) => bar([["busy", Math.min(stage.running, stage.slots), "in use"],
          ["idle", Math.max(0, stage.slots - stage.running), "free"]])],
      ], cluster.stages, "No open job has a stage to run."),
      cluster.services.length > 0 && [h("h2", {}, "Services"), serviceTable(cluster.services)],
      cluster.queues.length > 0 && [h("h2", {}, "Queues"), queueTable(cluster.queues, cluster.stages)],
      cluster.scaling.length > 0 && [h("h2", {}, "Autoscaler"), fleets(cluster.scaling)],
      h("h2", {}, "Jobs"),
      jobTable(all ? jobs.reverse() : jobs.reverse().slice(0, NEWEST)),
      !all && jobs.length > NEWEST && h("p", {}, h("button", {
        onclick: () => {
          all = true;
          return draw();
        },
      }, "Show the older ones too")));
  };
  await draw();
  return { refresh: draw };
}

// Services that do stages or read pages.
function serviceTable(services) {
  const errors = (service) => Object.values(service.errors).reduce((sum, number) => sum + number, 0);
  return table([
    ["service", (service) => service.service],
    ["does", (service) => service.stages.join(", ") || service.kind.replace("_", " ")],
    ["state", (service) => service.state && [state(service.state.replace("_", " ")), " ", service.left_alone_until && ago(service.left_alone_until)]],
    ["in flight", (service) => h("span", {
      title: service.nodes.map((node) => `${node.node}: ${count(node.in_flight)}, ${node.state.replace("_", " ")}`).join("\n") || undefined,
    }, `${count(service.in_flight)} of ${count(service.max_in_flight * Math.max(1, service.nodes.length))}`), "n"],
    ["a minute", (service) => count(service.submits_a_minute), "n"],
    ["errors", (service) => h("span", {
      class: errors(service) > 0 ? "bad" : undefined,
      title: Object.entries(service.errors).map(([category, number]) => `${category} ${number}`).join(", ") || undefined,
    }, count(errors(service))), "n"],
    ["oldest", (service) => (service.oldest ? ago(service.oldest) : "")],
    ["spent", (service) => (Number(service.spent) > 0 ? `${service.spent} ${service.currency}`.trim() : ""), "n"],
  ], services);
}

// What the autoscaler decided last.
function fleets(decisions) {
  return table([
    ["workers", (fleet) => fleet.hardware],
    ["wanted", (fleet) => count(fleet.desired), "n"],
    ["running", (fleet) => count(fleet.running), "n"],
    ["cap", (fleet) => count(fleet.cap), "n"],
    ["waiting", (fleet) => count(fleet.waiting), "n"],
    ["in work", (fleet) => count(fleet.in_work), "n"],
    ["why", (fleet) => fleet.reason],
    ["decided", (fleet) => ago(fleet.decided_at)],
    ["changed", (fleet) => (fleet.changed_at ? ago(fleet.changed_at) : "never")],
  ], decisions);
}

// The queues as the leader saw them; their numbers are approximate. Those that are empty and serve no stage of an open job have a line
// together.
function queueTable(queues, stages) {
  const isOfInterest = (queue) => queue.purpose === "standing_job" || stages.some((stage) => stage.stage === queue.serves)
    || queue.alarms.length > 0 || queue.visible + queue.in_flight + queue.delayed + (queue.dead_letters ?? 0) > 0;
  const others = queues.filter((queue) => !isOfInterest(queue));
  const shown = queues.filter(isOfInterest);
  return [shown.length > 0 && queueRows(shown),
    others.length > 0 && h("p", { class: "note" }, `Empty, and of no open job: ${others.map((queue) => queue.queue).join(", ")}.`)];
}

function queueRows(queues) {
  return table([
    ["queue", (queue) => queue.queue],
    ["alarms", (queue) => queue.alarms.flatMap((kind) => [h("span", { class: "state bad" }, kind.replace("_", " ")), " "])],
    ["serves", (queue) => (queue.purpose === "standing_job" ? h("a", { href: `#/jobs/${encodeURIComponent(queue.serves)}` }, `job ${queue.serves}`)
      : `stage ${queue.serves}`)],
    ["waiting", (queue) => count(queue.visible), "n"],
    ["in flight", (queue) => count(queue.in_flight), "n"],
    ["delayed", (queue) => count(queue.delayed), "n"],
    ["oldest", (queue) => (queue.oldest ? ago(queue.oldest) : "")],
    ["dead letters", (queue) => queue.dead_letters !== null && h("span", { class: queue.dead_letters > 0 ? "bad" : undefined }, count(queue.dead_letters)), "n"],
    ["seen", (queue) => ago(queue.looked_at)],
  ], queues);
}

function jobTable(jobs) {
  return table([
    ["job", (job) => h("a", { href: `#/jobs/${encodeURIComponent(job.job)}` }, job.job)],
    ["status", (job) => [state(job.status), job.standing && badge("standing")]],
    ["volumes", (job) => count(job.volumes), "n"],
    ["done", (job) => count(job.done), "n"],
    ["running", (job) => count(job.running), "n"],
    ["failed", (job) => h("span", { class: job.failed > 0 ? "bad" : undefined }, count(job.failed)), "n"],
    ["priority", (job) => job.priority, "n"],
    ["progress", (job) => bar([["good", job.done, "done"], ["bad", job.failed, "failed"], ["busy", job.running, "running"],
      ["idle", job.volumes - job.done - job.failed - job.running, "waiting"]])],
    ["made", (job) => ago(job.created_at)],
    ["took", (job) => (job.finished_at ? duration((new Date(job.finished_at) - new Date(job.created_at)) / 1000) : "")],
  ], jobs, "There is no job yet: node job create NAME makes one.");
}
