// Correcting the lines of a page in the viewer: the text of the chosen line in a box below its picture, and what is done to lines as wholes.

import { user } from "./api.js";
import { h, fill, count } from "./dom.js";
import { drawing } from "./drawing.js";
import { added, applied, edit, isSame, merged, newId, redrawn, removed, retyped, split, swapped, touched, undone } from "./edits.js";
import { isUnsure, nextUnsure } from "./lines.js";
import { notices } from "./notices.js";
import { placeBehind } from "./outlines.js";
import * as queue from "./queue.js";
import { typing } from "./typing.js";

// What somebody has chosen is kept in the browser: { correct, wylie }.
const CHOICES = "parkhang.choices";
// What was done to pages in this visit, by their paths: [to be taken back, to be done again].
const histories = new Map();

const choices = () => {
  try {
    return JSON.parse(localStorage.getItem(CHOICES)) ?? {};
  } catch {
    return {};
  }
};

// A box that is ticked as it was left, of which `changed` is told.
function choice(name, unless, title, changed) {
  const box = h("input", { type: "checkbox", checked: choices()[name] ?? unless, onchange: () => {
    try {
      localStorage.setItem(CHOICES, JSON.stringify({ ...choices(), [name]: box.checked }));
    } catch {
      // It holds until the page is left.
    }
    changed?.();
  } });
  return [box, h("label", { title }, box, ` ${name}`)];
}

// For the viewer of a page at a path of the interface: `take(lines, unplaced)` shows others, `choose(index)` chooses one, `chosen()` is its place
// and `focus()` gives it the keys; `reload()` asks for the page again, `large` is the strip, and `sheet` the scan.
export function editor({ page, path, sheet, large, take, choose, chosen, focus, reload }) {
  if (!histories.has(path)) histories.set(path, [[], []]);
  const [past, future] = histories.get(path);
  let latest = { lines: page.lines, unplaced: page.unplaced };
  // The chosen line as it was when its typing began.
  let line, drawn;

  const said = h("span", {}), standing = h("span", {});
  const say = (text) => fill(said, text);
  const area = h("textarea", {
    "aria-label": "Text of the line", lang: page.language, rows: 2, maxlength: 4000, autocomplete: "off", autocapitalize: "off", autocorrect: "off", spellcheck: "false",
    onkeydown: (event) => keyed(event), onkeyup: () => follow(), onclick: () => follow(),
  });
  const [wylie, wylieLabel] = choice("Wylie", false, "Latin letters become Tibetan ones as they are typed");
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
    again: ({ replaces, lines, behind }) => {
      const there = touched(page.lines, { replaces, lines });
      done(there.length > 0 ? edit(there, lines) : added(page, page.lines.findIndex(({ id }) => id === behind), lines));
    },
    goOn: (draft) => {
      choose(page.lines.findIndex(({ id }) => id === draft.line.id));
      open();
      line = draft.line;
      box.retype(draft.text);
      merge();
    },
  });

  // Does something to the chosen line and the one `by` behind it.
  const change = (by, does) => () => {
    const [from, to] = [area.selectionStart, area.value];
    commit();
    const [one, other] = [page.lines[chosen()], page.lines[chosen() + by]];
    if (one && other) does(one, other, to.slice(0, from), to);
    else say("There is no line to do this with.");
  };
  const splitHere = change(0, (one, _, head, text) => {
    if (head.trim() === "" || head === text.trimEnd()) return say("Put the caret where the line is to be split.");
    return done(split(page, one, head.length, widthOf(head, area) / widthOf(text, area)));
  });
  const join = change(1, (one, other) => done(merged(page, one, other)));
  const remove = change(0, (one) => done(removed(one)));
  const [up, down] = [change(-1, (one, other) => done(swapped(other, one))), change(1, (one, other) => done(swapped(one, other)))];
  const outline = (does) => () => {
    commit();
    drawn?.end();
    drawn = drawing(page, sheet, (polygon) => {
      stopDrawing();
      does(polygon);
    });
    sheet.scrollIntoView();
    pencil.hidden = false;
    document.activeElement.blur();
  };
  const stopDrawing = () => {
    drawn?.end();
    drawn = undefined;
    pencil.hidden = true;
  };
  const add = outline((polygon) => {
    const made = { id: newId(), polygon, text: "" };
    done(added(page, placeBehind(page.lines, polygon), [made]));
    choose(page.lines.findIndex(({ id }) => id === made.id));
    open();
  });
  const redraw = outline((polygon) => page.lines[chosen()] && done(redrawn(page.lines[chosen()], polygon)));

  const go = (next) => {
    commit();
    if (next < 0 || next >= page.lines.length) return false;
    choose(next);
    return true;
  };
  const save = () => go(chosen() + 1);
  const toUnsure = () => {
    commit();
    if (!go(nextUnsure(page.lines, chosen()))) return say(page.lines[chosen()] && isUnsure(page.lines[chosen()]) ? "This is the last uncertain line." : "No line of this page is uncertain.");
    area.focus();
    return select(leastSure(page.lines[chosen()]));
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
    const does = KEYS[`${event.ctrlKey || event.metaKey ? "^" : ""}${event.altKey ? "!" : ""}${event.shiftKey ? "+" : ""}${event.key.length === 1 ? event.key.toLowerCase() : event.key}`];
    if (!does || event.isComposing) return;
    event.preventDefault();
    does();
  };
  const KEYS = {
    Enter: save, "^Enter": toUnsure, "+Enter": splitHere, Escape: escape, "^z": undo, "^+z": redo, "^y": redo, "!ArrowUp": up, "!ArrowDown": down,
  };
  // Elsewhere in the viewer.
  const beside = (event) => {
    if (drawn) {
      const does = { Enter: drawn.close, Escape: stopDrawing, Backspace: drawn.back }[event.key];
      if (!does || event.target.closest("button, input, select, textarea")) return;
      event.preventDefault();
      event.stopImmediatePropagation();
      does();
    } else if (toggle.checked && !event.target.closest("input, select, textarea, dialog") && (event.ctrlKey || event.metaKey || event.altKey)) keyed(event);
  };
  addEventListener("keydown", beside, true);
  const stop = queue.listen((at, answer) => {
    if (at === path) {
      if (answer) latest = answer;
      else {
        // It was not taken, and what built on it cannot be taken back any more.
        past.length = future.length = 0;
        reload();
      }
    }
    merge();
  });

  const button = (name, title, does, kind) => h("button", { title, class: kind, onclick: does }, name);
  const pencil = h("div", { class: "row pencil", hidden: true }, h("span", { role: "status" }, "Drag a box around the line on the scan, or click on its corners one after the other."),
    button("Close the outline", "Enter, or a double click", () => drawn?.close()), button("Leave off", "Escape", stopDrawing));
  const hasPicture = page.width > 0;
  const place = h("div", { class: "editor" }, area,
    h("div", { class: "row" },
      button("Save", "Save, and go to the next line (Enter)", () => {
        save();
        area.focus();
      }, "primary"),
      button("Unsure", "Save, and go to the next uncertain line (Ctrl+Enter; u outside of the box)", toUnsure), wylieLabel,
      button("Undo", "Take the last edit back (Ctrl+Z)", undo), button("Redo", "Do it again (Ctrl+Shift+Z)", redo),
      button("Split", "Split the line at the caret (Shift+Enter)", splitHere), button("Merge", "Merge with the line behind it", join),
      button("Delete", "Delete the line", remove), hasPicture && button("Add", "Add a line that was not found: draw its outline", add),
      hasPicture && button("Outline", "Draw the outline of the line anew", redraw),
      button("Move up", "Read the line earlier (Alt+↑)", up), button("Move down", "Read the line later (Alt+↓)", down),
      h("span", { class: "note", role: "status" }, standing, " ", said)), pencil);
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
      stopDrawing();
      stop();
      removeEventListener("keydown", beside, true);
    },
  };
}

const canvas = h("canvas").getContext("2d");

// How wide a text is in the letters of an element.
function widthOf(text, element) {
  canvas.font = getComputedStyle(element).font;
  return canvas.measureText(text).width;
}

// The word of a line that is least sure: from where to where in its text.
function leastSure({ text, words }) {
  const unsure = words.reduce((least, word) => (word.confidence < (least?.confidence ?? 1) ? word : least), undefined);
  let from = 0;
  for (const word of words) {
    from = text.indexOf(word.text, from);
    if (from < 0) break;
    if (word === unsure) return [from, from + word.text.trimEnd().length];
    from += word.text.length;
  }
  return [text.length, text.length];
}
