"use strict";
// How an answer is asked for and shown: one renderer for each kind of answer that a pipeline announces in /v1/models.
//   ask(signal)     the rows {text, score, share, use} to show, best first, or {group} as a title above others; notes;
//                   `look`, where the words of the answer look
//   parts           ids of the elements that are shown beside those of the input
//   missing()       what the input lacks, or ""
//   begin()         takes the place of `ask`, if the answer does not come while one types
//   after(rows)     after the rows are shown
//   draw(look)      elements that show where each word looks
//   examples(all)   those that differ
//   raw             whether scores are logarithms, which are shown on demand
const GAP = "[MASK]";
const ANSWERS = {
  translations: { ask: askTranslations, raw: true, after(rows) { written = rows[0].text; if (pairOf(model)) showWords($("answers").firstElementChild, written); } },
  labels: { ask: askLabels, parts: ["table"], isOfLabels: true },
  fillings: { ask: askFillings, parts: ["gap"], missing: () => $("text").value.toUpperCase().includes(GAP) ? "" : `Write ${GAP} where a word is missing.` },
  neighbours: { ask: askNeighbours, parts: ["second", "labelled"], examples: bySource, secondTitle: "Texts to compare it with, one on each line", secondRows: 4 },
  continuation: { parts: ["writing"], begin: beginWriting },
  captions: { ask: (signal) => askAboutFile("captions", signal), raw: true, draw: spotlights },
  transcripts: { ask: (signal) => askAboutFile("transcripts", signal), raw: true, draw: alignment },
  fields: { ask: askFields },
};
function answerOf(one) { return ANSWERS[one.answer] || ANSWERS.fields; }

async function askTranslations(signal) {
  const chosen = isDetecting() ? { target_language: $("to").value } : { model: model.name };
  const reply = await call("/v1/translate", { texts: [$("text").value], ...chosen, n_best: mostTranslations(), ...(pairOf(model) && demands()) }, signal), [answer] = reply.answers;
  if (!signal.aborted) adopt(reply.model);
  const rows = answer.translations.map((one) => ({ text: one.text, score: one.score.toFixed(2), share: 0 }));
  const hint = pairOf(model) && answer.source_tokens.length ? "choose a word to change it, and to see what decides it" : "";
  const reason = answer.translations[0].reason, certainty = reason === "wrong language" ? "assumed" : "detected";
  const language = chosen.target_language && `${languageName(reply.source_language)} ${certainty}`;
  return { rows, notes: [language, ...notes(answer, reason), hint].filter(Boolean) };
}
async function askOne(options, signal) { return (await call(`/v1/${model.task}`, { model: model.name, ...inputOf(model).fields(), ...options }, signal)).answers[0]; }
async function askLabels(signal) {
  const answer = await askOne({ top: 10 }, signal), rows = labelRows(answer.probabilities);
  return { rows: rows.length ? rows : [{ text: answer.label.toFixed(3), score: "", share: 0 }], notes: notes(answer) };
}
async function askFillings(signal) {
  const answer = await askOne({ top: 5 }, signal);
  const rows = answer.fillings.map((one) => ({ text: one.words.join(", "), score: percent(one.score), share: one.score, use: one.text }));
  return { rows, notes: ["choose a word to insert it", ...notes(answer)] };
}
// The labels by similarity, then the texts to compare with; either may be empty.
async function askNeighbours(signal) {
  const labels = $("labels").value.split(",").map((one) => one.trim()).filter(Boolean), texts = $("text-b").value.split("\n").filter((line) => !isBlank(line));
  const rows = [], remarks = [], query = $("text").value;
  if (labels.length > 1) {
    const [answer] = (await call("/v1/zero-shot", { model: model.name, texts: [query], labels, top: 10 }, signal)).answers;
    rows.push({ group: "Labels by similarity: probabilities, not calibrated" });
    rows.push(...labelRows(answer.probabilities));
    remarks.push(...notes(answer));
  } else if (labels.length) remarks.push("write at least two labels");
  if (texts.length) {
    const { answers } = await call("/v1/similar", { model: model.name, query, texts, top: 10 }, signal);
    if (rows.length) rows.push({ group: "Similar texts: cosines" });
    rows.push(...answers.map((one) => ({ text: one.text, score: one.score.toFixed(3), share: Math.max(0, one.score) })));
  }
  return { rows, notes: labels.length || texts.length ? remarks : ["write labels, or texts to compare it with"] };
}
async function askAboutFile(field, signal) {
  const texts = (await askOne({ n_best: Math.min(3, model.beam_size), attention: true }, signal))[field];
  const rows = texts.map((one) => ({ text: one.text || "(nothing)", score: one.score.toFixed(2), share: 0 }));
  return { rows, notes: notes({}, texts[0].low_score ? "low score" : null), look: texts[0] };
}
async function askFields(signal) {
  const answer = await askOne({}, signal);
  const rows = Object.entries(answer).map(([name, value]) => ({ text: `${name}: ${[value].flat().join(", ")}`, score: "", share: 0 }));
  return { rows, notes: notes(answer) };
}
// A text is compared with all its second texts.
function bySource(examples) {
  const seconds = new Map();
  for (const one of examples) seconds.set(one.source, [...(seconds.get(one.source) || []), ...(one.source_b ? [one.source_b] : [])]);
  return [...seconds].map(([source, some]) => ({ source, source_b: some.join("\n") }));
}
// Sorted here: JavaScript reads the labels "0" and "1" in the order of the numbers. Of the labels that would show "0.0 %",
// only those among the first three are rows.
function labelRows(probabilities) {
  const sorted = Object.entries(probabilities).sort((a, b) => b[1] - a[1]);
  return sorted.filter(([, value], at) => at < 3 || value >= 0.0005).map(([label, value]) => ({ text: label, score: percent(value), share: value }));
}
function notes(answer, doubt = null) {
  return [answer.truncated && "the text is too long: a part of it was ignored", doubt && `${doubt}: the answer may be wrong`].filter(Boolean);
}
function showRow(row, number, rows) {
  const item = make("li", row.group, $("answers"));
  if (row.group) { item.className = "group soft"; return; }
  if (row.share) { const bar = make("div", undefined, item); bar.className = "bar"; bar.style.width = `${100 * row.share}%`; }
  const what = make(row.use ? "button" : "span", row.text, item);
  what.className = "what"; what.dir = "auto";
  if (row.use) { what.type = "button"; what.addEventListener("click", () => { $("text").value = row.use; $("text").focus(); ask(); }); }
  make("span", row.score, item).className = "score";
  item.classList.toggle("best", number === 0 || Boolean(rows[number - 1].group));
}
