/**
 * Server-sent events read from a fetch body, however the network cut the bytes.
 *
 * In: bytes of a `text/event-stream` answer. Out: its events, one after the other.
 * Must not: know what the events mean, or touch the page.
 */

/** @typedef {{event: string, data: string, id: string}} ServerSentEvent */

/**
 * Incremental parser after the HTML standard, section "Server-sent events": `\n`, `\r\n` and `\r` end a line, a line
 * that begins with a colon is a comment, several `data:` lines are joined with `\n`, an event that the stream's end
 * leaves unfinished is dropped.
 */
export class SseParser {
  constructor() {
    this.line = "";
    this.skipLineFeed = false;
    this.event = "";
    /** @type {string[]} */
    this.data = [];
    this.id = "";
  }

  /**
   * @param {string} text The next decoded piece, of any length.
   * @returns {ServerSentEvent[]} The events that it completes.
   */
  push(text) {
    /** @type {ServerSentEvent[]} */
    const complete = [];
    let from = 0;
    if (this.skipLineFeed && text !== "") {
      // The piece before ended in "\r"; a "\n" now belongs to that same line end.
      if (text[0] === "\n") from = 1;
      this.skipLineFeed = false;
    }
    for (let at = from; at < text.length; at += 1) {
      const character = text[at];
      if (character !== "\n" && character !== "\r") continue;
      const event = this.takeLine(this.line + text.slice(from, at));
      if (event !== null) complete.push(event);
      this.line = "";
      if (character === "\r") {
        if (at + 1 === text.length) this.skipLineFeed = true;
        else if (text[at + 1] === "\n") at += 1;
      }
      from = at + 1;
    }
    this.line += text.slice(from);
    return complete;
  }

  /**
   * @param {string} line A line without its end.
   * @returns {ServerSentEvent | null} The event that this line closes.
   */
  takeLine(line) {
    if (line === "") return this.takeEvent();
    const colon = line.indexOf(":");
    if (colon === 0) return null;
    const field = colon < 0 ? line : line.slice(0, colon);
    let value = colon < 0 ? "" : line.slice(colon + 1);
    if (value.startsWith(" ")) value = value.slice(1);
    if (field === "data") this.data.push(value);
    else if (field === "event") this.event = value;
    else if (field === "id" && !value.includes("\0")) this.id = value;
    return null;
  }

  /** @returns {ServerSentEvent | null} */
  takeEvent() {
    const event = this.data.length === 0 ? null : { event: this.event || "message", data: this.data.join("\n"), id: this.id };
    this.event = "";
    this.data = [];
    return event;
  }
}

/**
 * Read a body to its end. Leaving the loop early cancels the body, which closes the connection.
 * @param {ReadableStream<Uint8Array>} body
 * @returns {AsyncGenerator<ServerSentEvent, void, void>}
 */
export async function* readEvents(body) {
  const reader = body.getReader();
  // One decoder for the whole stream: a character cut by a network chunk is put together again.
  const decoder = new TextDecoder("utf-8");
  const parser = new SseParser();
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      yield* parser.push(decoder.decode(value, { stream: true }));
    }
  } finally {
    reader.cancel().catch(() => undefined); // already closed or broken: nothing left to cancel
  }
}
