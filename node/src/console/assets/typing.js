// A box of text in which Latin letters become Tibetan ones as they are typed, and in which typing is taken back.

import { asTyped, spelled } from "./wylie.js";

// What is typed that may be Wylie. Some keyboards of tablets give other apostrophes.
const LATIN = /^[ -~ʼ‘’]+$/;
// Letters of one syllable at the end of a text, or the mark that stands there.
const CONTEXT = /(?:[\u0f40-\u0f6c\u0f71-\u0f87\u0f90-\u0fbc]+|[\u0f04-\u0f08\u0f0d-\u0f11\u0f14])$/u;

// The state of a text after somebody has typed: `before` is { text, caret, run }, where a run, if there is one, is
// { start, wylie }: what was typed from `start` up to the caret, and shows as Tibetan there. `now` is { text, caret, isDeleted }.
export function converted(before, now) {
  const rest = now.text.slice(now.caret);
  if (!before.text.endsWith(rest)) return { ...now, run: undefined };
  const end = before.text.length - rest.length;
  let head = 0;
  while (head < now.caret && head < end && before.text[head] === now.text[head]) head += 1;
  const typed = now.text.slice(head, now.caret);
  const goesOn = before.run && end === before.caret;
  if (goesOn && now.isDeleted && typed === "" && before.run.wylie !== "") return shortened(before, rest);
  if (!LATIN.test(typed)) return { ...now, run: undefined };
  // Behind letters that were there before, a vowel or a letter below belongs to them.
  const run = goesOn && head === end ? before.run : opened(now.text.slice(0, head));
  return shown(now.text, { start: run.start, wylie: run.wylie + typed }, rest);
}

const shown = (text, run, rest) => {
  const whole = text.slice(0, run.start) + asTyped(run.wylie);
  return { text: whole + rest, caret: whole.length, run };
};

function opened(text) {
  const context = CONTEXT.exec(text)?.[0] ?? "";
  const wylie = spelled(context);
  return wylie === undefined ? { start: text.length, wylie: "" } : { start: text.length - context.length, wylie };
}

// Without its last sign that shows.
function shortened({ text, run }, rest) {
  const before = asTyped(run.wylie);
  let wylie = run.wylie;
  do wylie = wylie.slice(0, -1);
  while (wylie !== "" && asTyped(wylie) === before);
  return shown(text, { start: run.start, wylie }, rest);
}

// Makes a text area such a box; `isWylie()` says whether letters are converted, and `changed()` is called after each change by hand.
export function typing(area, isWylie, changed) {
  let [past, future] = [[], []];
  let before = { text: "", caret: 0 };
  const put = (state) => {
    before = state;
    area.value = state.text;
    area.setSelectionRange(state.caret, state.caret);
  };
  const settle = (isDeleted) => {
    // Of what is pasted, a line has no breaks and no tabs.
    const [text, head] = [area.value, area.value.slice(0, area.selectionStart)].map((part) => part.replace(/\p{Cc}+/gu, " "));
    const now = { text, caret: head.length, isDeleted };
    if (now.text === before.text) return;
    past.push(before);
    future = [];
    const next = isWylie() ? converted(before, now) : now;
    if (next.text === area.value) before = next;
    else put(next);
  };
  area.addEventListener("input", (event) => {
    // What a keyboard on the screen still composes is its own.
    if (!event.isComposing) settle(event.inputType.startsWith("delete"));
    changed();
  });
  area.addEventListener("compositionend", () => {
    settle(false);
    changed();
  });
  const step = (from, to) => {
    if (from.length === 0) return false;
    to.push(before);
    put({ ...from.pop(), run: undefined });
    changed();
    return true;
  };
  return {
    // Shows another text, whose typing begins anew.
    load: (text) => {
      [past, future] = [[], []];
      put({ text, caret: text.length });
    },
    // Shows what was typed earlier.
    retype: (text) => {
      past.push(before);
      put({ text, caret: text.length });
      changed();
    },
    // Whether there was anything to take back, or to do again.
    undo: () => step(past, future),
    redo: () => step(future, past),
  };
}
