/**
 * Code points and JavaScript's UTF-16 units: the service counts the first, strings here are made of the second.
 *
 * In: a string. Out: offsets and slices that agree with the service's spans.
 * Must not: touch the page.
 */

/** Translates offsets for one text. Building it is linear in the text, each look-up is logarithmic. */
export class CodePoints {
  /** @param {string} text */
  constructor(text) {
    this.text = text;
    /** @type {number[]} Code point offsets of the characters that take two units (emoji, rare CJK). */
    this.wide = [];
    for (let unit = 0, point = 0; unit < text.length; point += 1) {
      const isWide = /** @type {number} */ (text.codePointAt(unit)) > 0xffff;
      if (isWide) this.wide.push(point);
      unit += isWide ? 2 : 1;
    }
    /** Length in code points. */
    this.length = text.length - this.wide.length;
  }

  /**
   * The UTF-16 offset of a code point offset; what lies outside the text is moved to its nearer end.
   * @param {number} point
   * @returns {number}
   */
  unit(point) {
    const inside = Math.min(Math.max(0, point), this.length);
    let low = 0;
    let high = this.wide.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.wide[middle] < inside) low = middle + 1;
      else high = middle;
    }
    return inside + low;
  }

  /**
   * The text between two code point offsets.
   * @param {number} start
   * @param {number} end
   * @returns {string}
   */
  slice(start, end) {
    return this.text.slice(this.unit(start), this.unit(end));
  }
}
