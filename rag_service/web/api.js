/**
 * The service's HTTP interface as the page uses it: ask, read a document, ask what is served.
 *
 * In: questions and ids. Out: native events, documents, or an ApiError that a person can act on.
 * Must not: touch the page; the API key goes to this origin and to session storage only.
 */

import { readEvents } from "./stream.js";

/** @typedef {"verified" | "weak" | "misattributed" | "unsupported"} CitationStatus */
/** @typedef {{start: number, end: number}} Span Half-open, in code points. */
/**
 * @typedef {object} Source A numbered passage, as the model was given it.
 * @property {number} n
 * @property {string} document_id
 * @property {string} version
 * @property {string} chunk_id
 * @property {string} title
 * @property {string} uri
 * @property {number | null} page_start
 * @property {number | null} page_end
 * @property {string} page_unit
 * @property {boolean} ocr Read from an image.
 * @property {number} start
 * @property {number} end
 * @property {number} score 0..1
 * @property {string} text
 * @property {string | null} heading
 * @property {string[]} also_at Other places of the same content.
 */
/**
 * @typedef {object} CitedPassage `n` is the source that it stands in; the citation's own `n` is what the model wrote.
 * @property {number} n
 * @property {string} document_id
 * @property {string} version
 * @property {string} chunk_id
 * @property {string} title
 * @property {number | null} page_start
 * @property {number | null} page_end
 * @property {string} page_unit
 * @property {boolean} ocr Read from an image.
 * @property {number | null} start
 * @property {number | null} end
 * @property {string | null} quote
 */
/** @typedef {{id: string, n: number, answer: Span, source: CitedPassage, status: CitationStatus, score: number}} Citation */
/** @typedef {{type: string, [field: string]: any}} NativeEvent */
/** @typedef {{role: "user" | "assistant", content: string}} Message */
/** @typedef {{collection: string, model: string, demo: boolean, notice: string | null, documents: number, version: string}} Info */
/**
 * @typedef {object} DocumentWindow `text` begins at code point `offset` of `length`.
 * @property {string} id
 * @property {string} title
 * @property {string} uri
 * @property {string} version
 * @property {string} media_type
 * @property {string} text
 * @property {number} offset
 * @property {number} length
 * @property {"page" | "slide" | "sheet" | "chapter"} page_unit
 * @property {{page: number, start: number}[]} pages
 * @property {Span | null} span
 * @property {boolean} stale
 */

const KEY_NAME = "rag-api-key";

/** What went wrong, in words for people; `status` is 0 where no answer came. */
export class ApiError extends Error {
  /**
   * @param {string} code
   * @param {string} message
   * @param {{status?: number, requestId?: string | null, retryAfter?: number | null}} [facts]
   */
  constructor(code, message, facts = {}) {
    super(message);
    this.name = "ApiError";
    this.code = code;
    this.status = facts.status ?? 0;
    this.requestId = facts.requestId ?? null;
    this.retryAfter = facts.retryAfter ?? null;
  }
}

/** @param {string} key Kept until the tab is closed. */
export function keepKey(key) {
  sessionStorage.setItem(KEY_NAME, key);
}

/** @returns {boolean} */
export function hasKey() {
  return sessionStorage.getItem(KEY_NAME) !== null;
}

/** @returns {Promise<Info>} */
export async function getInfo() {
  return (await call("/info", { headers: headers("application/json") })).json();
}

/**
 * Where the service shows a passage. Built from ids, so that no address written elsewhere is ever followed.
 * @param {{document_id: string, version: string, start: number | null, end: number | null}} passage
 * @returns {string}
 */
export function documentPath({ document_id: id, version, start, end }) {
  const query = new URLSearchParams({ version });
  if (start !== null && end !== null) {
    query.set("start", String(start));
    query.set("end", String(end));
  }
  return `/documents/${encodeURIComponent(id)}?${query}`;
}

/**
 * @param {string} path From `documentPath`.
 * @param {AbortSignal} signal
 * @returns {Promise<DocumentWindow>}
 */
export async function getDocument(path, signal) {
  return (await call(path, { headers: headers("application/json"), signal })).json();
}

/**
 * Ask, and yield the answer's events. Throws ApiError when the service refuses or the connection breaks, which is any
 * end without `done` or `error`; throws the signal's AbortError when stopped.
 * @param {string} question
 * @param {Message[]} history
 * @param {AbortSignal} signal
 * @returns {AsyncGenerator<NativeEvent, void, void>}
 */
export async function* ask(question, history, signal) {
  const response = await call("/rag-query", {
    method: "POST",
    headers: { ...headers("text/event-stream"), "Content-Type": "application/json" },
    body: JSON.stringify({ question, history, stream: true }),
    signal,
  });
  const requestId = response.headers.get("x-request-id");
  try {
    if (response.body !== null) {
      for await (const { data } of readEvents(response.body)) {
        const event = JSON.parse(data);
        yield event;
        if (event.type === "done" || event.type === "error") return;
      }
    }
  } catch (error) {
    if (signal.aborted) throw error;
  }
  throw new ApiError("connection_lost", "The connection broke before the answer was complete. What is shown is not all of it.", {
    requestId,
  });
}

/**
 * @param {string} accept
 * @returns {Record<string, string>}
 */
function headers(accept) {
  const key = sessionStorage.getItem(KEY_NAME);
  return key === null ? { Accept: accept } : { Accept: accept, Authorization: `Bearer ${key}` };
}

/**
 * @param {string} path
 * @param {RequestInit} init
 * @returns {Promise<Response>} A 2xx answer; everything else is thrown.
 */
async function call(path, init) {
  /** @type {Response} */
  let response;
  try {
    response = await fetch(path, init);
  } catch (error) {
    if (init.signal?.aborted) throw error;
    throw new ApiError("unreachable", "The service cannot be reached. Is it running?");
  }
  if (response.ok) return response;
  throw await refusal(response);
}

/**
 * @param {Response} response
 * @returns {Promise<ApiError>}
 */
async function refusal(response) {
  const seconds = Number(response.headers.get("retry-after"));
  const facts = {
    status: response.status,
    requestId: response.headers.get("x-request-id"),
    retryAfter: Number.isFinite(seconds) && seconds > 0 ? seconds : null,
  };
  try {
    const { error } = await response.json();
    return new ApiError(String(error.code), String(error.message), { ...facts, requestId: error.request_id ?? facts.requestId });
  } catch {
    // Not the service's own words: a proxy in between answered, with a page that is of no use here.
    return new ApiError(`http_${response.status}`, `The answer was HTTP ${response.status} and not from the service itself.`, facts);
  }
}
