/**
 * The answer on the page: paragraphs, lists, tables and code, with a chip for every citation.
 *
 * In: the answer so far and its citations, as often as they change. Out: elements under one parent; only blocks that
 * changed are made anew, so that a selection or the focus in a finished paragraph stays.
 * Must not: parse HTML, or make anything that a document could point elsewhere.
 */

import { BlockRenderer } from "./block_renderer.js";
import { placeCitations } from "./citations.js";
import { element } from "./dom.js";
import { parseBlocks } from "./markdown.js";

/** @typedef {import("./api.js").Citation} Citation */
/** @typedef {import("./citations.js").Placement} Placement */
/** @typedef {import("./inline.js").Inline} Inline */
/** @typedef {import("./markdown.js").Block} Block */
/** @typedef {import("./block_renderer.js").OpenCitation} OpenCitation */

export class AnswerView {
  /** @param {OpenCitation} onOpen Called when a chip is pressed. */
  constructor(onOpen) {
    this.node = element("div", { class: "answer" });
    this.onOpen = onOpen;
    /** @type {{key: string, node: HTMLElement}[]} */
    this.shown = [];
    /** @type {Placement} */
    this.placement = { byMarker: new Map(), loose: [] };
  }

  /**
   * @param {string} text
   * @param {readonly Citation[]} citations
   * @param {boolean} open Whether more text is to come.
   */
  update(text, citations, open) {
    const blocks = parseBlocks(text, open);
    const markers = blocks.flatMap((block) => inlinesOf(block).flatMap(markersOf));
    this.placement = placeCitations(text, markers, citations);
    this.node.classList.toggle("is-open", open);
    blocks.forEach((block, index) => this.show(text, block, blocks[index + 1]?.start ?? Infinity, index));
    for (const { node } of this.shown.splice(blocks.length)) node.remove();
  }

  /** @returns {string[]} The text of each finished block, without chips: what is read aloud. */
  spoken() {
    return this.shown.map(({ node }) => {
      const copy = /** @type {HTMLElement} */ (node.cloneNode(true));
      for (const chip of copy.querySelectorAll(".chip, .marker")) chip.remove();
      return copy.textContent.trim();
    });
  }

  /**
   * @param {string} text
   * @param {Block} block
   * @param {number} until Where the next block begins.
   * @param {number} index
   */
  show(text, block, until, index) {
    const key = JSON.stringify([block.kind, text.slice(block.start, block.end), this.citationsIn(block.start, until)]);
    const before = this.shown[index];
    if (before?.key === key) return;
    const node = new BlockRenderer(text, this.placement, this.onOpen, until).render(block);
    if (before === undefined) {
      this.node.append(node);
    } else {
      const focused = before.node.contains(document.activeElement) ? document.activeElement : null;
      before.node.replaceWith(node);
      const id = focused instanceof HTMLElement ? focused.dataset.citation : undefined;
      if (id !== undefined) [...node.querySelectorAll("button")].find((chip) => chip.dataset.citation === id)?.focus();
    }
    this.shown[index] = { key, node };
  }

  /**
   * @param {number} start
   * @param {number} end
   * @returns {string[]} Which citations the block shows, so that a new one changes its key.
   */
  citationsIn(start, end) {
    const marked = [...this.placement.byMarker].filter(([at]) => at >= start && at < end).map(([, { id, status }]) => `${id} ${status}`);
    const loose = this.placement.loose.filter(({ at }) => at >= start && at < end).map(({ citation }) => citation.id);
    return marked.concat(loose);
  }
}

/**
 * @param {Block} block
 * @returns {Inline[]}
 */
function inlinesOf(block) {
  return [...(block.lines ?? []), ...(block.items ?? []).flatMap((item) => item.lines), ...(block.rows ?? []).flat()].flat();
}

/**
 * @param {Inline} inline
 * @returns {Inline[]}
 */
function markersOf(inline) {
  return inline.kind === "marker" ? [inline] : (inline.children ?? []).flatMap(markersOf);
}
