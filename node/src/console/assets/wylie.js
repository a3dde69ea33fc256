// Wylie (EWTS) to Tibetan letters, with the same readings as the models and the search have.

const after = (start, names, by = 0) => names.split(" ").map((name, index) => [name, String.fromCharCode(start + index + by)]);
const TOP = 0xf40, BELOW = 0x50, HA = "\u0fb7";
const ROW = "k kh g g+h ng c ch j - ny T Th D D+h N t th d d+h n p ph b b+h m ts tsh dz dz+h w zh z ' y r l sh Sh s h";
// Other spellings of a letter.
const ALSO = { gh: "g+h", Dh: "D+h", dh: "d+h", bh: "b+h", dzh: "dz+h", "-t": "T", "-th": "Th", "-d": "D", "-dh": "D+h", "-d+h": "D+h", "-n": "N", "-sh": "Sh" };
// [as the top of a stack, below another letter, if it can stand there] of each consonant. Letters with a breath are two characters.
const CONSONANTS = new Map(after(TOP, ROW).filter(([name]) => name !== "-").map(([name, top]) => {
  const letter = top.charCodeAt(0), breath = name.endsWith("+h");
  const [whole, below] = [letter, letter + BELOW].map((code) => String.fromCharCode(breath ? code - 1 : code) + (breath ? HA : ""));
  return [name, [whole, below]];
}));
for (const [name, other] of Object.entries(ALSO)) CONSONANTS.set(name, CONSONANTS.get(other));
for (const [name, ...forms] of [["W", "\u0f5d", "\u0fba"], ["Y", "\u0f61", "\u0fbb"], ["R", "\u0f6a", "\u0fbc"], ["f", "\u0f55\u0f39"], ["v", "\u0f56\u0f39"]]) {
  CONSONANTS.set(name, forms);
}
const A_CHEN = "\u0f68", CARET = "^", TSA_PHRU = "\u0f39";
const VOWELS = new Map([
  ["a", ""], ["A", "\u0f71"], ["i", "\u0f72"], ["I", "\u0f71\u0f72"], ["u", "\u0f74"], ["U", "\u0f71\u0f74"], ["e", "\u0f7a"], ["ai", "\u0f7b"],
  ["o", "\u0f7c"], ["au", "\u0f7d"], ["-i", "\u0f80"], ["-I", "\u0f71\u0f80"],
]);
// [sign, class] at the end of a stack; those of one class exclude each other.
const FINALS = new Map([
  ["M", ["\u0f7e", "m"]], ["~M`", ["\u0f82", "m"]], ["~M", ["\u0f83", "m"]], ["X", ["\u0f37", "x"]], ["~X", ["\u0f35", "x"]], ["H", ["\u0f7f", "h"]],
  ["?", ["\u0f84", "?"]], [CARET, [TSA_PHRU, CARET]], ["&", ["\u0f85", "&"]],
]);
const STANDALONE = new Map([
  [" ", "\u0f0b"], ["/", "\u0f0d"], ["_", " "], ["*", "\u0f0c"], ["//", "\u0f0e"], [";", "\u0f0f"], ["|", "\u0f11"], ["!", "\u0f08"], [":", "\u0f14"], ["=", "\u0f34"],
  ["<", "\u0f3a"], [">", "\u0f3b"], ["(", "\u0f3c"], [")", "\u0f3d"], ...after(0xf04, "@ # $ %"), ...after(0xf20, "0 1 2 3 4 5 6 7 8 9"),
]);
const LONGEST = 4;
// The letters that stand below each head letter without a +.
const HEADS = Object.fromEntries(Object.entries({
  r: "k g ng j ny t d n b m ts dz", l: "k g ng c j t d p b h", s: "k g ng ny t d n p b m ts", y: "k kh g p ph b m",
}).map(([head, below]) => [head, new Set(below.split(" "))]));
const SUBSCRIPTS = new Set(["y", "r", "l", "w"]);

// As people type it: the usual slips are repaired first.
export const toUnicode = (wylie) => asTyped(wylie.replace(/^(?:[^\S\ufeff]|[\x1c-\x1f\x85])+/, ""));

// The same of what is typed within a text, whose first spaces belong to it.
export const asTyped = (wylie) => convert(repaired(wylie));

const DIGITS = [..."0123456789"].map((digit) => [` ${digit}`, `_${digit}`]);
const SLIPS = [
  ..."ʼʹ‘’ʾ".split("").map((quote) => [quote, "'"]), ["x", "\\u0fbe"], ["X", "\\u0fbe"], ["...", "\\u0f0b\\u0f0b\\u0f0b"], [" (", "_("], [") ", ")_"], ["/ ", "/_"],
  ...DIGITS, ["_ ", "__"], ..."GKCBPLZ".split("").map((letter) => [letter, letter.toLowerCase()]),
  [" b ", " ba "], [" b'i ", " ba'i "], [" m ", " ma "], [" m'i ", " ma'i "], [" M", " m"], ["(M", "(m"],
];
const repaired = (wylie) => SLIPS.reduce((text, [from, to]) => text.replaceAll(from, to), wylie).replace(/S(?!h)/g, "s").replace(/^M/, "m");

function tokens(wylie) {
  const found = [];
  for (let rest = wylie; rest !== ""; rest = rest.slice(found.at(-1).length)) {
    found.push(spelling(rest) ?? escape(rest) ?? String.fromCodePoint(rest.codePointAt(0)));
  }
  return found;
}

// The longest first: tsh is not t and sh.
function spelling(rest) {
  for (let length = LONGEST; length > 1; length--) {
    const text = rest.slice(0, length);
    if (text.length === length && (text === "\r\n" || [CONSONANTS, VOWELS, FINALS, STANDALONE].some((known) => known.has(text)))) return text;
  }
  return undefined;
}

// A backslash and what it protects: one character, or u with 4 and U with 8 digits.
function escape(rest) {
  if (rest[0] !== "\\" || rest.length === 1) return undefined;
  const characters = [...rest.slice(0, 20)];
  const wanted = { u: 6, U: 10 }[characters[1]] ?? 2;
  return characters.slice(0, characters.length < wanted ? 2 : wanted).join("");
}

function unescaped(escape) {
  const body = escape.slice(1);
  if (!/^[uU]./su.test(body)) return body;
  const code = parseInt(body.slice(1), 16);
  const isCharacter = /^[0-9a-f]+$/.test(body.slice(1)) && code <= 0x10ffff && !(code >= 0xd800 && code <= 0xdfff);
  return isCharacter ? String.fromCodePoint(code) : "";
}

const isEscape = (token) => token[0] === "\\";
const isNewline = (token) => /^[\r\n]/.test(token);

function convert(wylie) {
  const all = tokens(wylie);
  let out = "", at = 0;
  const spaces = () => {
    while (all[at] === " ") at += 1;
  };
  while (at < all.length) {
    const token = all[at];
    if (VOWELS.has(token) || CONSONANTS.has(token)) {
      const [text, length] = stack(all, at);
      out += text;
      at += length;
      continue;
    }
    at += 1;
    if (STANDALONE.has(token)) out += STANDALONE.get(token);
    else if (token === "[") {
      // As it is, up to the closing bracket.
      for (; at < all.length && all[at] !== "]"; at++) out += isEscape(all[at]) ? unescaped(all[at]) : all[at];
      at += 1;
    } else if (isEscape(token)) out += unescaped(token);
    else if (token !== "\ufeff" && token !== "\u200b") out += token;
    if (token === " " || isNewline(token)) spaces();
  }
  return out;
}

// The stack that begins there with a vowel or a consonant, and of how many tokens it is.
function stack(all, begin) {
  let at = begin, out = "", consonants = 0, hasVowel = false, hasPlus = false;
  const finals = new Set();
  const carets = () => {
    const from = at;
    while (all[at] === CARET) at += 1;
    return at - from;
  };
  const letter = (token) => {
    const [top, below] = CONSONANTS.get(token);
    out += out === "" ? top : below ?? top;
    consonants += 1;
    at += 1;
    return carets();
  };
  // A letter with up to two others below it.
  const letters = () => {
    if (!CONSONANTS.has(all[at])) return 0;
    let found = letter(all[at]);
    // l hangs below single letters only; after two it begins the next stack or belongs to it, as in brla.
    for (let more = 0; more < 2 && SUBSCRIPTS.has(all[at]) && !(all[at] === "l" && consonants > 1); more++) found += letter(all[at]);
    return found;
  };
  let found = CONSONANTS.has(all[at]) && HEADS[all[at]]?.has(all[at + 1]) ? letter(all[at]) : 0;
  for (;;) {
    found += letters();
    if (found > 0) {
      finals.add(CARET);
      out += TSA_PHRU;
      found = 0;
    }
    if (VOWELS.has(all[at])) {
      out += (out === "" ? A_CHEN : "") + VOWELS.get(all[at]);
      at += 1;
      hasVowel = true;
    }
    if (all[at] !== "+") break;
    hasPlus = true;
    at += 1;
    // A + before what cannot stand below joins nothing.
    if (!VOWELS.has(all[at]) && CONSONANTS.get(all[at])?.[1] === undefined) break;
  }
  for (; FINALS.has(all[at]); at++) {
    const [sign, kind] = FINALS.get(all[at]);
    if (!finals.has(kind)) out += sign;
    finals.add(kind);
  }
  if (all[at] === ".") at += 1;
  // Several consonants without a vowel are several letters. Only now, because the vowel stands behind all of them.
  if (consonants > 1 && !hasVowel && !hasPlus && CONSONANTS.has(all[begin])) return [CONSONANTS.get(all[begin])[0], 1];
  return [out, at - begin];
}

// The other way, of letters only and with a + between all that stand below each other: what reads as this text, so that more can be
// typed behind it; undefined where nothing does. A last stack without a vowel is left open for one.
export function spelled(text) {
  let wylie = "", last;
  for (const sign of text) {
    const [kind, name] = NAMES.get(sign) ?? [];
    if (kind === undefined) return undefined;
    if (kind === "below" || (kind === "vowel" && last === "vowel")) wylie += "+";
    else if (kind === "top" && (last === "top" || last === "below")) wylie += "a";
    // The letter of vowels itself is not written before one.
    else if (kind === "vowel" && last === "chen") wylie = wylie.slice(0, -1);
    wylie += name;
    last = name === "a" ? "chen" : kind;
  }
  return asTyped(wylie) === text ? wylie : undefined;
}

const NAMES = new Map([[A_CHEN, ["top", "a"]]]);
for (const [name, [top, below]] of CONSONANTS) {
  if (top.length > 1 || Object.hasOwn(ALSO, name)) continue;
  if (!NAMES.has(top)) NAMES.set(top, ["top", name]);
  if (below) NAMES.set(below, ["below", name]);
}
for (const [name, sign] of VOWELS) if (sign.length === 1) NAMES.set(sign, ["vowel", name]);
for (const [name, [sign]] of FINALS) NAMES.set(sign, ["final", name]);
for (const name of ["/", "//", ";", "|", ":", "!", "@", "#"]) NAMES.set(STANDALONE.get(name), ["mark", name]);
