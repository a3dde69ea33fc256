// The cluster's HTTP interface. Without a token it asks for one, which a cookie keeps that scripts cannot read.

import { h, trouble } from "./dom.js";

const ROOT = "/api/v1";
// Milliseconds until what was not answered is asked again.
export const AGAIN = 2000;
// Milliseconds without an answer after which none is waited for.
const SILENT = 30_000;
export const part = encodeURIComponent;

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }

  // Whether the same may be answered a little later.
  get isPassing() {
    return this.status === 0 || this.status === 503;
  }
}

const silence = () => new Refused(0, "the orchestrator does not answer");
const unanswered = () => {
  throw silence();
};

async function request(method, path, body, signal) {
  const answer = await fetch(ROOT + path, {
    method, signal,
    headers: body === undefined ? {} : { "Content-Type": "application/json" },
    body: body === undefined ? undefined : JSON.stringify(body),
    credentials: "same-origin",
  }).catch(unanswered);
  if (answer.ok) return answer.status === 204 ? null : answer.json().catch(unanswered);
  const problem = await answer.json().catch(() => undefined);
  if (problem) throw new Refused(answer.status, problem.message);
  // So answers a proxy that does not reach it.
  throw answer.status >= 500 ? silence() : new Refused(answer.status, answer.statusText);
}

export async function get(path, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const text = new URLSearchParams(given).toString();
  return admitted(() => request("GET", path + (text && `?${text}`)));
}

let caller;

// Who has signed in; asks for a token where nobody has.
export const session = () => admitted(async () => {
  const found = await request("GET", "/session");
  if (found === null) throw new Refused(401, "nobody has signed in");
  caller = found;
  return caller;
});

// Each includes those before it.
const ROLES = ["read", "edit", "operate", "admin"];

// Whether who has signed in may do what asks for a role.
export const may = (role) => ROLES.indexOf(caller?.access) >= ROLES.indexOf(role);

// The name and the role of who has signed in.
export const user = () => caller;

export async function leave() {
  await request("DELETE", "/session");
  location.reload();
}

export const post = (path, body = {}) => {
  trouble();
  return admitted(() => request("POST", path, body));
};

// Of what goes on beside what somebody does. A connection that hangs is as good as none.
export const send = (path, body) => admitted(() => request("POST", path, body, AbortSignal.timeout(SILENT)));

async function admitted(ask) {
  for (;;) {
    try {
      return await ask();
    } catch (error) {
      if (error.status !== 401) throw error;
      await login();
    }
  }
}

let asking;

function login() {
  asking ??= new Promise((resolve) => {
    const input = h("input", { type: "password", id: "token", autocomplete: "off", required: true, size: 45 });
    const trouble = h("p", { class: "bad", role: "alert" });
    const form = h("form", { method: "dialog" },
      h("p", {}, h("label", { for: "token" }, "Token")), input, trouble,
      h("p", { class: "note" }, "The orchestrator keeps one in the file api-token of its state folder; node token makes others."),
      h("button", { class: "primary" }, "Go on"));
    const dialog = h("dialog", { "aria-label": "Token", oncancel: (event) => event.preventDefault() }, form);
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      try {
        await request("POST", "/session", { token: input.value.trim() });
        // What is shown depends on who looks at it.
        if (caller) return location.reload();
        dialog.remove();
        asking = undefined;
        resolve();
      } catch (error) {
        trouble.textContent = error.message;
      }
    });
    document.body.append(dialog);
    dialog.showModal();
  });
  return asking;
}

// Calls `changed` whenever the cluster says that something has, and `standing` with whether it is heard.
export function listen(changed, standing) {
  const open = async () => {
    try {
      await session();
    } catch {
      standing(false);
      setTimeout(open, AGAIN);
      return;
    }
    const source = new EventSource(`${ROOT}/events`);
    source.onopen = () => standing(true);
    source.addEventListener("changed", () => changed());
    source.onerror = () => {
      standing(false);
      if (source.readyState === EventSource.CLOSED) setTimeout(open, AGAIN);
    };
  };
  open();
}
