/**
 * The numbered passages that the answer rests on.
 *
 * In: sources, then which of them are cited. Out: a list of buttons that open the passage in its document.
 * Must not: renumber; a source is shown under the number that the model was given.
 */

import { pageWords } from "./citations.js";
import { button, element } from "./dom.js";

/** @typedef {import("./api.js").Source} Source */

const EXCERPT_CHARACTERS = 320; // about three lines of the column; the panel has the whole passage

export class SourcesView {
  /** @param {(source: Source) => void} onOpen */
  constructor(onOpen) {
    this.onOpen = onOpen;
    this.heading = element("h3", {}, "Sources");
    this.list = element("ol");
    this.node = element("aside", { class: "sources", hidden: true, "aria-label": "Sources" }, this.heading, this.list);
    /** @type {Source[] | null} */
    this.shown = null;
  }

  /**
   * @param {Source[] | null} sources
   * @param {ReadonlySet<number>} cited Numbers of the sources that hold a cited passage.
   */
  update(sources, cited) {
    if (sources !== this.shown) {
      this.shown = sources;
      this.node.hidden = sources === null || sources.length === 0;
      this.list.replaceChildren(...(sources ?? []).map((source) => element("li", {}, this.card(source))));
    }
    for (const card of this.list.querySelectorAll("button")) {
      card.classList.toggle("is-cited", cited.has(Number(card.dataset.n)));
    }
  }

  /**
   * @param {Source} source
   * @returns {HTMLElement}
   */
  card(source) {
    const page = pageWords(source);
    return button(
      { class: "source", "data-n": source.n, title: [source.uri, ...(source.also_at ?? [])].join("\n") },
      () => this.onOpen(source),
      element("span", { class: "number" }, String(source.n)),
      element(
        "span",
        { class: "about" },
        element("span", { class: "title", dir: "auto" }, source.title),
        page !== "" && element("span", { class: "page" }, page),
        source.ocr === true && element("span", { class: "page", title: "Read from an image: words may be misread" }, "scan"),
        source.heading && element("span", { class: "path", dir: "auto" }, source.heading),
        element("span", { class: "excerpt", dir: "auto" }, excerpt(source.text)),
        strength(source.score),
      ),
    );
  }
}

/**
 * @param {string} text
 * @returns {string}
 */
function excerpt(text) {
  const characters = [...text.replace(/\s+/g, " ").trim()];
  return characters.length <= EXCERPT_CHARACTERS ? characters.join("") : `${characters.slice(0, EXCERPT_CHARACTERS).join("")}…`;
}

/**
 * @param {number} score 0..1, as retrieval ranks it.
 * @returns {HTMLElement} Words first: the number alone tells a reader nothing.
 */
function strength(score) {
  const level = score >= 0.7 ? 4 : score >= 0.5 ? 3 : score >= 0.3 ? 2 : 1;
  const words = ["faint match", "fair match", "good match", "strong match"][level - 1];
  const dots = [1, 2, 3, 4].map((dot) => element("span", { class: dot <= level ? "dot is-on" : "dot" }));
  return element(
    "span",
    { class: "strength", title: `Match with the question: ${score.toFixed(2)} of 1` },
    element("span", { class: "dots", "aria-hidden": "true" }, ...dots),
    words,
  );
}
