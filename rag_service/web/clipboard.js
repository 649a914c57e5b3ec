/**
 * Copying text.
 *
 * In: text. Out: whether it is on the clipboard. Must not: read the clipboard.
 */

import { element } from "./dom.js";

/**
 * @param {string} text
 * @returns {Promise<boolean>}
 */
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copySelected(text);
  }
}

/**
 * The old way, for a page served over plain HTTP to another machine: there browsers have no `navigator.clipboard`.
 * @param {string} text
 * @returns {boolean}
 */
function copySelected(text) {
  const focused = document.activeElement;
  const field = element("textarea", { class: "visually-hidden", "aria-hidden": "true" });
  field.value = text;
  document.body.append(field);
  field.select();
  const isCopied = document.execCommand("copy");
  field.remove();
  if (focused instanceof HTMLElement) focused.focus();
  return isCopied;
}
