/**
 * The conversation: one question at a time is asked, streamed into its turn, and remembered for the next.
 *
 * In: questions. Out: turns in the list. Must not: know how a turn looks.
 */

import { ApiError, ask } from "./api.js";
import { applyEvent, emptyAnswer } from "./fold.js";
import { TurnView } from "./turn_view.js";

/** @typedef {import("./api.js").Message} Message */
/** @typedef {import("./fold.js").Answer} Answer */
/** @typedef {{question: string, view: TurnView, state: Answer, isWhole: boolean}} Turn */
/**
 * @typedef {object} Surroundings
 * @property {HTMLElement} list Where turns go.
 * @property {(passage: import("./document_panel.js").Passage) => void} openPassage
 * @property {(words: string) => void} say
 * @property {(isRunning: boolean) => void} onRunning
 * @property {(error: ApiError, retry: () => void) => void} onRefused The service asks for a key.
 * @property {(view: TurnView, draw: () => void) => void} follow Draws, and keeps the answer's end in sight.
 */

const REMEMBERED_TURNS = 6; // what follow-ups refer to; more would only cost prompt tokens

export class Conversation {
  /** @param {Surroundings} surroundings */
  constructor(surroundings) {
    this.around = surroundings;
    /** @type {Turn[]} */
    this.turns = [];
    /** @type {AbortController | null} */
    this.running = null;
  }

  /**
   * @param {string} question
   * @returns {Promise<void>} When the answer has ended, however it did.
   */
  async ask(question) {
    if (this.running !== null) return;
    /** @type {Turn} */
    const turn = { question, view: new TurnView(question, this.actions(() => this.run(turn))), state: emptyAnswer(), isWhole: false };
    this.turns.push(turn);
    this.around.list.append(turn.view.node);
    turn.view.node.scrollIntoView({ block: "start" });
    await this.run(turn);
  }

  /** Stop the running answer; closing the connection stops the work in the service too. */
  stop() {
    this.running?.abort();
  }

  /** Forget everything. */
  clear() {
    this.stop();
    this.turns = [];
    this.around.list.replaceChildren();
  }

  /**
   * @param {() => void} retry
   * @returns {import("./turn_view.js").Actions}
   */
  actions(retry) {
    const { openPassage, say } = this.around;
    return { openPassage, say, retry };
  }

  /**
   * @param {Turn} turn
   * @returns {Message[]} The finished turns before it: what was stopped or failed says nothing to build on.
   */
  historyBefore(turn) {
    const whole = this.turns.slice(0, this.turns.indexOf(turn)).filter(({ isWhole }) => isWhole);
    return whole.slice(-REMEMBERED_TURNS).flatMap(({ question, state }) => [
      { role: "user", content: question },
      { role: "assistant", content: state.text },
    ]);
  }

  /**
   * @param {Turn} turn
   * @returns {Promise<void>}
   */
  async run(turn) {
    if (this.running !== null) return;
    const controller = new AbortController();
    this.running = controller;
    this.around.onRunning(true);
    const draw = new FrameBatch(() => this.around.follow(turn.view, () => turn.view.update(turn.state, "running", null)));
    turn.state = emptyAnswer();
    draw.now();
    const [phase, error] = await this.stream(turn, controller.signal, draw);
    draw.cancel();
    turn.isWhole = phase === "done";
    this.running = null;
    this.around.follow(turn.view, () => turn.view.update(turn.state, phase, error));
    this.around.onRunning(false);
    if (error?.status === 401) this.around.onRefused(error, () => this.run(turn));
  }

  /**
   * @param {Turn} turn
   * @param {AbortSignal} signal
   * @param {FrameBatch} draw
   * @returns {Promise<["done" | "stopped", null] | ["failed", ApiError]>} How it ended.
   */
  async stream(turn, signal, draw) {
    try {
      for await (const event of ask(turn.question, this.historyBefore(turn), signal)) {
        turn.state = applyEvent(turn.state, event);
        draw.soon();
      }
    } catch (error) {
      if (signal.aborted) return ["stopped", null];
      if (error instanceof ApiError) return ["failed", error];
      throw error;
    }
    const { failure } = turn.state;
    if (failure === null) return ["done", null];
    return ["failed", new ApiError(String(failure.code), String(failure.message), { requestId: failure.request_id ?? null })];
  }
}

/** Draws at most once a frame, however fast tokens come. */
class FrameBatch {
  /** @param {() => void} draw */
  constructor(draw) {
    this.draw = draw;
    this.frame = 0;
  }

  now() {
    this.cancel();
    this.draw();
  }

  soon() {
    if (this.frame !== 0) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.draw();
    });
  }

  cancel() {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
  }
}
