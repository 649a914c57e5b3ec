/**
 * One question and its answer on the page: status, text, sources, how it ended.
 *
 * In: the answer as folded so far and its phase. Out: one list item. Must not: read the network or decide what to do
 * next; it calls back.
 */

import { AnswerView } from "./answer_view.js";
import { STATUSES, answerAsText } from "./citations.js";
import { copyText } from "./clipboard.js";
import { button, element } from "./dom.js";
import { emptyAnswer, statusWords } from "./fold.js";
import { SourcesView } from "./sources_view.js";

/** @typedef {import("./api.js").ApiError} ApiError */
/** @typedef {import("./document_panel.js").Passage} Passage */
/** @typedef {import("./fold.js").Answer} Answer */
/** @typedef {"running" | "done" | "stopped" | "failed"} Phase */
/** @typedef {{openPassage: (passage: Passage) => void, retry: () => void, say: (words: string) => void}} Actions */

export class TurnView {
  /**
   * @param {string} question
   * @param {Actions} actions
   */
  constructor(question, actions) {
    this.actions = actions;
    this.status = element("p", { class: "status" });
    this.answer = new AnswerView((citation) => {
      const { source, status } = citation;
      // Where nothing supports the sentence there is no passage to mark; the source that was named is shown whole.
      const named = this.state.sources?.find(({ chunk_id: id }) => id === source.chunk_id);
      const { start, end } = source.quote === null && named !== undefined ? named : source;
      actions.openPassage({ ...source, start, end, status });
    });
    this.sources = new SourcesView((source) => actions.openPassage({ ...source, quote: source.text, status: null }));
    this.ending = element("div", { class: "ending" });
    this.reply = element("div", { class: "reply" }, this.status, this.answer.node, this.ending);
    this.node = element(
      "li",
      { class: "turn" },
      element("h2", { class: "question", dir: "auto" }, question),
      element("div", { class: "columns" }, this.reply, this.sources.node),
    );
    this.state = emptyAnswer();
    this.spokenBlocks = 0;
    this.spokenStatus = "";
  }

  /**
   * @param {Answer} state
   * @param {Phase} phase
   * @param {ApiError | null} error Set when `phase` is "failed".
   */
  update(state, phase, error) {
    this.state = state;
    const isRunning = phase === "running";
    const words = isRunning ? statusWords(state) : "";
    this.node.dataset.phase = phase;
    this.status.textContent = words;
    this.status.hidden = words === "";
    this.answer.update(state.text, state.citations, isRunning);
    const supporting = state.citations.filter(({ status }) => status !== "unsupported");
    this.sources.update(state.sources, new Set(supporting.map(({ source }) => source.n)));
    this.ending.replaceChildren(...(isRunning ? [] : this.endingNodes(state, phase, error)));
    this.speak(words, isRunning);
    if (!isRunning) this.actions.say(endWords(state, phase));
  }

  /**
   * Say what is new: the status, and each block once it is finished, so that no half word is read aloud.
   * @param {string} words
   * @param {boolean} isRunning
   */
  speak(words, isRunning) {
    if (words !== "" && words !== this.spokenStatus) this.actions.say(words);
    this.spokenStatus = words;
    const finished = this.answer.shown.length - (isRunning ? 1 : 0);
    if (finished <= this.spokenBlocks) return;
    for (const text of this.answer.spoken().slice(this.spokenBlocks, finished)) this.actions.say(text);
    this.spokenBlocks = finished;
  }

  /**
   * @param {Answer} state
   * @param {Phase} phase
   * @param {ApiError | null} error
   * @returns {Node[]}
   */
  endingNodes(state, phase, error) {
    const reason = state.done?.finish_reason;
    /** @type {Node[]} */
    const nodes = [];
    if (phase === "stopped") nodes.push(element("p", { class: "badge" }, "Stopped. This is not the whole answer."));
    if (reason === "length") {
      nodes.push(element("p", { class: "badge" }, "Cut short: the answer reached its greatest length before it was finished."));
    }
    if (reason === "no_sources") nodes.push(element("p", { class: "badge" }, "Nothing relevant was found, so the model was not asked."));
    if (error !== null) nodes.push(failure(error, state.text !== "", this.actions.retry));
    if (state.citations.length > 0) nodes.push(verdicts(state));
    const again = phase === "stopped" && button({ class: "quiet" }, this.actions.retry, "Ask again");
    const copy = state.text !== "" && this.copyButton(state);
    const timings = timingWords(state);
    nodes.push(element("div", { class: "tools" }, copy, again, timings !== "" && element("span", { class: "timings" }, timings)));
    return nodes;
  }

  /**
   * @param {Answer} state
   * @returns {HTMLElement}
   */
  copyButton({ text, citations }) {
    const made = button({ class: "quiet" }, async () => {
      const isCopied = await copyText(answerAsText(text, this.answer.placement));
      made.textContent = isCopied ? "Copied" : "Could not copy";
      this.actions.say(made.textContent);
    }, citations.length > 0 ? "Copy with citations" : "Copy");
    return made;
  }
}

/**
 * @param {ApiError} error
 * @param {boolean} isHalf
 * @param {() => void} retry
 * @returns {HTMLElement}
 */
function failure(error, isHalf, retry) {
  const facts = [error.code, error.requestId && `request ${error.requestId}`].filter(Boolean).join(" · ");
  const wait = error.retryAfter === null ? "" : ` Try again in ${Math.ceil(error.retryAfter)} s.`;
  return element(
    "div",
    { class: "failure", role: "alert" },
    element("p", {}, element("strong", {}, isHalf ? "The answer broke off. " : "No answer. "), error.message, wait),
    element("p", { class: "facts" }, facts),
    button({ class: "quiet retry" }, retry, "Try again"),
  );
}

/**
 * @param {Answer} state
 * @returns {HTMLElement} The statuses that occur and how often; opened, what each of them means.
 */
function verdicts({ citations }) {
  const pill = (/** @type {string} */ sign, /** @type {string} */ word, /** @type {string} */ words) =>
    element("span", { class: `verdict chip-${word}` }, element("span", { "aria-hidden": "true" }, `${sign} `), words);
  const held = Object.entries(STATUSES).map(([status, words]) => ({
    ...words,
    count: citations.filter((citation) => citation.status === status).length,
  }));
  const present = held.filter(({ count }) => count > 0);
  return element(
    "details",
    { class: "verdicts" },
    element(
      "summary",
      {},
      ...present.map(({ sign, word, count }) => pill(sign, word, `${count} ${word}`)),
      element("span", { class: "ask" }, "what is this?"),
    ),
    element(
      "ul",
      { class: "legend" },
      ...present.map(({ sign, word, meaning }) => element("li", {}, pill(sign, word, word), element("span", {}, meaning))),
    ),
  );
}

/**
 * @param {Answer} state
 * @returns {string}
 */
function timingWords({ done }) {
  const { first_token: first, total } = done?.timings_ms ?? {};
  const inWords = (/** @type {number} */ ms) => (ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`);
  return [
    Number.isFinite(first) && first > 0 && `first token ${inWords(first)}`,
    Number.isFinite(total) && `total ${inWords(total)}`,
  ].filter(Boolean).join(" · ");
}

/**
 * @param {Answer} state
 * @param {Phase} phase
 * @returns {string} What is said aloud at the end; an error says itself, being an alert.
 */
function endWords({ done, citations }, phase) {
  if (phase === "stopped") return "Stopped.";
  if (phase !== "done") return "";
  if (done?.finish_reason === "length") return "The answer was cut short.";
  const held = citations.filter(({ status }) => status === "verified").length;
  return citations.length === 0 ? "Answer complete." : `Answer complete. ${held} of ${citations.length} citations verified.`;
}
