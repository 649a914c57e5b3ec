/**
 * The chat page: builds its parts and joins them.
 *
 * In: index.html. Out: a working page. Must not: hold logic of its own beyond the wiring.
 */

import { getInfo, keepKey } from "./api.js";
import { Announcer } from "./announcer.js";
import { Conversation } from "./conversation.js";
import { DocumentPanel } from "./document_panel.js";
import { byId } from "./dom.js";

const announcer = new Announcer(byId("announcer"));
const panel = new DocumentPanel();
const composer = byId("composer");
const question = /** @type {HTMLTextAreaElement} */ (byId("question"));
const send = /** @type {HTMLButtonElement} */ (byId("send"));
const stop = /** @type {HTMLButtonElement} */ (byId("stop"));
const keyForm = byId("key-form");
const keyField = /** @type {HTMLInputElement} */ (byId("key"));
/** @type {() => void} */
let afterKey = () => undefined;

const conversation = new Conversation({
  list: byId("turns"),
  openPassage: (passage) => void panel.open(passage),
  say: (words) => announcer.say(words),
  onRunning: showRunning,
  onRefused: (error, retry) => askForKey(error.message, retry),
  follow,
});

/** @param {boolean} isRunning */
function showRunning(isRunning) {
  const hadFocus = document.activeElement === stop || document.activeElement === document.body;
  byId("welcome").hidden = conversation.turns.length > 0;
  byId("new").hidden = conversation.turns.length === 0;
  send.hidden = isRunning;
  stop.hidden = !isRunning;
  if (!isRunning && hadFocus) question.focus({ preventScroll: true });
}

/**
 * Draw, and scroll on only if the answer's end was in sight before: who has scrolled away is left alone.
 * @param {import("./turn_view.js").TurnView} view
 * @param {() => void} draw
 */
function follow(view, draw) {
  const below = () => view.reply.getBoundingClientRect().bottom - composer.getBoundingClientRect().top + 24;
  const wasInSight = below() < 48;
  draw();
  if (wasInSight && below() > 0) window.scrollBy({ top: below(), behavior: "instant" });
}

/**
 * @param {string} why
 * @param {() => void} then Done with the new key.
 */
function askForKey(why, then) {
  afterKey = then;
  byId("key-why").textContent = why;
  keyForm.hidden = false;
  keyField.focus();
}

async function showInfo() {
  const notice = byId("notice");
  try {
    const info = await getInfo();
    const documents = info.documents === 1 ? "1 document" : `${info.documents.toLocaleString("en")} documents`;
    const where = info.collection === "documents" ? "" : ` in ${info.collection}`; // the default says nothing
    byId("served").textContent = `${documents}${where} · ${info.model}`;
    byId("no-documents").hidden = info.documents > 0;
    notice.textContent = info.notice ?? "";
    notice.hidden = info.notice === null;
  } catch (error) {
    const { status, message } = /** @type {import("./api.js").ApiError} */ (error);
    if (status === 401) return askForKey(message, showInfo);
    notice.textContent = message;
    notice.hidden = false;
  }
}

function submit() {
  const words = question.value.trim();
  if (words === "" || conversation.running !== null) return;
  question.value = "";
  question.rows = 1;
  announcer.clear();
  void conversation.ask(words);
}

composer.addEventListener("submit", (event) => {
  event.preventDefault();
  submit();
});
question.addEventListener("keydown", (event) => {
  // While an input method composes a character, Enter belongs to it.
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  submit();
});
question.addEventListener("input", () => {
  // For browsers without `field-sizing`; with it, rows is but the least height.
  question.rows = Math.min(8, question.value.split("\n").length);
});
stop.addEventListener("click", () => conversation.stop());
byId("new").addEventListener("click", () => {
  conversation.clear();
  showRunning(false);
  question.focus();
});
for (const example of document.querySelectorAll("#examples button")) {
  example.addEventListener("click", () => {
    question.value = example.textContent ?? "";
    submit();
    question.focus({ preventScroll: true });
  });
}
keyForm.addEventListener("submit", (event) => {
  event.preventDefault();
  if (keyField.value.trim() === "") return;
  keepKey(keyField.value.trim());
  keyField.value = "";
  keyForm.hidden = true;
  question.focus();
  const then = afterKey;
  if (then !== showInfo) void showInfo();
  then();
});

void showInfo();
