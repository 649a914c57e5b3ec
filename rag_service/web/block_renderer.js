/**
 * One block of the answer as elements: running text, lists, tables, code, and the chips of its citations.
 *
 * In: a block's ranges, the text, where citations stand. Out: a new element.
 * Must not: parse HTML, make links, or keep state after a block is made.
 */

import { STATUSES, pageWords } from "./citations.js";
import { button, element } from "./dom.js";

/** @typedef {import("./api.js").Citation} Citation */
/** @typedef {import("./citations.js").Placement} Placement */
/** @typedef {import("./inline.js").Inline} Inline */
/** @typedef {import("./markdown.js").Block} Block */
/** @typedef {(citation: Citation) => void} OpenCitation */

/** Makes the elements of one block. Loose chips are put in when the text passes their place. */
export class BlockRenderer {
  /**
   * @param {string} text
   * @param {Placement} placement
   * @param {OpenCitation} onOpen
   * @param {number} until
   */
  constructor(text, placement, onOpen, until) {
    this.text = text;
    this.placement = placement;
    this.onOpen = onOpen;
    this.until = until;
    /** @type {{at: number, citation: Citation}[]} */
    this.loose = [];
  }

  /**
   * @param {Block} block
   * @returns {HTMLElement}
   */
  render(block) {
    this.loose = this.placement.loose.filter(({ at }) => at >= block.start && at < this.until);
    const made = this.renderKind(block);
    for (const { citation } of this.loose) lastLeaf(made).append(" ", this.chip(citation));
    return made;
  }

  /**
   * @param {Block} block
   * @returns {HTMLElement}
   */
  renderKind(block) {
    switch (block.kind) {
      case "code":
        return element("div", { class: "code", tabindex: 0 }, element("pre", {}, element("code", {}, block.code ?? "")));
      case "rule":
        return element("hr");
      case "list":
        return this.list(block);
      case "table":
        return this.table(block);
      case "heading":
        return element("p", { class: `heading heading-${block.level}`, dir: "auto" }, ...this.lines(block.lines ?? []));
      case "quote":
        return element("blockquote", { dir: "auto" }, ...this.lines(block.lines ?? []));
      default:
        return element("p", { dir: "auto" }, ...this.lines(block.lines ?? []));
    }
  }

  /**
   * One flat list; depth is a class, since half a nested list must already look right while it streams.
   * @param {Block} block
   * @returns {HTMLElement}
   */
  list({ items = [] }) {
    const made = element(items[0].ordered ? "ol" : "ul");
    for (const { depth, ordered, number, lines } of items) {
      const kind = `depth-${depth} ${ordered ? "ordered" : "bullet"}`;
      made.append(element("li", { class: kind, value: ordered ? number : null, dir: "auto" }, ...this.lines(lines)));
    }
    return made;
  }

  /**
   * @param {Block} block
   * @returns {HTMLElement}
   */
  table({ rows = [] }) {
    const row = (/** @type {"th" | "td"} */ tag) => (/** @type {Inline[][]} */ cells) =>
      element("tr", {}, ...cells.map((cell) => element(tag, { dir: "auto" }, ...this.inlines(cell))));
    const [head, ...body] = rows;
    const made = element("table", {}, element("thead", {}, row("th")(head)), element("tbody", {}, ...body.map(row("td"))));
    return element("div", { class: "table", tabindex: 0 }, made);
  }

  /**
   * @param {Inline[][]} lines
   * @returns {Node[]}
   */
  lines(lines) {
    return lines.flatMap((line, index) => [...(index > 0 ? [document.createTextNode("\n")] : []), ...this.inlines(line)]);
  }

  /**
   * @param {Inline[]} inlines
   * @returns {Node[]}
   */
  inlines(inlines) {
    return inlines.flatMap((inline) => {
      if (inline.kind === "text") return this.plain(inline.start, inline.end);
      if (inline.kind === "marker") return [...this.passed(inline.start), this.marker(inline)];
      const tag = /** @type {const} */ ({ code: "code", strong: "strong", emphasis: "em" })[inline.kind];
      const content = inline.children === undefined ? [this.text.slice(inline.start, inline.end)] : this.inlines(inline.children);
      return [...this.passed(inline.start), element(tag, {}, ...content)];
    });
  }

  /**
   * @param {number} start
   * @param {number} end
   * @returns {Node[]} The text, cut where loose chips belong.
   */
  plain(start, end) {
    /** @type {Node[]} */
    const nodes = this.passed(start);
    let from = start;
    while (this.loose.length > 0 && this.loose[0].at <= end) {
      const { at } = this.loose[0];
      nodes.push(document.createTextNode(`${this.text.slice(from, at)} `), ...this.passed(at));
      from = at;
    }
    if (end > from) nodes.push(document.createTextNode(this.text.slice(from, end)));
    return nodes;
  }

  /**
   * @param {number} at
   * @returns {Node[]} The chips of loose citations up to there.
   */
  passed(at) {
    const due = this.loose.filter((each) => each.at <= at);
    this.loose = this.loose.slice(due.length);
    return due.map(({ citation }) => this.chip(citation));
  }

  /**
   * @param {Inline} inline
   * @returns {Node} A chip once it has been checked; before, the text as it was written.
   */
  marker({ start, end }) {
    const citation = this.placement.byMarker.get(start);
    return citation === undefined ? element("span", { class: "marker" }, this.text.slice(start, end)) : this.chip(citation);
  }

  /**
   * @param {Citation} citation
   * @returns {HTMLElement}
   */
  chip(citation) {
    const { sign, word, meaning } = STATUSES[citation.status];
    const page = pageWords(citation.source);
    const attributes = {
      class: `chip chip-${word}`,
      "data-citation": citation.id,
      "data-n": citation.n,
      title: `${word}: ${[citation.source.title, page].filter(Boolean).join(", ")}\n${meaning}`,
    };
    const isElsewhere = citation.status === "misattributed"; // then the number it leads to is shown, too
    return button(
      attributes,
      () => this.onOpen(citation),
      element("span", { class: "visually-hidden" }, "source "),
      String(citation.n),
      element("span", { class: "sign", "aria-hidden": "true" }, sign),
      element("span", { class: "visually-hidden" }, isElsewhere ? `, ${word}, see source ` : `, ${word}`),
      isElsewhere && String(citation.source.n),
    );
  }
}

/**
 * @param {HTMLElement} node
 * @returns {HTMLElement} Where a chip fits at the block's end: its last line of running text.
 */
function lastLeaf(node) {
  return [...node.querySelectorAll("li, td")].filter((each) => each instanceof HTMLElement).at(-1) ?? node;
}
