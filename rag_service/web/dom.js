/**
 * The one place that makes elements. Text enters the page only here, and only as text nodes.
 *
 * In: tag names and attributes written in this program, texts from anywhere. Out: elements.
 * Must not: parse markup, set `style` or `on…` attributes, or take an attribute's name from data.
 */

/** @typedef {Node | string | null | false} Child Nothing is made of null and false. */

/**
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Record<string, string | number | boolean | null>} [attributes] true sets an empty attribute; false and null none.
 * @param {...Child} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === false) continue;
    made.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children) if (child !== null && child !== false) made.append(child);
  return made;
}

/**
 * A button that never submits.
 * @param {Record<string, string | number | boolean | null>} attributes
 * @param {(event: MouseEvent) => void} onClick
 * @param {...Child} children
 * @returns {HTMLButtonElement}
 */
export function button(attributes, onClick, ...children) {
  const made = element("button", { type: "button", ...attributes }, ...children);
  made.addEventListener("click", onClick);
  return made;
}

/**
 * The element of the page with that id. Throws when index.html and the scripts disagree.
 * @param {string} id
 * @returns {HTMLElement}
 */
export function byId(id) {
  const found = document.getElementById(id);
  if (found === null) throw new Error(`index.html has no #${id}`);
  return found;
}
