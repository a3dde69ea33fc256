// The cluster's HTTP interface. Without a token it asks for one, which a cookie keeps that scripts cannot read.

import { h } from "./dom.js";

const ROOT = "/api/v1";
export const part = encodeURIComponent;

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function request(method, path, body) {
  const answer = await fetch(ROOT + path, {
    method,
    headers: body === undefined ? {} : { "Content-Type": "application/json" },
    body: body === undefined ? undefined : JSON.stringify(body),
    credentials: "same-origin",
  });
  if (answer.ok) return answer.status === 204 ? null : answer.json();
  const problem = await answer.json().catch(() => ({ message: answer.statusText }));
  throw new Refused(answer.status, problem.message);
}

export async function get(path, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const text = new URLSearchParams(given).toString();
  return admitted(() => request("GET", path + (text && `?${text}`)));
}

// Who has signed in; asks for a token where nobody has.
export const session = () => admitted(async () => {
  const caller = await request("GET", "/session");
  if (caller === null) throw new Refused(401, "nobody has signed in");
  return caller;
});

export async function leave() {
  await request("DELETE", "/session");
  location.reload();
}

export const post = (path, body = {}) => admitted(() => request("POST", path, body));

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
  let source;
  const open = async () => {
    await session();
    source = new EventSource(`${ROOT}/events`);
    source.onopen = () => standing(true);
    source.addEventListener("changed", () => changed());
    source.onerror = () => {
      standing(false);
      if (source.readyState === EventSource.CLOSED) setTimeout(open, 2000);
    };
  };
  open().catch(() => setTimeout(() => listen(changed, standing), 2000));
}
