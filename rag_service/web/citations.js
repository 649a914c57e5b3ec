/**
 * Which citation stands where in the answer, and the words for how well it holds.
 *
 * In: the answer, the markers found in it, the service's citations. Out: a placement.
 * Must not: judge a citation itself, or make elements.
 */

import { CodePoints } from "./codepoints.js";

/** @typedef {import("./api.js").Citation} Citation */
/** @typedef {import("./api.js").CitationStatus} CitationStatus */
/** @typedef {import("./inline.js").Inline} Inline */
/**
 * @typedef {object} Placement
 * @property {Map<number, Citation>} byMarker By the UTF-16 offset of the marker.
 * @property {{at: number, citation: Citation}[]} loose Citations of sentences without a marker, by UTF-16 offset.
 */

/** The four statuses in the order in which they are listed; `sign` never stands without `word` beside it. */
export const STATUSES = /** @type {const} */ ({
  verified: { sign: "✓", word: "verified", meaning: "The words stand in the source." },
  weak: { sign: "~", word: "weak", meaning: "The source says something close, but not all of it." },
  misattributed: { sign: "→", word: "misattributed", meaning: "Another source says it; the mark leads there." },
  unsupported: { sign: "?", word: "unsupported", meaning: "The source does not say it." },
});

// What may stand between a sentence and its marker: space, punctuation, emphasis signs, other markers.
const GAP = /^(?:[\s.,;:!?…。！？、，"'”’»)}*_`|]|\[\d{1,4}\])*$/;
// Signs that belong to a sentence which the service's span may leave out; a chip goes after them.
const SENTENCE_END = /[.!?…。！？:;,"'”’»)*_`]*/y;

/**
 * Give each citation the marker that it checks: the first of its number in or right after its sentence. One without a
 * marker goes after its sentence.
 * @param {string} text The answer so far.
 * @param {Inline[]} markers In order.
 * @param {readonly Citation[]} citations Their answer spans are code points.
 * @returns {Placement}
 */
export function placeCitations(text, markers, citations) {
  /** @type {Placement} */
  const placement = { byMarker: new Map(), loose: [] };
  if (citations.length === 0) return placement;
  const points = new CodePoints(text);
  for (const citation of citations) {
    const start = points.unit(citation.answer.start);
    const end = points.unit(citation.answer.end);
    const own = markers.filter((marker) => {
      if (marker.n !== citation.n || marker.start < start) return false;
      return marker.start < end || GAP.test(text.slice(end, marker.start));
    });
    const free = own.find((marker) => !placement.byMarker.has(marker.start));
    if (free !== undefined) placement.byMarker.set(free.start, citation);
    else placement.loose.push({ at: afterSentence(text, end), citation });
  }
  placement.loose.sort((a, b) => a.at - b.at);
  return placement;
}

/**
 * @param {string} text
 * @param {number} end
 * @returns {number}
 */
function afterSentence(text, end) {
  SENTENCE_END.lastIndex = end;
  return end + (SENTENCE_END.exec(text)?.[0].length ?? 0);
}

/**
 * @param {{page_start: number | null, page_end: number | null, page_unit?: string}} place
 * @returns {string} "p. 3", "pp. 3–4", "slide 3", or "" where the source has no pages.
 */
export function pageWords({ page_start: first, page_end: last, page_unit: unit }) {
  if (first === null || first === undefined) return "";
  const [one, several] = !unit || unit === "page" ? ["p.", "pp."] : [unit, `${unit}s`];
  return last === null || last === undefined || last === first ? `${one} ${first}` : `${several} ${first}–${last}`;
}

/**
 * The answer as text with its citations, for the clipboard.
 * @param {string} text
 * @param {Placement} placement
 * @returns {string}
 */
export function answerAsText(text, placement) {
  let answer = "";
  let from = 0;
  for (const { at, citation } of placement.loose) {
    answer += `${text.slice(from, at)} [${citation.n}]`;
    from = at;
  }
  answer += text.slice(from);
  const cited = [...placement.byMarker.entries()].map(([at, citation]) => ({ at, citation })).concat(placement.loose);
  if (cited.length === 0) return answer;
  const lines = cited
    .sort((a, b) => a.at - b.at)
    .map(({ citation: { n, status, source } }) => {
      const place = [source.title, pageWords(source)].filter(Boolean).join(", ");
      return `[${n}] ${STATUSES[status].word}: ${place}${source.quote ? `: “${source.quote.replace(/\s+/g, " ")}”` : ""}`;
    });
  return `${answer}\n\nCitations, as checked by the service:\n${[...new Set(lines)].join("\n")}\n`;
}
