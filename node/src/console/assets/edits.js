// Edits of the lines of a page, as the interface takes them: lines that somebody saw are replaced by others.

import { cut, hull, within } from "./outlines.js";

const plain = ({ id, polygon, text }) => ({ id, polygon, text });
export const isSame = (one, other) => one.id === other.id && one.text === other.text && String(one.polygon) === String(other.polygon);

// Only pages of secure origins have a function for this.
export function newId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  const hex = [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}

export const edit = (replaces, lines) => ({ id: newId(), replaces: replaces.map(plain), lines: lines.map(plain) });
export const retyped = (line, text) => edit([line], [{ ...line, text }]);
export const redrawn = (line, polygon) => edit([line], [{ ...line, polygon }]);
export const removed = (line) => edit([line], []);
export const swapped = (one, other) => edit([one, other], [other, one]);

// In two at a place of its text, and at this share of its width.
export function split(page, line, at, share) {
  const [left, right] = cut(within(page, line.polygon), share);
  return edit([line], [{ ...line, polygon: left, text: line.text.slice(0, at) }, { id: newId(), polygon: right, text: line.text.slice(at) }]);
}

export function merged(page, one, other) {
  // Tibetan has no spaces between its syllables.
  const gap = /\w$/.test(one.text) && /^\w/.test(other.text) ? " " : "";
  return edit([one, other], [{ id: one.id, polygon: hull(within(page, [...one.polygon, ...other.polygon])), text: one.text + gap + other.text }]);
}

// New lines behind the line at this place of a page; -1 is before all.
export function added(page, place, lines) {
  const { [place]: before, 0: first } = page.lines;
  if (before) return edit([before], [before, ...lines]);
  return first ? edit([first], [...lines, first]) : edit([], lines);
}

// What takes an edit back. `behind` is the identity of the line before those that it replaced.
export function undone(page, { replaces, lines, behind }) {
  return lines.length > 0 ? edit(lines, replaces) : added(page, page.lines.findIndex((line) => line.id === behind), replaces);
}

// The places of those lines of a page that an edit speaks of.
const concerned = (lines, edit) => {
  const ids = new Set([...edit.replaces, ...edit.lines].map((line) => line.id));
  return lines.flatMap((line, place) => (ids.has(line.id) ? [place] : []));
};
export const touched = (lines, edit) => concerned(lines, edit).map((place) => lines[place]);

// Lines with an edit done to them, by `corrected`, { who, at }; the same if they have it already. Those that it only moves stay as they are.
export function applied(lines, edit, corrected) {
  const places = concerned(lines, edit);
  if (places.length === 0 && edit.replaces.length > 0) return lines;
  const gone = new Set(places);
  const made = edit.lines.map((line) => lines.find((other) => isSame(other, line)) ?? { ...line, confidence: null, words: [], corrected });
  const kept = lines.filter((_, place) => !gone.has(place));
  return kept.toSpliced(places[0] ?? lines.length, 0, ...made);
}

// Two edits as one, where the second saw what the first made.
export function joined(first, second) {
  const others = second.replaces.filter((line) => !first.lines.some(({ id }) => id === line.id));
  return { ...first, replaces: [...first.replaces, ...others], lines: applied([...first.lines, ...others], second).map(plain) };
}

export const isNothing = ({ replaces, lines }) => replaces.length === lines.length && replaces.every((line, index) => isSame(line, lines[index]));

const has = (lines, line) => lines.some((other) => isSame(other, line));
// Of the lines of an edit: it only moves them, or puts others beside them.
const isKept = (edit, line) => has(edit.replaces, line) && has(edit.lines, line);
// Whether somebody else has changed what an edit changes, and not only lines that it keeps.
export const isClash = (lines, edit) => edit.replaces.some((line) => !isKept(edit, line) && !has(lines, line));

// The same as an edit that was not taken, of the lines as they are now.
export function rebased(page, old) {
  const now = old.lines.map((line) => (isKept(old, line) ? page.lines.find(({ id }) => id === line.id) : line)).filter(Boolean);
  const there = touched(page.lines, old);
  return there.length > 0 ? edit(there, now) : added(page, page.lines.findIndex(({ id }) => id === old.behind), now);
}

// Whether an edit replaces what another one made.
export const followsOn = (edit, first) => edit.replaces.some((line) => has(first.lines, line) && !has(first.replaces, line));
