"use strict";
// Which words of a text decide about its label, or about one word of its translation.
const FULL_COLOUR = 0.1, FULL_LOG = 1;  // as in visualize/pages.py and effect_pages.py
let effects = null;  // of the words of one translation

// Colours each word by how much the probability of the best label falls without it.
async function explain() {
  const text = $("text").value, second = $("text-b").value, controller = asked;
  $("explain").disabled = true;
  const before = $("status").textContent, finished = computing(controller.signal);
  try {
    const reply = await call("/v1/explain", { model: model.name, text, ...(inputOf(model).isPair && { text_b: second }) }, controller.signal);
    if (controller.signal.aborted) return;
    const largest = Math.max(0, ...reply.words.map((word) => Math.abs(word.effect)));
    const full = reply.label === null ? largest : Math.max(largest, FULL_COLOUR);
    colour($("words"), reply.text, reply.words.filter((word) => !word.second), full);
    colour($("words-b"), reply.text_b || "", reply.words.filter((word) => word.second), full);
    showExplained(reply.label ?? "the number"); $("explain").hidden = true; showStatus(before);
  } catch (error) {
    if (error.name !== "AbortError") showStatus(error.message, true);
  } finally { $("explain").disabled = false; finished(); }
}
function showExplained(what) { $("explained-label").textContent = what; $("effect").textContent = ""; $("explained").hidden = false; }
// Colours the words of the text by how much the probability of one word of its translation falls without each. `start` and
// `end` are the places of this word; those that the model reads as one are explained together. `isChosen` says whether the
// word still is.
async function explainWord(translation, start, end, signal, isChosen) {
  const text = $("text").value, find = (target) => call("/v1/word-effects", { model: model.name, text, ...target }, signal);
  $("explained").hidden = true;
  try {
    if (effects?.text !== text || effects.translation !== translation || effects.model !== model.name) {
      let reply = translation === written && await find({});
      if (reply?.answer !== translation) reply = await find({ target: translation });  // another word, or words of the user
      effects = { text, translation, model: model.name, sentences: reply.sentences };
    }
    if (!isChosen()) return;
    const all = [];  // [where the target word is, its sentence, its number there]
    let readTo = 0, writtenTo = 0;
    for (const one of effects.sentences) {
      const from = text.indexOf(one.text, readTo), parts = one.answer.split(/\s+/).filter(Boolean);  // it may have line breaks there
      const own = places(one.answer, parts), there = places(translation, parts, Math.max(writtenTo, translation.indexOf(one.answer, writtenTo)));
      const moved = (place) => { const i = own.findLastIndex(([first]) => first <= place); return i < 0 ? writtenTo : there[i][0] + place - own[i][0]; };
      places(one.answer, one.targets).forEach(([first, last], at) => all.push({ first: moved(first), last: moved(last - 1) + 1, one, at, from }));
      readTo = from + one.text.length; writtenTo = there.at(-1)?.[1] ?? writtenTo;
    }
    const shared = (word) => Math.min(word.last, end) - Math.max(word.first, start);
    const best = all.filter((word) => shared(word) > 0).sort((a, b) => shared(b) - shared(a))[0];
    if (!best) return;
    const { one, at, from } = best, full = Math.max(FULL_LOG, ...one.effects[at].map(Math.abs)), inSigns = (place) => [...text.slice(0, from + place)].length;
    const words = places(one.text, one.sources).map(([first, last], i) => ({ text: one.sources[i], start: inSigns(first), end: inSigns(last), effect: one.effects[at][i] }));
    colour($("words"), text, words, full); $("words-b").replaceChildren();
    showExplained(`“${one.targets[at]}”`);
  } catch (error) {
    if (error.name === "AbortError" || !isChosen()) return;
    $("words").textContent = error.message; $("words-b").replaceChildren(); showExplained("it");
  }
}
// [start, end] of each part of a text, in the order of the text.
function places(text, parts, done = 0) {
  return parts.map((part) => { const start = Math.max(done, text.indexOf(part, done)); done = start + part.length; return [start, done]; });
}
function colour(place, text, words, full) {
  const letters = [...text];  // places are counted in characters
  let done = 0;
  place.replaceChildren();
  for (const word of words) {
    place.append(letters.slice(done, word.start).join(""));
    const one = make("span", letters.slice(word.start, word.end).join(""), place);
    one.className = word.effect > 0 ? "for" : "against";
    one.style.setProperty("--share", full ? Math.abs(word.effect) / full : 0);
    const number = `${word.effect > 0 ? "+" : "-"}${Math.abs(word.effect).toFixed(4)}`;
    one.title = number; one.tabIndex = 0; one.setAttribute("role", "button");
    const showNumber = () => { $("effect").textContent = `${word.text}: ${number}`; };  // a phone has no pointer that hovers
    one.addEventListener("click", showNumber); one.addEventListener("focus", showNumber);
    done = word.end;
  }
  place.append(letters.slice(done).join(""));
}
