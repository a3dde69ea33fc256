// Looking for a text in a volume or in all of a job.

import { get, part } from "./api.js";
import { count, fill, h } from "./dom.js";

export function search(job, volume) {
  const found = h("div", {});
  const input = h("input", { type: "search", "aria-label": "Text to look for", lang: "bo", placeholder: "find a text", required: true });
  const scope = volume && h("select", { "aria-label": "Where to look" },
    h("option", { value: volume }, "in this volume"), h("option", { value: "" }, "in the whole job"));
  const list = h("ul", { class: "hits" });
  const look = async (text, within, after) => {
    const answer = await get(`/jobs/${part(job)}/search`, { text, volume: within, after, limit: 50 });
    list.append(...answer.matches.map((match) => h("li", {},
      h("a", { href: `#/read/${part(job)}/${part(match.volume)}/${match.page}?line=${match.line}` },
        within ? "" : `${match.volume}, `, `page ${match.page}, line ${match.line}`), " ",
      h("span", { lang: "bo" }, match.before, h("mark", {}, match.text), match.after))));
    const number = list.children.length;
    fill(found,
      h("p", { class: "note", role: "status" }, number === 0 ? "Not found." : `${count(number)} found${answer.more ? ", and more" : ""}.`),
      list, answer.next !== null && h("button", { onclick: () => look(text, within, answer.next) }, "Look further"));
  };
  const form = h("form", {
    class: "row", role: "search", onsubmit: async (event) => {
      event.preventDefault();
      fill(list);
      const text = input.value.trim();
      await look(text, scope?.value).catch((error) => fill(found, h("p", { class: "bad", role: "alert" }, error.message)));
    },
  }, input, scope, h("button", {}, "Find"));
  return { place: h("div", {}, form, found), focus: () => input.focus() };
}
