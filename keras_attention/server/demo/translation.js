"use strict";
// The two menus of languages, by which the page chooses a translator. `translations` has the best model of each pair.
let translations = [];
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
// The best models of their pairs first, then the other translators, then all else in its order.
function bestFirst(models) {
  const place = (one) => { const at = translations.findIndex((best) => best.model === one.name); return at < 0 ? translations.length : at; };
  return [...models].sort((a, b) => place(a) - place(b));
}
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
  describe(); ask();
}
// What was written becomes the text, if there is a translator the other way round.
function swapLanguages() {
  const { source, target } = pairOf(model), back = translations.find((one) => one.source_language === target && one.target_language === source);
  if (!back) return tell(`No model translates from ${languageName(target)} to ${languageName(source)}.`, true);
  const [best] = document.querySelectorAll("#answers .what");
  if (best) $("text").value = best.textContent;
  $("from").value = target; $("to").value = source;
  chooseLanguages("to");
}
// The menus show the languages of the chosen model.
function showLanguages(detect) {
  const pair = pairOf(model);
  $("languages").hidden = !pair;
  if (!pair) return;
  $("from").value = detect ? DETECT : pair.source; $("to").value = pair.target;
}
// A model that the server has chosen.
function adopt(name) {
  if (name === model.name) return;
  model = models.find((one) => one.name === name);
  $("model").value = name;
  describe();
}
