// Boxes to tick whose state is kept in the browser.

import { h } from "./dom.js";

const KEPT = "parkhang.choices";

const kept = () => {
  try {
    return JSON.parse(localStorage.getItem(KEPT)) ?? {};
  } catch {
    return {};
  }
};

// A box that is ticked as it was left, and its label; `changed` is called when it is.
export function choice(name, unless, title, changed) {
  const onchange = () => {
    try {
      localStorage.setItem(KEPT, JSON.stringify({ ...kept(), [name]: box.checked }));
    } catch {
      // It holds until the page is left.
    }
    changed();
  };
  const box = h("input", { type: "checkbox", checked: kept()[name] ?? unless, onchange });
  return [box, h("label", { title }, box, ` ${name}`)];
}
