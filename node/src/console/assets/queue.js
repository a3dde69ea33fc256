// Edits on their way to the orchestrator. Each is kept in this browser before it is sent and until it is answered, and so is what is being
// typed: neither a lost connection nor a closed window loses any. They are sent one after the other, in their order.

import { send, user } from "./api.js";
import { followsOn, joined, newId } from "./edits.js";

// Milliseconds until what was not answered is sent again: twice as long each time, up to the last.
const [SOON, LATEST] = [1000, 30_000];
const [EDITS, DRAFTS, VISIT] = ["parkhang.edit", "parkhang.draft", newId()];
const heard = new Set();
// What the browser did not keep.
const unkept = new Map();
let [isBusy, isCutOff, hasSent, last] = [false, false, false, 0];
let wake = () => {};

function keep(key, value) {
  try {
    localStorage.setItem(key, JSON.stringify(value));
    unkept.delete(key);
  } catch {
    unkept.set(key, value);
  }
}

function drop(key) {
  unkept.delete(key);
  try {
    localStorage.removeItem(key);
  } catch {
    // There is nothing of it.
  }
}

// What is kept of one kind of who has signed in, the oldest first: [key, value].
function kept(kind) {
  const begin = `${kind} ${user().name} `;
  const isOne = (key) => key.startsWith(begin);
  const found = new Map([...unkept].filter(([key]) => isOne(key)));
  try {
    for (const key of Object.keys(localStorage).filter(isOne)) found.set(key, JSON.parse(localStorage.getItem(key)));
  } catch {
    // This browser keeps nothing.
  }
  return [...found].sort(([, one], [, other]) => one.number - other.number);
}

const number = () => (last = Math.max(Date.now(), last + 1));
const keyOf = (id) => `${EDITS} ${user().name} ${id}`;
const edits = () => kept(EDITS).map(([, entry]) => entry);
const tell = (path, page) => heard.forEach((hears) => hears(path, page));

// Calls `hears` when something is queued, sent or refused, and with (path, page) when an edit of a page is answered; returns what ends that.
export function listen(hears) {
  heard.add(hears);
  return () => heard.delete(hears);
}

// What the browser does not keep, and would be lost with the window.
export const isAtRisk = () => unkept.size > 0;
export const unsent = (path) => edits().filter((entry) => !entry.refused && (!path || entry.path === path));
// Edits that were not taken, with { status, message }: until somebody says what is to become of them.
export const refused = () => edits().filter((entry) => entry.refused);
export const isOffline = () => isCutOff;
// Whether any has been taken in this visit.
export const wasTaken = () => hasSent;

// Queues an edit of the page at a path of the interface.
export function put(path, edit) {
  keep(keyOf(edit.id), { ...edit, path, number: number(), at: new Date().toISOString() });
  tell();
  deliver();
}

export function settle({ id }) {
  drop(keyOf(id));
  tell();
}

// Sends what is queued, at once if that waits for a connection.
export async function deliver() {
  wake();
  if (isBusy || !user()) return;
  isBusy = true;
  let pause = SOON;
  for (let [entry] = unsent(); entry; [entry] = unsent()) {
    const { id, path, replaces, lines } = entry;
    const answer = await send(`${path}/edits`, { id, replaces, lines }).catch((error) => error);
    isCutOff = Boolean(answer.isPassing);
    if (isCutOff) {
      tell();
      await waited(pause);
      pause = Math.min(LATEST, 2 * pause);
      continue;
    }
    pause = SOON;
    if (answer instanceof Error) refuse(entry, answer);
    else {
      hasSent = true;
      drop(keyOf(id));
      tell(path, answer);
    }
  }
  isBusy = false;
}

const waited = (pause) => new Promise((resolve) => {
  wake = resolve;
  setTimeout(resolve, pause);
});

// Keeps an edit that was not taken, and with it those that build on it.
function refuse(entry, { status, message }) {
  let whole = entry;
  for (const later of unsent(entry.path)) {
    if (later.id === entry.id || !followsOn(later, whole)) continue;
    whole = joined(whole, later);
    drop(keyOf(later.id));
  }
  keep(keyOf(entry.id), { ...whole, refused: { status, message } });
  tell(entry.path);
}

const draftKey = (path, line) => `${DRAFTS} ${user().name} ${path} ${line.id} ${VISIT}`;

// Keeps what is being typed for a line as somebody saw it.
export const keepDraft = (path, line, text) => keep(draftKey(path, line), {
  path, line: { id: line.id, polygon: line.polygon, text: line.text }, text, number: number(), at: new Date().toISOString(),
});
export const dropDraft = (path, line) => drop(draftKey(path, line));
// What was typed on a page before this visit, and never saved: { key, line, text, at }.
export const drafts = (path) => kept(DRAFTS).filter(([key, draft]) => draft.path === path && !key.endsWith(VISIT)).map(([key, draft]) => ({ key, ...draft }));
export const forget = (draft) => drop(draft.key);

addEventListener("online", () => deliver());
// Of another window.
addEventListener("storage", () => tell());
addEventListener("beforeunload", (event) => isAtRisk() && event.preventDefault());
