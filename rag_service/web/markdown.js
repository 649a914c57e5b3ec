/**
 * The small part of Markdown that models write, as a tree of ranges in the text. Works at every moment of a stream.
 *
 * In: the answer so far. Out: blocks whose ranges are UTF-16 offsets into it; the text itself is never changed.
 * Must not: make elements. Links, images and HTML are no part of it: they stay text, since a document could have
 * planted them.
 */

import { parseInline } from "./inline.js";

/** @typedef {import("./inline.js").Inline} Inline */
/** @typedef {{depth: number, ordered: boolean, number: number, lines: Inline[][]}} Item */
/**
 * @typedef {object} Block
 * @property {"paragraph" | "heading" | "list" | "quote" | "code" | "table" | "rule"} kind
 * @property {number} start
 * @property {number} end
 * @property {number} [level] Of a heading, 1 to 6.
 * @property {Inline[][]} [lines] Of a paragraph, a heading and a quote.
 * @property {Item[]} [items] Of a list.
 * @property {Inline[][][]} [rows] Of a table: rows of cells; the first row is the head.
 * @property {string} [code]
 */
/** @typedef {{start: number, end: number, text: string}} Line */

const FENCE = /^[ \t]*(`{3,}|~{3,})/;
const HEADING = /^ {0,3}(#{1,6})[ \t]+/;
const ITEM = /^([ \t]*)(?:[-*+•]|(\d{1,9})[.)])[ \t]+/;
const QUOTE = /^ {0,3}> ?/;
const RULE = /^ {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$/;
const TABLE_RULE = /^[ \t]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$/;
const BLANK = /^[ \t]*$/;

/**
 * @param {string} text
 * @param {boolean} open More text is to come: what is opened at its end counts as if it were closed already.
 * @returns {Block[]}
 */
export function parseBlocks(text, open) {
  const lines = splitLines(text);
  /** @type {Block[]} */
  const blocks = [];
  for (let at = 0; at < lines.length; ) {
    if (BLANK.test(lines[at].text)) {
      at += 1;
      continue;
    }
    const [block, next] = parseBlock(text, lines, at, open);
    blocks.push(block);
    at = next;
  }
  return blocks;
}

/**
 * @param {string} text
 * @returns {Line[]}
 */
function splitLines(text) {
  /** @type {Line[]} */
  const lines = [];
  for (let start = 0; start < text.length; ) {
    const found = text.indexOf("\n", start);
    const end = found < 0 ? text.length : found;
    lines.push({ start, end, text: text.slice(start, end).replace(/\r$/, "") });
    start = end + 1;
  }
  return lines;
}

/**
 * @param {string} text
 * @param {Line[]} lines
 * @param {number} at A line that is not blank.
 * @param {boolean} open
 * @returns {[Block, number]} The block, and the line after it.
 */
function parseBlock(text, lines, at, open) {
  const line = lines[at];
  const inline = (/** @type {number} */ start, /** @type {number} */ end) => parseInline(text, start, end, open && end === text.length);
  if (FENCE.test(line.text)) return parseCode(lines, at);
  if (RULE.test(line.text)) return [{ kind: "rule", start: line.start, end: line.end }, at + 1];
  const heading = HEADING.exec(line.text);
  if (heading !== null) {
    const content = inline(line.start + heading[0].length, line.end);
    return [{ kind: "heading", start: line.start, end: line.end, level: heading[1].length, lines: [content] }, at + 1];
  }
  if (isTable(lines, at)) return parseTable(lines, at, inline);
  if (ITEM.test(line.text)) return parseList(lines, at, inline);
  let next = at + 1;
  if (QUOTE.test(line.text)) {
    while (next < lines.length && QUOTE.test(lines[next].text)) next += 1;
    const content = lines.slice(at, next).map((each) => inline(each.start + (QUOTE.exec(each.text)?.[0].length ?? 0), each.end));
    return [{ kind: "quote", start: line.start, end: lines[next - 1].end, lines: content }, next];
  }
  while (next < lines.length && !startsBlock(lines, next)) next += 1;
  const end = lines[next - 1].end;
  return [{ kind: "paragraph", start: line.start, end, lines: [inline(line.start, end)] }, next];
}

/**
 * @param {Line[]} lines
 * @param {number} at
 * @returns {boolean} Whether a paragraph ends before this line.
 */
function startsBlock(lines, at) {
  const { text } = lines[at];
  return [BLANK, FENCE, HEADING, ITEM, QUOTE, RULE].some((pattern) => pattern.test(text)) || isTable(lines, at);
}

/**
 * @param {Line[]} lines
 * @param {number} at
 * @returns {[Block, number]}
 */
function parseCode(lines, at) {
  const fence = /** @type {RegExpExecArray} */ (FENCE.exec(lines[at].text))[1];
  const isClosing = (/** @type {Line} */ line) => {
    const bare = line.text.trim();
    return bare.length >= fence.length && bare === fence[0].repeat(bare.length);
  };
  let close = at + 1;
  while (close < lines.length && !isClosing(lines[close])) close += 1;
  const code = lines.slice(at + 1, close).map((line) => line.text).join("\n");
  const last = Math.min(close, lines.length - 1);
  return [{ kind: "code", start: lines[at].start, end: lines[last].end, code }, last + 1];
}

/**
 * @param {Line[]} lines
 * @param {number} at
 * @param {(start: number, end: number) => Inline[]} inline
 * @returns {[Block, number]}
 */
function parseList(lines, at, inline) {
  /** @type {Item[]} */
  const items = [];
  let next = at;
  for (; next < lines.length; next += 1) {
    const { text, start, end } = lines[next];
    const found = RULE.test(text) ? null : ITEM.exec(text);
    if (found !== null) {
      const depth = Math.min(3, Math.floor(found[1].replaceAll("\t", "    ").length / 2));
      const lead = inline(start + found[0].length, end);
      items.push({ depth, ordered: found[2] !== undefined, number: Number(found[2] ?? 0), lines: [lead] });
    } else if (BLANK.test(text)) {
      // Blank lines between two items keep the list together; anything else after them begins a new block.
      const after = lines.findIndex((line, index) => index > next && !BLANK.test(line.text));
      if (after < 0 || !ITEM.test(lines[after].text)) break;
    } else if (startsBlock(lines, next)) {
      break;
    } else {
      items[items.length - 1].lines.push(inline(start + text.length - text.trimStart().length, end));
    }
  }
  return [{ kind: "list", start: lines[at].start, end: lines[next - 1].end, items }, next];
}

/**
 * @param {Line[]} lines
 * @param {number} at
 * @returns {boolean} Whether a table's head and its rule begin here.
 */
function isTable(lines, at) {
  return at + 1 < lines.length && lines[at].text.includes("|") && lines[at + 1].text.includes("|") && TABLE_RULE.test(lines[at + 1].text);
}

/**
 * @param {Line[]} lines
 * @param {number} at
 * @param {(start: number, end: number) => Inline[]} inline
 * @returns {[Block, number]}
 */
function parseTable(lines, at, inline) {
  const rows = [tableCells(lines[at], inline)];
  let next = at + 2;
  for (; next < lines.length && lines[next].text.includes("|"); next += 1) rows.push(tableCells(lines[next], inline));
  return [{ kind: "table", start: lines[at].start, end: lines[next - 1].end, rows }, next];
}

/**
 * @param {Line} line
 * @param {(start: number, end: number) => Inline[]} inline
 * @returns {Inline[][]}
 */
function tableCells({ text, start }, inline) {
  const cells = [...text.matchAll(/(?:\\\||[^|])+/g)].filter((cell, index, all) => {
    const isEdge = index === 0 || index === all.length - 1;
    return !isEdge || !BLANK.test(cell[0]);
  });
  return cells.map((cell) => {
    const lead = cell[0].length - cell[0].trimStart().length;
    return inline(start + cell.index + lead, start + cell.index + cell[0].trimEnd().length);
  });
}
