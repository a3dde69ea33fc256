// What calls for whoever corrects a page: lines that others have changed at the same time, edits that were not taken, and texts that were
// typed and never saved.

import { ago, fill, h } from "./dom.js";
import { touched } from "./edits.js";
import * as queue from "./queue.js";

const CONFLICT = 409;

// `keepTyped` and `takeOther` decide about the line that is typed in, `again(edit)` makes an edit that was not taken on top of what is there
// now, and `goOn(draft)` shows a draft in the box.
export function notices({ page, path, language, keepTyped, takeOther, again, goOn }) {
  const place = h("div", { class: "notices" });
  let shown = "";
  const text = (title, lines, others = []) => h("div", {}, h("b", {}, title), lines.length > 0
    ? lines.map((line, index) => h("p", { lang: language }, differing(line.text || "(empty)", others[index]?.text))) : h("p", {}, "(no line)"));
  const note = (title, texts, ...buttons) => h("section", { role: "alert" }, h("p", {}, title), h("div", { class: "beside" }, texts),
    h("div", { class: "row" }, buttons.map(([name, does]) => h("button", { onclick: does }, name))));

  const rivalry = (rival) => note(`${rival.corrected?.who ?? "Somebody"} has ${rival.gone ? "removed" : "changed"} the line that is typed in here.`,
    text("Theirs", rival.gone ? [] : [rival]), ["Keep theirs", takeOther], ["Keep mine", keepTyped]);
  const refusal = (entry) => {
    const isConflict = entry.refused.status === CONFLICT;
    const theirs = isConflict ? touched(page.lines, entry) : [];
    const who = theirs.find((line) => line.corrected)?.corrected.who;
    // The identity of a line tells nobody anything.
    const why = who ? `${who} has changed this at the same time` : entry.refused.message.replace(/line [0-9a-f-]{36}/, "a line");
    return note(`Not saved: ${why}.`,
      [isConflict && text("Theirs", theirs, entry.lines), text("Mine", entry.lines, theirs)],
      [isConflict ? "Keep theirs" : "Discard mine", () => queue.settle(entry)],
      [isConflict ? "Keep mine" : "Try again", () => {
        queue.settle(entry);
        again(entry);
      }]);
  };
  const draft = (draft) => {
    const index = page.lines.findIndex((line) => line.id === draft.line.id);
    const goesOn = () => {
      queue.forget(draft);
      goOn(draft);
    };
    const discards = () => {
      queue.forget(draft);
      redraw();
    };
    return note(["Typed and not saved, ", ago(draft.at), index < 0 ? ", in a line that is no longer there:" : `, in line ${index + 1}:`],
      text("", [draft]), ...(index < 0 ? [] : [["Go on with it", goesOn]]), ["Discard it", discards]);
  };
  const elsewhere = (entries) => h("p", { class: "note" }, "Not saved on other pages: ", [...new Set(entries.map((entry) => entry.path))].map((other) =>
    [h("a", { href: other.replace(/^\/jobs\/(.*)\/volumes\/(.*)\/pages\//, "#/read/$1/$2/") }, decodeURIComponent(other)), " "]));

  let rival;
  const redraw = () => {
    const [refused, drafts] = [queue.refused(), queue.drafts(path)];
    const state = JSON.stringify([rival, refused, drafts, refused.map((entry) => touched(page.lines, entry))]);
    // What is there already is not said again.
    if (state === shown) return;
    shown = state;
    const [own, others] = [true, false].map((isOwn) => refused.filter((entry) => (entry.path === path) === isOwn));
    fill(place, rival && rivalry(rival), own.map(refusal), drafts.map(draft), others.length > 0 && elsewhere(others));
  };
  return {
    place,
    // `other` is the line that is typed in here, as somebody else has left it, if anybody has.
    draw: (other) => {
      rival = other;
      redraw();
    },
  };
}

// A text in which what is not the same in another one is marked.
function differing(text, other = text) {
  const [signs, others] = [[...text], [...other]];
  const most = Math.min(signs.length, others.length);
  let head = 0, tail = 0;
  while (head < most && signs[head] === others[head]) head += 1;
  while (tail < most - head && signs.at(-1 - tail) === others.at(-1 - tail)) tail += 1;
  const end = signs.length - tail;
  return [signs.slice(0, head).join(""), head < end && h("mark", {}, signs.slice(head, end).join("")), signs.slice(end).join("")];
}
