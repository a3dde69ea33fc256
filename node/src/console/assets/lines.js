// What is said of a line, and which of them call for somebody.

import { ago, h, percent } from "./dom.js";

// Below this confidence.
const UNSURE = 0.8;

export const isUnsure = (line) => line.confidence !== null && line.confidence < UNSURE;

// The place of the next line behind this one that is not sure, around the page; -1 where there is no other.
export function nextUnsure(lines, chosen) {
  const places = lines.map((_, index) => (chosen + 1 + index) % lines.length);
  return places.find((place) => place !== chosen && isUnsure(lines[place])) ?? -1;
}

// The word of a line that is least sure: from where to where in its text.
export function leastSure({ text, words }) {
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

export const surety = ({ corrected, confidence }) => (corrected ? ["corrected by ", corrected.who, " ", ago(corrected.at)] : percent(confidence));

// The text of a line and, short, how sure it is or who corrected it.
export function written({ text, corrected, confidence }, language) {
  return [h("span", { lang: language, class: isUnsure({ confidence }) ? "unsure" : undefined }, text),
    corrected ? h("small", { title: `corrected by ${corrected.who}, ${new Date(corrected.at).toLocaleString()}` }, "✎ ", corrected.who)
      : h("small", { title: "confidence" }, percent(confidence, 0))];
}

// Where in the text of an element that shows `written` somebody has clicked, from and to: one place, its end for a click beside the text, and a
// word for a double click. Nothing for whoever has selected some text and wants to have it.
export function clickedAt({ clientX, clientY, currentTarget, detail }) {
  const words = currentTarget.firstChild;
  const { isCollapsed, anchorNode, anchorOffset, focusOffset } = getSelection();
  if (!isCollapsed) return detail > 1 && words.contains(anchorNode) ? [anchorOffset, focusOffset] : undefined;
  const found = document.caretPositionFromPoint?.(clientX, clientY);
  const place = found && words.contains(found.offsetNode) ? found.offset : words.textContent.length;
  return [place, place];
}

// Corrections of lines that are not on the page as it is read now.
export function unplacedList(unplaced, language) {
  if (unplaced.length === 0) return undefined;
  const texts = (lines) => lines.map(({ text }) => h("div", { lang: language }, text));
  const entry = ({ replaces, lines, who, at }) => h("li", {}, h("p", { class: "note" }, who, " ", ago(at)),
    replaces.length > 0 && h("del", {}, texts(replaces)), lines.length > 0 ? h("ins", {}, texts(lines)) : h("p", { class: "note" }, "removed"));
  return h("section", { class: "unplaced" }, h("h2", {}, "Corrections of lines that are no longer found"), h("ul", {}, unplaced.map(entry)));
}
