/**
 * The document behind a citation, with its passage marked: a modal panel at the side.
 *
 * In: a passage (document, version, span). Out: the document's text around it, the passage scrolled into view.
 * Must not: show the text as anything but text.
 */

import { documentPath, getDocument, hasKey } from "./api.js";
import { STATUSES, pageWords } from "./citations.js";
import { CodePoints } from "./codepoints.js";
import { button, byId, element } from "./dom.js";

/** @typedef {import("./api.js").ApiError} ApiError */
/** @typedef {import("./api.js").DocumentWindow} DocumentWindow */
/**
 * @typedef {object} Passage
 * @property {string} document_id
 * @property {string} version
 * @property {string} title
 * @property {number | null} page_start
 * @property {number | null} page_end
 * @property {string} [page_unit]
 * @property {number | null} start
 * @property {number | null} end
 * @property {string | null} quote Shown where the document itself cannot be.
 * @property {import("./api.js").CitationStatus | null} status null for a source that was opened as such.
 */

export class DocumentPanel {
  constructor() {
    this.dialog = /** @type {HTMLDialogElement} */ (byId("document"));
    this.title = byId("document-title");
    this.about = byId("document-about");
    this.body = byId("document-body");
    this.link = /** @type {HTMLAnchorElement} */ (byId("document-link"));
    this.running = new AbortController();
    byId("document-close").addEventListener("click", () => this.dialog.close());
    this.dialog.addEventListener("close", () => this.running.abort());
    this.dialog.addEventListener("click", (event) => {
      if (event.target === this.dialog) this.dialog.close(); // a click on the backdrop
    });
  }

  /**
   * @param {Passage} passage
   * @returns {Promise<void>} When the text stands, or the error does.
   */
  async open(passage) {
    this.running.abort();
    this.running = new AbortController();
    const { signal } = this.running;
    const path = documentPath(passage);
    this.title.textContent = passage.title;
    this.about.replaceChildren(...aboutPassage(passage));
    this.link.href = path;
    this.link.hidden = hasKey(); // a plain link cannot carry the key, so it would only lead to an error
    this.body.replaceChildren(element("p", { class: "status" }, "Opening the document"));
    this.body.setAttribute("aria-busy", "true");
    if (!this.dialog.open) this.dialog.showModal();
    try {
      const found = await getDocument(path, signal);
      this.body.replaceChildren(...documentNodes(found, passage));
    } catch (error) {
      if (signal.aborted) return;
      this.body.replaceChildren(...failureNodes(/** @type {ApiError} */ (error), passage, () => this.open(passage)));
    }
    this.body.setAttribute("aria-busy", "false");
    this.body.scrollTop = 0;
    this.body.querySelector("mark")?.scrollIntoView({ block: "center", behavior: "instant" });
  }
}

/**
 * @param {Passage} passage
 * @returns {Node[]}
 */
function aboutPassage(passage) {
  const page = pageWords(passage);
  const { status } = passage;
  /** @type {Node[]} */
  const nodes = page === "" ? [] : [element("span", { class: "page" }, page)];
  if (status !== null) {
    const { sign, word, meaning } = STATUSES[status];
    nodes.push(element("span", { class: `verdict chip-${word}` }, `${sign} ${word}`), element("span", {}, meaning));
  }
  return nodes;
}

/**
 * @param {ApiError} error
 * @param {Passage} passage
 * @param {() => void} retry
 * @returns {Node[]}
 */
function failureNodes(error, passage, retry) {
  const box = element(
    "div",
    { class: "failure", role: "alert" },
    element("p", {}, error.status === 404 ? "This document is no longer in the index." : error.message),
    error.status !== 404 && button({ class: "quiet" }, retry, "Try again"),
  );
  return [box, ...quoteNodes(passage)];
}

/**
 * @param {Passage} passage
 * @returns {Node[]} The passage as the answer had it.
 */
function quoteNodes({ quote }) {
  if (quote === null) return [];
  return [element("p", { class: "note" }, "The passage as it was when the answer was made:"), element("blockquote", { dir: "auto" }, quote)];
}

/**
 * @param {DocumentWindow} found
 * @param {Passage} passage
 * @returns {Node[]}
 */
function documentNodes(found, passage) {
  /** @type {Node[]} */
  const nodes = [];
  if (found.stale) {
    nodes.push(element("p", { class: "note" }, "This document has changed since the answer was made."));
    if (found.span === null) nodes.push(...quoteNodes(passage));
  }
  const points = new CodePoints(found.text);
  const end = found.offset + points.length;
  if (found.offset > 0) nodes.push(gapNote(found.offset, "before"));
  nodes.push(element("div", { class: "document-text", dir: "auto" }, ...textNodes(found, points)));
  if (end < found.length) nodes.push(gapNote(found.length - end, "after"));
  return nodes;
}

/**
 * @param {number} characters
 * @param {string} where
 * @returns {Node}
 */
function gapNote(characters, where) {
  return element("p", { class: "note" }, `${characters.toLocaleString("en")} characters ${where} this are not shown here.`);
}

/**
 * The window cut at page starts and at the span's ends.
 * @param {DocumentWindow} found
 * @param {CodePoints} points Of the window's text.
 * @returns {Node[]}
 */
function textNodes({ offset, pages, page_unit, span }, points) {
  const last = offset + points.length;
  const unit = `${page_unit.charAt(0).toUpperCase()}${page_unit.slice(1)}`;
  const inside = pages.filter(({ start }) => start >= offset && start < last);
  const cuts = [offset, last, ...inside.map(({ start }) => start), ...(span === null ? [] : [span.start, span.end])];
  const ordered = [...new Set(cuts)].filter((cut) => cut >= offset && cut <= last).sort((a, b) => a - b);
  return ordered.flatMap((from, index) => {
    const starting = inside.filter(({ start }) => start === from);
    const labels = starting.map(({ page }) => element("span", { class: "page-break" }, `${unit} ${page}`));
    const to = ordered[index + 1];
    if (to === undefined) return labels;
    const text = points.slice(from - offset, to - offset);
    const isMarked = span !== null && from >= span.start && to <= span.end;
    return [...labels, isMarked ? element("mark", {}, text) : document.createTextNode(text)];
  });
}
