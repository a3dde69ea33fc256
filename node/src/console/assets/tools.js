// What is done to lines as wholes: they are split, merged, removed, added, moved, and their outlines drawn.

import { h } from "./dom.js";
import { drawing } from "./drawing.js";
import { added, merged, newId, redrawn, removed, split, swapped } from "./edits.js";
import { placeBehind } from "./outlines.js";

const canvas = h("canvas").getContext("2d");

// How wide a text is in the letters of an element.
function widthOf(text, element) {
  canvas.font = getComputedStyle(element).font;
  return canvas.measureText(text).width;
}

export const button = (name, title, does, kind) => h("button", { title, class: kind, onclick: does }, name);

// `area` has the text of the chosen line, which `commit` saves; `done(edit)` is called with what was done, `say` with what went wrong, and
// `open` to type in a new line.
export function tools({ page, sheet, area, chosen, choose, commit, done, say, open }) {
  let drawn;
  // Something with the chosen line and the one that many places behind it, and with the text before the caret.
  const change = (by, does) => () => {
    const head = area.value.slice(0, area.selectionStart);
    commit();
    const [one, other] = [page.lines[chosen()], page.lines[chosen() + by]];
    if (one && other) does(one, other, head);
    else say("There is no line to do this with.");
  };
  const splitHere = change(0, (one, _, head) => {
    if (head.trim() === "" || head === one.text.trimEnd()) say("Put the caret where the line is to be split.");
    else done(split(page, one, head.length, widthOf(head, area) / widthOf(one.text, area)));
  });
  const join = change(1, (one, other) => done(merged(page, one, other)));
  const remove = change(0, (one) => done(removed(one)));
  const up = change(-1, (one, other) => done(swapped(other, one)));
  const down = change(1, (one, other) => done(swapped(one, other)));

  const pencil = h("div", { class: "row pencil", hidden: true },
    h("span", { role: "status" }, "Drag a box around the line on the scan, or click on its corners one after the other."),
    button("Close the outline", "Enter, or a double click", () => drawn?.close()), button("Leave off", "Escape", () => stop()));
  const stop = () => {
    drawn?.end();
    drawn = undefined;
    pencil.hidden = true;
  };
  const outline = (does) => () => {
    commit();
    drawn?.end();
    drawn = drawing(page, sheet, (polygon) => {
      stop();
      does(polygon);
    });
    pencil.hidden = false;
    // The keys are those of the drawing.
    document.activeElement.blur();
    sheet.scrollIntoView();
  };
  const add = outline((polygon) => {
    const made = { id: newId(), polygon, text: "" };
    done(added(page, placeBehind(page.lines, polygon), [made]));
    choose(page.lines.findIndex(({ id }) => id === made.id));
    open();
  });
  const redraw = outline((polygon) => page.lines[chosen()] && done(redrawn(page.lines[chosen()], polygon)));

  return {
    pencil, stop,
    buttons: [
      button("Split", "Split the line at the caret (Shift+Enter)", splitHere), button("Merge", "Merge with the line behind it", join),
      button("Delete", "Delete the line", remove),
      page.width > 0 && [button("Add", "Add a line that was not found: draw its outline", add),
        button("Outline", "Draw the outline of the line anew", redraw)],
      button("Move up", "Read the line earlier (Alt+↑)", up), button("Move down", "Read the line later (Alt+↓)", down),
    ],
    keys: { "+Enter": splitHere, "!ArrowUp": up, "!ArrowDown": down },
    // Keys while an outline is drawn; nothing while none is.
    drawing: () => drawn && { Enter: drawn.close, Escape: stop, Backspace: drawn.back },
  };
}
