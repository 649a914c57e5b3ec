/**
 * What stands inside a line of the answer: bold, italic, code and citation markers, as ranges of the text.
 *
 * In: a range of the answer. Out: a tree of ranges that covers it. Must not: make elements or change the text.
 */

/**
 * @typedef {object} Inline
 * @property {"text" | "code" | "strong" | "emphasis" | "marker"} kind
 * @property {number} start
 * @property {number} end Ranges are those of the content, without the signs around it, but for a marker's brackets.
 * @property {Inline[]} [children] Of strong and emphasis.
 * @property {number} [n] Of a marker.
 */

// The service rewrites every marker to this form, and never sends half of one.
const MARKER = /\[(\d{1,4})\]/y;

/**
 * @param {string} text
 * @param {number} start
 * @param {number} end
 * @param {boolean} open The text goes on after `end`.
 * @returns {Inline[]}
 */
export function parseInline(text, start, end, open) {
  /** @type {Inline[]} */
  const nodes = [];
  const range = text.slice(0, end);
  let plain = start;
  const flush = (/** @type {number} */ until) => {
    if (until > plain) nodes.push({ kind: "text", start: plain, end: until });
  };
  for (let at = start; at < end; ) {
    const node = spanAt(range, at, start, open);
    if (node === null) {
      at += 1;
      continue;
    }
    flush(at);
    nodes.push(node.inline);
    at = node.next;
    plain = at;
  }
  flush(end);
  return nodes;
}

/**
 * @param {string} range The text up to the end of the range.
 * @param {number} at
 * @param {number} start Of the range.
 * @param {boolean} open
 * @returns {{inline: Inline, next: number} | null} What begins at `at`, if anything but text does.
 */
function spanAt(range, at, start, open) {
  const character = range[at];
  if (character === "`") return codeAt(range, at, open);
  if (character === "[") return markerAt(range, at);
  if (character !== "*" && character !== "_") return null;
  const isDouble = range[at + 1] === character;
  const sign = isDouble ? character.repeat(2) : character;
  const before = at > start ? range[at - 1] : " ";
  const inner = at + sign.length;
  // "2 * 3", "snake_case" and "a ** b" are no emphasis: it begins before a letter, and "_" never inside a word.
  if (inner >= range.length || /\s/.test(range[inner])) return null;
  if (character === "_" && /[\p{L}\p{N}_]/u.test(before)) return null;
  const close = closingOf(range, inner, sign);
  if (close < 0 && !(open && isDouble)) return null;
  const end = close < 0 ? range.length : close;
  const children = parseInline(range, inner, end, open && close < 0);
  return { inline: { kind: isDouble ? "strong" : "emphasis", start: inner, end, children }, next: Math.min(range.length, end + sign.length) };
}

/**
 * @param {string} range
 * @param {number} from
 * @param {string} sign
 * @returns {number} Where the closing sign stands, or -1.
 */
function closingOf(range, from, sign) {
  for (let at = range.indexOf(sign, from); at >= 0; at = range.indexOf(sign, at + 1)) {
    if (at === from || /\s/.test(range[at - 1])) continue;
    const after = range[at + sign.length] ?? " ";
    if (sign[0] === "_" && /[\p{L}\p{N}_]/u.test(after)) continue;
    // A single sign does not close at a double one, as in "*a **b** c*".
    if (sign.length === 1 && (after === sign || range[at - 1] === sign)) continue;
    return at;
  }
  return -1;
}

/**
 * @param {string} range
 * @param {number} at
 * @param {boolean} open
 * @returns {{inline: Inline, next: number} | null}
 */
function codeAt(range, at, open) {
  const sign = /** @type {RegExpExecArray} */ (/`+/y.exec(range.slice(at)))[0];
  const inner = at + sign.length;
  let close = range.indexOf(sign, inner);
  while (close >= 0 && range[close + sign.length] === "`") close = range.indexOf(sign, close + sign.length + 1);
  if (close < 0 && !(open && inner < range.length)) return null;
  const end = close < 0 ? range.length : close;
  return { inline: { kind: "code", start: inner, end }, next: Math.min(range.length, end + sign.length) };
}

/**
 * @param {string} range
 * @param {number} at
 * @returns {{inline: Inline, next: number} | null}
 */
function markerAt(range, at) {
  MARKER.lastIndex = at;
  const found = MARKER.exec(range);
  if (found === null) return null;
  const next = at + found[0].length;
  return { inline: { kind: "marker", start: at, end: next, n: Number(found[1]) }, next };
}
