// What is said of a line, and which of them call for somebody.

import { ago, h, percent } from "./dom.js";

// Below this confidence of a line or of one of its words.
const UNSURE = 0.8;

// Where the words of a line stand in its text: { word, from, to }, as far as they are found there.
function placesOf({ text, words }) {
  let end = 0;
  return words.flatMap((word) => {
    const from = text.indexOf(word.text, end);
    if (from < 0) return [];
    end = from + word.text.length;
    return [{ word, from, to: from + word.text.trimEnd().length }];
  });
}

const unsurePlaces = (line) => placesOf(line).filter(({ word }) => word.confidence < UNSURE);
// A line is no better than its worst word: most that is wrong is a letter in a line that is right otherwise.
export const isUnsure = ({ confidence, words }) => (confidence ?? 1) < UNSURE || words.some((word) => word.confidence < UNSURE);

// The place of the next line behind this one that is not sure, around the page; -1 where there is no other.
export function nextUnsure(lines, chosen) {
  const places = lines.map((_, index) => (chosen + 1 + index) % lines.length);
  return places.find((place) => place !== chosen && isUnsure(lines[place])) ?? -1;
}

// The word of a line that is least sure: from where to where in its text; its end if it has no words.
export function leastSure(line) {
  const [least] = placesOf(line).sort((one, other) => one.word.confidence - other.word.confidence);
  return least ? [least.from, least.to] : [line.text.length, line.text.length];
}

export const surety = ({ corrected, confidence }) => (corrected ? ["corrected by ", corrected.who, " ", ago(corrected.at)] : percent(confidence));

// The text of a line, in which what is unsure is marked, and, short, how sure it is or who corrected it.
export function written(line, language) {
  const { text, corrected, confidence } = line;
  const places = unsurePlaces(line);
  const isWhole = isUnsure(line) && (confidence < UNSURE || places.length === 0);
  const ends = [0, ...places.map(({ to }) => to)];
  const parts = places.map(({ from, to }, index) => [text.slice(ends[index], from), h("span", { class: "unsure" }, text.slice(from, to))]);
  return [isWhole ? h("span", { lang: language, class: "unsure" }, text) : h("span", { lang: language }, parts, text.slice(ends.at(-1))),
    corrected ? h("small", { title: `corrected by ${corrected.who}, ${new Date(corrected.at).toLocaleString()}` }, "✎ ", corrected.who)
      : h("small", { title: "confidence" }, percent(confidence, 0))];
}

// Where in the text of an element that shows `written` somebody has clicked, from and to: one place, its end for a click beside the text, and a
// word for a double click. Nothing for whoever has selected some text and wants to have it.
export function clickedAt({ clientX, clientY, currentTarget, detail }) {
  const words = currentTarget.firstChild;
  const placeOf = (node, offset) => {
    const before = new Range();
    before.setStart(words, 0);
    before.setEnd(node, offset);
    return before.toString().length;
  };
  const { isCollapsed, anchorNode, anchorOffset, focusNode, focusOffset } = getSelection();
  if (!isCollapsed) {
    const isWord = detail > 1 && words.contains(anchorNode) && words.contains(focusNode);
    return isWord ? [placeOf(anchorNode, anchorOffset), placeOf(focusNode, focusOffset)] : undefined;
  }
  const found = document.caretPositionFromPoint?.(clientX, clientY);
  const place = found && words.contains(found.offsetNode) ? placeOf(found.offsetNode, found.offset) : words.textContent.length;
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
