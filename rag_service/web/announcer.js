/**
 * What is read aloud: finished parts of the answer and changes of status, politely.
 *
 * In: words. Out: entries of one hidden live region. Must not: say a part of the answer that may still change; the
 * visible answer is no live region because every token of it would interrupt the last.
 */

import { element } from "./dom.js";

const KEPT = 12; // enough that no reader loses an entry before it is spoken; older ones would only be met twice

export class Announcer {
  /** @param {HTMLElement} region */
  constructor(region) {
    this.region = region;
  }

  /** @param {string} words */
  say(words) {
    if (words === "") return;
    this.region.append(element("p", {}, words));
    while (this.region.childElementCount > KEPT) this.region.firstElementChild?.remove();
  }

  clear() {
    this.region.replaceChildren();
  }
}
