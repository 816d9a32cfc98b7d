"use strict";
// The two menus of languages, by which the page chooses a translator. `translations` has the best model of each pair.
let translations = [], written = "";  // `written` is the best answer of the model
const DETECT = "";
const languageNames = new Intl.DisplayNames(["en"], { type: "language" });
function languageName(code) { try { return languageNames.of(code); } catch { return code; } }

function fillLanguages() {
  const sources = new Set(translations.map((one) => one.source_language)), targets = new Set(translations.map((one) => one.target_language));
  const add = (menu, codes) => [...codes].sort((a, b) => languageName(a).localeCompare(languageName(b))).forEach((code) => { make("option", languageName(code), $(menu)).value = code; });
  make("option", "Detect language", $("from")).value = DETECT;
  add("from", sources); add("to", targets);
  $("from").addEventListener("change", () => chooseLanguages("from"));
  $("to").addEventListener("change", () => chooseLanguages("to"));
  $("swap").addEventListener("click", swapLanguages);
}
// The pair that a model translates, or null.
function pairOf(one) { return one.languages ? { source: one.languages[0], target: one.languages[1] } : null; }
function isDetecting() { return Boolean(pairOf(model)) && $("from").value === DETECT; }
// Any of the translators may be chosen by the server while it detects the language.
function mostTranslations() {
  const able = isDetecting() ? translations.map((best) => models.find((one) => one.name === best.model)) : [model];
  return Math.min(3, ...able.map((one) => one.beam_size));
}
// After a choice in one menu, the other one shows a language that fits, and the best model for both is chosen.
function chooseLanguages(changed) {
  const fits = (one) => [DETECT, one.source_language].includes($("from").value) && one.target_language === $("to").value;
  if (!translations.some(fits)) {
    if (changed === "to") $("from").value = DETECT;
    else $("to").value = translations.find((one) => one.source_language === $("from").value).target_language;
  }
  $("model").value = translations.find(fits).model;
  model = models.find((one) => one.name === $("model").value);
  offerTargets(); describe(); showExamples(); $("answers").replaceChildren(); hideView(); ask();
}
// Only languages into which a model translates from the chosen one.
function offerTargets() {
  const from = $("from").value, pairs = translations.filter((one) => [DETECT, one.source_language].includes(from));
  for (const option of $("to").options) option.disabled = !pairs.some((one) => one.target_language === option.value);
}
// What the user demands of the translation, as fields of a request: "word = translation" on a line, or a name to keep.
// A line that is not finished is left out.
function demands() {
  const lines = $("terms").value.split("\n").map((line) => { const [first, ...rest] = line.split("="); return rest.length ? [first.trim(), rest.join("=").trim()] : [first.trim()]; }).filter((line) => !line.some(isBlank));
  const terms = Object.fromEntries(lines.filter((line) => line.length > 1)), names = lines.filter((line) => line.length === 1).map(([name]) => name);
  return { ...(Object.keys(terms).length && { terms }), ...(names.length && { do_not_translate: names }) };
}
// What was written becomes the text, if there is a translator the other way round.
function swapLanguages() {
  const { source, target } = pairOf(model), back = translations.find((one) => one.source_language === target && one.target_language === source);
  if (!back) return showStatus(`No model translates from ${languageName(target)} to ${languageName(source)}.`, true);
  const [best] = document.querySelectorAll("#answers .what");
  if (best) $("text").value = best.textContent;
  $("from").value = target; $("to").value = source;
  chooseLanguages("to");
}
// The menus show the languages of the chosen model.
function showLanguages(detect) {
  const pair = pairOf(model);
  $("languages").hidden = $("demands").hidden = !pair;
  if (!pair) return;
  $("from").value = detect ? DETECT : pair.source; $("to").value = pair.target;
  offerTargets();
}
// A model that the server has chosen.
function adopt(name) {
  if (name === model.name) return;
  model = models.find((one) => one.name === name);
  $("model").value = name;
  describe();
}

// The words of a translation as buttons: each offers other words at its place, and what follows is translated anew.
function showWords(item, text) {
  const place = item.querySelector(".what");
  let position = 0, start = 0;
  place.replaceChildren();
  for (const part of text.split(/(\s+)/)) {
    const from = start;
    start += part.length;
    if (!part.trim()) { place.append(part); continue; }
    const at = position++, word = make("span", part, place);
    clickable(word, async () => {
      const signal = asked.signal, isChosen = () => !signal.aborted && word.isConnected && word.classList.contains("chosen");
      await askAlternatives(item, text, at, word);
      if (isChosen()) await explainWord(text, from, from + part.length, signal, isChosen);
    });
  }
}
async function askAlternatives(item, translation, position, word) {
  const place = $("choices"), signal = asked.signal;
  for (const one of document.querySelectorAll(".token.chosen")) one.classList.remove("chosen");
  word.classList.add("chosen");
  const finished = computing(signal), before = $("status").textContent;
  try {
    const { alternatives } = await call("/v1/alternatives", { model: model.name, text: $("text").value, translation, position, ...demands() }, signal);
    if (signal.aborted || !word.isConnected) return;
    place.replaceChildren(); place.hidden = false;
    const list = make("ol", undefined, place);
    for (const one of alternatives) {
      const row = make("li", undefined, list), bar = make("div", undefined, row), button = make("button", one.word, row);
      bar.className = "bar"; bar.style.width = `${100 * one.probability}%`;
      button.className = "what"; button.type = "button"; button.title = one.translation;
      button.addEventListener("click", () => { place.hidden = $("explained").hidden = true; item.querySelector(".score").textContent = ""; showWords(item, one.translation); });
      make("span", percent(one.probability), row).className = "score";
      row.classList.toggle("chosen", one.word === word.textContent);
    }
    showStatus(before);
  } catch (error) {
    if (error.name !== "AbortError") showStatus(error.message, true);
  } finally { finished(); }
}
