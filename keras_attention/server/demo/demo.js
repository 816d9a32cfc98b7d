"use strict";
// The page: what to do, with which model, and the answer while one types. It knows no task and no architecture:
// inputs.js has the widgets of the inputs, answers.js the forms of the answers.
const DEBOUNCE_MS = 250;
const PATIENCE_MS = 300;  // without an answer, before the page says what takes time
const PARTS = new Set([...Object.values(INPUTS), ...Object.values(ANSWERS)].flatMap((one) => one.parts || []));
let models = [], activities = [], limits, model, activity, views = 0, asked = null, timer = null;

async function start() {
  ({ models, activities, translations, limits } = await call("/v1/models"));
  fillLanguages();
  for (const one of activities) {
    const button = make("button", one.title, $("activities"));
    button.type = "button";
    button.addEventListener("click", () => chooseActivity(one, true));
  }
  $("activities").hidden = activities.length < 2;
  $("model").addEventListener("change", () => choose());
  for (const id of ["text", "text-b", "labels", "terms"]) $(id).addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(ask, DEBOUNCE_MS); });
  $("gap").addEventListener("click", insertGap);
  startInputs();
  $("file").addEventListener("change", readFile);
  $("classify").addEventListener("click", classifyTable);
  $("explain").addEventListener("click", explain);
  $("write").addEventListener("click", write);
  $("scores").addEventListener("click", () => { const isShown = $("answers").classList.toggle("scored"); $("scores").setAttribute("aria-pressed", isShown); });
  $("looked").addEventListener("toggle", showAttention);
  $("view").addEventListener("load", fitView);
  $("text-b").maxLength = $("labels").maxLength = limits.characters;
  if (activities.length) chooseActivity(activities[0], translations.length > 1);
}
// Shows the models for what is to be done, the best one first, which is chosen.
function chooseActivity(chosen, detect = false) {
  activity = chosen;
  [...$("activities").children].forEach((button, at) => button.setAttribute("aria-pressed", activities[at] === chosen));
  $("introduction").textContent = chosen.introduction;
  $("model").replaceChildren();
  for (const name of chosen.models) make("option", name, $("model")).value = name;
  choose(detect && translations.length > 1);
}
function describe() {
  const languages = pairOf(model) ? "" : model.source_language ? `${model.source_language} to ${model.target_language}` : model.language;
  const [first, rest] = sentences(model.description);
  $("about").textContent = first;
  $("more").textContent = [rest, languages && `Language: ${languages}.`, model.parameters && `${model.parameters.toLocaleString("en")} parameters.`, model.default && `The default for /v1/${model.task}.`].filter(Boolean).join(" ");
  $("details").hidden = !$("more").textContent; $("details").open = false;
}
function choose(detect = false) {
  model = models.find((one) => one.name === $("model").value);
  const input = inputOf(model), answer = answerOf(model), parts = new Set([...input.parts, ...(answer.parts || [])]);
  if (!input.isText) parts.delete("table");
  describe(); showLanguages(detect);
  for (const id of PARTS) $(id).hidden = !parts.has(id);
  for (const id of ["text-title", "image-title", "clip-title"]) $(id).textContent = input.title || activity.input_title;
  $("second-title").textContent = answer.secondTitle || input.secondTitle || "";
  $("text-b").rows = answer.secondRows || 2;
  $("text").maxLength = input.longest();
  $("answers").replaceChildren(); hideView();  // those of another model
  preselectColumns();
  const examples = showExamples();
  input.show(examples[0]);
  ask();
}
// The buttons of the model's examples; returns these.
function showExamples() {
  const input = inputOf(model), answer = answerOf(model);
  $("examples").replaceChildren();
  const examples = (answer.examples || ((all) => all))(model.examples).filter((one) => one.source);
  for (const example of examples) {
    const button = make("button", undefined, $("examples"));
    button.type = "button"; button.dir = "auto";
    input.label(button, example, $("examples").childElementCount);
    button.addEventListener("click", () => { input.show(example); ask(); });
  }
  return examples;
}
// The first sentence of a description, which says what the model is for, and the others.
function sentences(text) { const end = text.search(/\.\s/); return end < 0 ? [text, ""] : [text.slice(0, end + 1), text.slice(end + 1).trim()]; }
// Shows that something is computed, until `finished` is called; after a moment also in words.
function computing(signal) {
  const box = document.querySelector(".answer"), words = model.loaded ? "Computing ..." : `Loading ${model.name} ... its first answer takes longer.`;
  box.classList.add("waiting"); box.setAttribute("aria-busy", "true");
  const patience = setTimeout(() => { if (!signal.aborted) showStatus(words); }, PATIENCE_MS);
  return function finished() {
    clearTimeout(patience);
    if (signal !== asked?.signal) return;
    box.classList.remove("waiting"); box.removeAttribute("aria-busy");
  };
}
// A model that was not loaded before may have other facts now.
async function refreshModel() {
  if (model.loaded) return;
  ({ models } = await call("/v1/models"));
  model = models.find((one) => one.name === model.name);
}
function insertGap() {
  const box = $("text"), isWhole = box.selectionStart === 0 && box.selectionEnd === box.value.length;  // an example is selected
  box.setRangeText(GAP, isWhole ? box.selectionEnd : box.selectionStart, box.selectionEnd, "end"); box.focus(); ask();
}

// Asks the chosen model; an answer that is no longer wanted is dropped.
async function ask() {
  clearTimeout(timer); timer = null; asked?.abort(); stopWriting();
  document.querySelector(".answer").classList.remove("waiting");
  $("explained").hidden = $("explain").hidden = $("choices").hidden = $("scores").hidden = true; hideLook();
  const input = inputOf(model), answer = answerOf(model), controller = asked = new AbortController();
  const missing = input.isEmpty() ? input.missing : answer.missing?.();
  if (answer.begin) { $("answers").replaceChildren(); hideView(); if (!missing) offerView(); return answer.begin(); }
  if (missing) { $("answers").replaceChildren(); hideView(); return showStatus(missing); }
  const finished = computing(controller.signal);
  try {
    const began = performance.now(), reply = await answer.ask(controller.signal);
    if (controller.signal.aborted) return;
    await refreshModel();
    if (controller.signal.aborted) return;
    $("answers").replaceChildren();
    $("answers").classList.toggle("raw", Boolean(answer.raw)); $("scores").hidden = !answer.raw;
    reply.rows.forEach(showRow);
    answer.after?.(reply.rows);
    showStatus([duration(performance.now() - began), ...reply.notes].join(" \u00b7 "));
    $("explain").hidden = !(input.isText && answer.isOfLabels);
    offerView(reply.look?.words.length ? reply.look : null);
  } catch (error) {
    if (error.name === "AbortError") return;
    $("answers").replaceChildren(); hideView(); showStatus(error.message, true);
  } finally { finished(); }
}

// Where the model looked: computed and drawn only while the visitor has opened it.
let seen = null;
function hideView() { views++; seen = null; $("looked").hidden = $("view").hidden = true; hideLook(); }
function offerView(look = null) {
  if (!look && !model.attention) return hideView();
  seen = { look, text: $("text").value, second: $("text-b").value };
  $("looked").hidden = false;
  showAttention();
}
function showAttention() {
  if (!$("looked").open || !seen) return;
  const shown = seen.look ? showLook(seen.look) : showView(seen.text, seen.second);
  shown.catch((error) => showStatus(error.message, true));
}
async function showView(text, second) {
  const query = new URLSearchParams({ model: model.name, text, ...(inputOf(model).isPair && { text_b: second }) }), view = ++views;
  if (key) query.set("ticket", (await call("/ticket")).ticket);  // a browser sends no key for a frame
  if (view !== views) return;
  $("view").hidden = false;
  $("view").contentWindow.location.replace(`/attention?${query}`);  // no entry in the history for each letter
}
function fitView() {
  const page = $("view").contentDocument;
  $("view").style.height = "0";  // a page is never lower than its frame
  if (page?.documentElement) $("view").style.height = `${page.documentElement.scrollHeight + 4}px`;
}
start().catch((error) => showStatus(error.message, true));
