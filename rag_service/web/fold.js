/**
 * An answer as the fold of its events.
 *
 * In: native events, one by one. Out: what is known of the answer so far.
 * Must not: make elements, or read the network.
 */

/** @typedef {import("./api.js").Source} Source */
/** @typedef {import("./api.js").Citation} Citation */
/** @typedef {import("./api.js").NativeEvent} NativeEvent */
/**
 * @typedef {object} Answer
 * @property {{stage: string, position: number | null}} status
 * @property {Source[] | null} sources null until they are known.
 * @property {string} text
 * @property {Citation[]} citations
 * @property {NativeEvent | null} done
 * @property {NativeEvent | null} failure
 */

/** @returns {Answer} */
export function emptyAnswer() {
  return { status: { stage: "sent", position: null }, sources: null, text: "", citations: [], done: null, failure: null };
}

/**
 * Types that this page does not know are passed over, so that a newer service can still be read.
 * @param {Answer} answer
 * @param {NativeEvent} event
 * @returns {Answer} A new value.
 */
export function applyEvent(answer, event) {
  switch (event.type) {
    case "status":
      return { ...answer, status: { stage: event.stage, position: event.position ?? null } };
    case "sources":
      return { ...answer, sources: event.sources };
    case "delta":
      return { ...answer, text: answer.text + event.text };
    case "citation":
      return { ...answer, citations: [...answer.citations, /** @type {any} */ (event)] };
    case "done":
      return { ...answer, done: event };
    case "error":
      return { ...answer, failure: event };
    default:
      return answer;
  }
}

/**
 * @param {Answer} answer
 * @returns {string} What is being waited for, in words; "" once the text comes.
 */
export function statusWords({ status, sources, text }) {
  if (text !== "") return "";
  if (status.stage === "queued") return status.position === null ? "Waiting in line" : `Waiting in line, place ${status.position}`;
  if (status.stage === "retrieving") return "Searching the documents";
  if (sources !== null) return sources.length === 1 ? "Reading 1 passage" : `Reading ${sources.length} passages`;
  return status.stage === "thinking" ? "Thinking" : "Sending the question";
}
