// Correcting the lines of a page in the viewer: the text of the chosen line in a box below its picture, and what is done to lines as wholes.

import { user } from "./api.js";
import { choice } from "./choices.js";
import { count, fill, h } from "./dom.js";
import { applied, isClash, isNothing, isSame, rebased, retyped, undone } from "./edits.js";
import { isUnsure, leastSure, nextUnsure } from "./lines.js";
import { notices } from "./notices.js";
import * as queue from "./queue.js";
import { button, tools } from "./tools.js";
import { typing } from "./typing.js";

const MOST_SIGNS = 4000;
const CONFLICT = 409;

// What was done to pages in this visit, by their paths: [to be taken back, to be done again].
const histories = new Map();

// The name of a key with those that are held down: ^ for Control, ! for Alt and + for Shift.
const keyOf = ({ key, ctrlKey, metaKey, altKey, shiftKey }) =>
  `${ctrlKey || metaKey ? "^" : ""}${altKey ? "!" : ""}${shiftKey ? "+" : ""}${key.length === 1 ? key.toLowerCase() : key}`;

// For the viewer of a page at a path of the interface: `take(lines, unplaced)` shows others, `choose(index)` chooses one, `chosen()` is its place
// and `focus()` gives it the keys; `receive` is for a page as it was answered, `reload` asks for it again, `large` is the strip, and `sheet` the scan.
export function editor({ page, path, sheet, large, take, choose, chosen, focus, receive, reload }) {
  if (!histories.has(path)) histories.set(path, [[], []]);
  const [past, future] = histories.get(path);
  let latest = { lines: page.lines, unplaced: page.unplaced };
  // The chosen line as it was when its typing began.
  let line;

  const said = h("span", {}), standing = h("span", {});
  const say = (text) => fill(said, text);
  const area = h("textarea", {
    "aria-label": "Text of the line", lang: page.language, rows: 2, maxlength: MOST_SIGNS,
    autocomplete: "off", autocapitalize: "off", autocorrect: "off", spellcheck: "false",
    onkeydown: (event) => keyed(event), onkeyup: () => follow(), onclick: () => follow(),
  });
  const [wylie, wylieLabel] = choice("Wylie", false, "Latin letters become Tibetan ones as they are typed", () => area.focus());
  const box = typing(area, () => wylie.checked, () => {
    say();
    if (line) large.retext(area.value);
    follow();
    if (isDirty()) queue.keepDraft(path, line, area.value);
    else if (line) queue.dropDraft(path, line);
    tell();
  });
  // What is typed is seen beside its picture.
  const follow = () => line && large.reveal(area.selectionEnd);
  const isDirty = () => line !== undefined && area.value !== line.text;
  const load = (next) => {
    line = next;
    area.disabled = !line;
    box.load(line?.text ?? "");
  };

  const put = (edit) => {
    const first = page.lines.findIndex((line) => edit.replaces.some(({ id }) => id === line.id));
    const whole = { ...edit, behind: page.lines[first - 1]?.id };
    queue.put(path, whole);
    return whole;
  };
  const done = (edit) => {
    if (isNothing(edit)) return;
    past.push(put(edit));
    future.length = 0;
  };
  // Whatever leaves a line saves it, except Escape.
  const commit = () => {
    if (!isDirty()) return;
    const [before, text] = [line, area.value];
    line = { ...line, text };
    queue.dropDraft(path, before);
    done(retyped(before, text));
  };
  const step = (from, to) => {
    commit();
    const last = from.pop();
    if (!last) return say("There is nothing of this visit to take back or to do again.");
    to.push(put(undone(page, last)));
    const place = page.lines.findIndex((line) => last.replaces.some(({ id }) => id === line.id));
    if (place >= 0) choose(place);
    return undefined;
  };
  const undo = () => box.undo() || step(past, future);
  const redo = () => box.redo() || step(future, past);

  // The edits of others, and one's own that are still on their way.
  const merge = () => {
    take(queue.unsent(path).reduce((lines, entry) => applied(lines, entry, { who: user().name, at: entry.at }), latest.lines), latest.unplaced);
    const now = page.lines.find(({ id }) => id === line?.id);
    if (!isDirty()) {
      const next = now ?? page.lines[chosen()];
      if (next?.id !== line?.id || next?.text !== line?.text) load(next);
      else line = next;
    } else {
      if (now && (now.text === line.text || now.text === area.value)) line = now;
      large.retext(area.value);
    }
    tell();
  };
  // The line as somebody else has left it while it is typed in here: { text, who }, or nothing.
  const rival = () => {
    if (!isDirty() || page.lines.some((other) => isSame(other, line))) return undefined;
    return page.lines.find(({ id }) => id === line.id) ?? { gone: true };
  };
  const tell = () => {
    const [unsent, offline] = [queue.unsent().length, queue.isOffline()];
    const edits = unsent === 1 ? "1 edit" : `${count(unsent)} edits`;
    fill(standing, isDirty() ? "not saved yet" : unsent === 0 ? queue.wasTaken() && "saved" : offline ? `${edits} not sent yet: no connection` : "saving…",
      queue.isAtRisk() && " This browser keeps nothing: stay on this page until all is saved.");
    notes.draw(rival());
  };
  const notes = notices({
    page, path, language: page.language,
    // The typed text goes on top of what somebody else wrote, or makes way for it.
    keepTyped: () => {
      line = page.lines.find(({ id }) => id === line.id) ?? line;
      commit();
      area.focus();
    },
    takeOther: () => {
      queue.dropDraft(path, line);
      load(page.lines.find(({ id }) => id === line.id) ?? page.lines[chosen()]);
      merge();
    },
    again: (entry) => done(rebased(page, entry)),
    goOn: (draft) => {
      if (!toggle.checked) toggle.click();
      choose(page.lines.findIndex(({ id }) => id === draft.line.id));
      open();
      line = draft.line;
      box.retype(draft.text);
      merge();
    },
  });

  const go = (next) => {
    commit();
    if (next < 0 || next >= page.lines.length) return false;
    choose(next);
    return true;
  };
  const save = () => go(chosen() + 1);
  const toUnsure = () => {
    commit();
    const found = go(nextUnsure(page.lines, chosen()));
    const now = page.lines[chosen()];
    area.focus();
    if (found) select(leastSure(now));
    else say(now && isUnsure(now) ? "No other line is uncertain." : "No line of this page is uncertain.");
  };
  const select = ([from, to]) => {
    area.setSelectionRange(from, to);
    follow();
  };
  const escape = () => {
    if (line) queue.dropDraft(path, line);
    load(page.lines[chosen()]);
    if (line) large.retext(line.text);
    tell();
    focus();
  };
  const open = (places) => {
    if (!toggle.checked || !line) return;
    area.focus();
    if (places) select(places);
  };
  const keyed = (event) => {
    const does = keys[keyOf(event)];
    if (!does || event.isComposing) return;
    event.preventDefault();
    does();
  };
  const wholes = tools({ page, sheet, area, chosen, choose, commit, done, say, open });
  const keys = { Enter: save, "^Enter": toUnsure, Escape: escape, "^z": undo, "^+z": redo, "^y": redo, ...wholes.keys };
  // Elsewhere in the viewer.
  const beside = (event) => {
    if (event.target.closest("input, select, textarea, dialog")) return;
    const drawn = wholes.drawing();
    if (drawn?.[event.key] && !event.target.closest("button")) {
      event.preventDefault();
      // Enter would begin to type.
      event.stopImmediatePropagation();
      drawn[event.key]();
    } else if (!drawn && toggle.checked && (event.ctrlKey || event.metaKey || event.altKey)) keyed(event);
  };
  addEventListener("keydown", beside, true);
  // Edits that met one of a neighbouring line are made once more without a question.
  const retry = () => {
    const met = queue.refused().filter((entry) => entry.path === path && entry.refused.status === CONFLICT && !entry.isAgain && !isClash(page.lines, entry));
    for (const entry of met) {
      queue.settle(entry);
      done({ ...rebased(page, entry), isAgain: true });
    }
  };
  const stop = queue.listen((at, answer) => {
    if (at !== path) return merge();
    if (answer) {
      receive(answer);
      return merge();
    }
    // It was not taken, and what built on it cannot be taken back any more.
    past.length = future.length = 0;
    // If nothing is answered, the next change asks again.
    return reload().then(retry, () => {}).then(merge);
  });

  const place = h("div", { class: "editor" }, area,
    h("div", { class: "row" },
      button("Save", "Save, and go to the next line (Enter)", () => {
        save();
        area.focus();
      }, "primary"),
      button("Unsure", "Save, and go to the next uncertain line (Ctrl+Enter; u outside of the box)", toUnsure), wylieLabel,
      button("Undo", "Take the last edit back (Ctrl+Z)", undo), button("Redo", "Do it again (Ctrl+Shift+Z)", redo), wholes.buttons,
      h("span", { class: "note", role: "status" }, standing, " ", said)), wholes.pencil);
  const [toggle, label] = choice("correct", user().access === "edit", "Correct what was read: click on a line, or press Enter", () => {
    commit();
    place.hidden = !toggle.checked;
  });
  place.hidden = !toggle.checked;

  return {
    place, toggle: label, notices: notes.place, commit,
    // Gives the keys to the box, with what is selected in it from one place to another.
    open,
    keys: { Enter: () => open() },
    // Shows the line that is chosen now.
    arrive: () => {
      say();
      load(page.lines[chosen()]);
      tell();
    },
    // A page as it came from the interface.
    receive: (answer) => {
      latest = answer;
      merge();
    },
    leave: () => {
      commit();
      wholes.stop();
      stop();
      removeEventListener("keydown", beside, true);
    },
  };
}
