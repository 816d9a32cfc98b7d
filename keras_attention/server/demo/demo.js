"use strict";
const $ = (id) => document.getElementById(id);
const make = (name, text, parent) => { const e = document.createElement(name); if (text !== undefined) e.textContent = text; if (parent) parent.append(e); return e; };
const DEBOUNCE_MS = 250, GAP = "[MASK]", RETRY_MS = 1000, ROWS_AT_A_TIME = 16;
const TITLES = { translate: "Text to translate", classify: "Text to classify", "fill-mask": `Text with ${GAP} in place of missing words`, encode: "Text", generate: "Beginning of a text" };
const GROUPS = { translate: "Translate", classify: "Classify", encode: "Compare texts", "fill-mask": "Fill gaps", generate: "Write", caption: "Describe pictures", transcribe: "Write what is said" };
const PATIENCE_MS = 300;  // without an answer, before the page says what takes time
const FULL_COLOUR = 0.1;  // as in visualize/pages.py
let models = [], limits, model, key = sessionStorage.getItem("key"), keyed = null, views = 0, content = null, recorder = null, asked = null, writing = null, timer = null, table = null, uploads = 0;

// One call of the API; waits and tries again while the server is busy or not ready yet, or the quota is used up.
async function respond(path, body, signal) {
  for (;;) {
    const headers = { ...(body && { "content-type": "application/json" }), ...(key && { authorization: `Bearer ${key}` }) }, sent = key;
    const answer = await fetch(path, { method: body ? "POST" : "GET", headers, body: body && JSON.stringify(body), signal });
    if (answer.ok) return answer;
    const found = await answer.json();
    const reason = found.error.message ?? found.error;
    if (answer.status === 401) await newKey(sent, reason);
    else if (![429, 503].includes(answer.status)) throw new Error(reason);
    else {
      tell(`Waiting: ${reason}`);
      await new Promise((go) => setTimeout(go, Math.max(RETRY_MS, 1000 * (answer.headers.get("retry-after") || 0))));
    }
    if (signal?.aborted) throw new DOMException("aborted", "AbortError");
  }
}
// Asks the user for a key, unless there is a newer one than the one that was refused; this tab remembers it.
async function newKey(refused, reason) {
  if (key !== refused) return;
  keyed ||= new Promise((go) => {
    $("access").hidden = false; $("key").value = ""; $("key").focus();
    $("access-reason").textContent = refused ? reason : "This server needs a key.";
    $("access").addEventListener("submit", (event) => {
      event.preventDefault();
      key = $("key").value.trim() || null; keyed = null; $("access").hidden = true;
      if (key) sessionStorage.setItem("key", key); else sessionStorage.removeItem("key");
      go();
    }, { once: true });
  });
  await keyed;
}
async function call(path, body, signal) { return (await respond(path, body, signal)).json(); }
// The objects of a stream of server-sent events, up to [DONE].
async function* events(path, body, signal) {
  const reader = (await respond(path, { ...body, stream: true }, signal)).body.pipeThrough(new TextDecoderStream()).getReader();
  for (let waiting = ""; ;) {
    const { done, value } = await reader.read();
    if (done) throw new Error("The connection broke off.");
    const lines = (waiting + value).split("\n\n");
    waiting = lines.pop();
    for (const line of lines) {
      if (line === "data: [DONE]") return;
      const event = JSON.parse(line.replace(/^data: /, ""));
      if (event.error) throw new Error(event.error.message);
      yield event;
    }
  }
}
function tell(text, bad = false) { $("status").textContent = text; $("status").classList.toggle("bad", bad); }

// What the server announces as `widget`: how the input of a model is given.
const isPair = (one) => one.widget === "pair", isImage = (one) => one.widget === "image", isSound = (one) => one.widget === "sound", isSeries = (one) => one.widget === "series", isFile = (one) => isImage(one) || isSound(one);
const MOST_FIELDS = 1000;  // bytes of a request beside the file

async function start() {
  ({ models, translations, limits } = await call("/v1/models"));
  models = bestFirst(models);
  fillLanguages();
  for (const [task, some] of byTask(models)) {
    const group = make("optgroup", undefined, $("model"));
    group.label = GROUPS[task] || task;
    for (const one of some) make("option", one.name, group).value = one.name;
  }
  $("model").addEventListener("change", () => choose());
  for (const id of ["text", "text-b", "labels"]) $(id).addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(ask, DEBOUNCE_MS); });
  $("gap").addEventListener("click", insertGap);
  for (const id of ["image", "clip"]) $(id).addEventListener("change", () => readContent($(id).files[0]));
  $("record").addEventListener("click", record);
  $("numbers").addEventListener("change", () => readNumbers($("numbers").files[0]));
  $("text").addEventListener("input", plot);
  $("input").addEventListener("dragover", (event) => { if (isFile(model)) event.preventDefault(); });
  $("input").addEventListener("drop", (event) => { if (isFile(model)) { event.preventDefault(); readContent(event.dataTransfer.files[0]); } });
  $("file").addEventListener("change", readFile);
  $("classify").addEventListener("click", classifyTable);
  $("explain").addEventListener("click", explain);
  $("write").addEventListener("click", write);
  $("view").addEventListener("load", fitView);
  $("text-b").maxLength = $("labels").maxLength = limits.characters;
  choose(translations.length > 1);
}
// The models by task, those of the usual tasks first; the default of each task is its first.
function byTask(models) {
  const tasks = new Map([...Object.keys(GROUPS), ...models.map((one) => one.task)].map((task) => [task, []]));
  for (const one of models) tasks.get(one.task)[one.default ? "unshift" : "push"](one);
  return [...tasks].filter(([, some]) => some.length);
}
function describe() {
  const languages = pairOf(model) ? "" : model.source_language ? `${model.source_language} to ${model.target_language}` : model.language;
  const [first, rest] = sentences(model.description);
  $("about").textContent = [first, languages].filter(Boolean).join(" · ");
  $("more").textContent = [rest, model.parameters && `${model.parameters.toLocaleString("en")} parameters.`, model.default && `The default for /v1/${model.task}.`].filter(Boolean).join(" ");
  $("details").hidden = !$("more").textContent; $("details").open = false;
}
function choose(detect = false) {
  model = models.find((one) => one.name === $("model").value);
  describe(); showLanguages(detect);
  $("text-title").textContent = isSeries(model) ? "Numbers, separated by commas or blanks" : TITLES[model.task] || "Text";
  $("text").maxLength = isSeries(model) ? model.body_bytes : limits.characters; $("series").hidden = !isSeries(model); $("numbers").value = "";
  $("first").hidden = isFile(model); $("picture").hidden = !isImage(model); $("sound").hidden = !isSound(model);
  $("image-title").textContent = model.task === "caption" ? "Picture to describe" : "Picture to classify"; $("clip-title").textContent = model.task === "transcribe" ? "Recording of speech" : "Sound to classify";
  $("second").hidden = !isPair(model) && model.task !== "encode";
  $("text-b").rows = model.task === "encode" ? 4 : 2;
  $("answers").replaceChildren(); $("view").hidden = true; views++;  // those of another model
  $("second-title").textContent = model.task === "encode" ? "Texts to compare it with, one on each line" : "Second text";
  $("labelled").hidden = model.task !== "encode";
  $("column-second").hidden = !isPair(model);
  preselectColumns();
  $("gap").hidden = model.task !== "fill-mask";
  $("table").hidden = model.task !== "classify" || isFile(model) || isSeries(model);
  $("looked").hidden = !model.attention;
  $("writing").hidden = model.task !== "generate";
  $("examples").replaceChildren();
  const examples = different(model.examples);
  for (const example of examples.filter((one) => one.source)) {
    const button = make("button", isFile(model) ? undefined : isPair(model) ? `${example.source} / ${example.source_b}` : example.source, $("examples"));
    button.type = "button"; button.dir = "auto";
    if (isImage(model)) {
      const image = make("img", undefined, button);
      image.src = asUrl(example.source); image.alt = `Example ${$("examples").childElementCount}`;
      button.addEventListener("click", () => { showContent(asUrl(example.source)); ask(); });
    } else if (isSeries(model)) {
      button.textContent = `Example ${$("examples").childElementCount}`;
      button.addEventListener("click", () => { $("text").value = asNumbers(example.source); plot(); ask(); });
    } else if (isSound(model)) {
      button.textContent = `Example ${$("examples").childElementCount}`;
      button.addEventListener("click", () => { showContent(asUrl(example.source)); ask(); });
    } else button.addEventListener("click", () => { $("text").value = example.source; $("text-b").value = example.source_b || ""; ask(); $("text").focus(); });
  }
  const best = examples[0] || {};
  if (isFile(model)) { $("image").value = $("clip").value = ""; showContent(best.source ? asUrl(best.source) : null); return ask(); }
  $("text").value = isSeries(model) ? asNumbers(best.source || []) : best.source || ""; plot(); $("text-b").value = best.source_b || "";
  ask();
}
// A series of the server as text: its numbers, or one line a step for several channels.
function asNumbers(series) { return series.map((one) => Array.isArray(one) ? one.join(", ") : one).join(Array.isArray(series[0]) ? "\n" : ", "); }
// The numbers of a text: a list, or one list for each line of several numbers.
function seriesOf(text) {
  const lines = text.split("\n").map((line) => line.split(/[,;\s[\]]+/).filter(Boolean).map((field) => {
    if (!Number.isFinite(Number(field))) throw new Error(`“${field.slice(0, 40)}” is not a number.`);
    return Number(field);
  })).filter((line) => line.length);
  return lines.length > 1 && lines.some((line) => line.length > 1) ? lines : lines.flat();
}
// Takes the first series of a file; texts, such as labels, and a row of names are left out.
function readNumbers(file) {
  if (!file) return;
  const reader = new FileReader(), chosen = model;
  reader.addEventListener("load", () => {
    if (chosen !== model) return;
    const fields = (line) => line.split(/[,;\t ]+/).filter((field) => field.trim() && Number.isFinite(Number(field)));
    let rows = reader.result.split(/\r?\n/).map(fields).filter((row) => row.length);
    if (rows.length > 1 && rows[0].length > 2 && rows[0].every((field, at) => Number(field) - Number(rows[0][0]) === at)) rows = rows.slice(1);
    const alone = !Array.isArray(model.examples[0]?.source?.[0]) && rows.some((row) => row.length > 1);
    $("text").value = (alone ? rows.slice(0, 1) : rows).map((row) => row.join(", ")).join("\n"); plot(); ask();
  });
  reader.addEventListener("error", () => tell(`${file.name} cannot be read.`, true));
  reader.readAsText(file);
}
// Draws a line for each channel of the series in the box.
function plot() {
  $("plot").replaceChildren();
  if (!isSeries(model)) return;
  let series;
  try { series = seriesOf($("text").value); } catch { return; }
  const steps = series.map((one) => Array.isArray(one) ? one : [one]), all = steps.flat();
  const low = all.reduce((a, b) => Math.min(a, b), Infinity), high = all.reduce((a, b) => Math.max(a, b), -Infinity);
  for (let channel = 0; channel < (steps[0]?.length || 0) && steps.length > 1; channel++) {
    const line = document.createElementNS("http://www.w3.org/2000/svg", "polyline");
    line.setAttribute("points", steps.map((step, at) => `${100 * at / (steps.length - 1)},${29 - 28 * ((step[channel] ?? low) - low) / ((high - low) || 1)}`).join(" "));
    $("plot").append(line);
  }
}
// A picture or sound of the server, in base64, or one that the user has chosen; null for none.
function asUrl(base64) { return `data:${isSound(model) ? "audio/flac" : "image/png"};base64,${base64}`; }
function showContent(url) {
  content = url;
  for (const [id, used] of [["preview", isImage(model)], ["playback", isSound(model)]]) {
    $(id).hidden = !url || !used;
    if (url && used) $(id).src = url; else $(id).removeAttribute("src");
  }
}
function readContent(file) {
  if (!file) return;
  const reader = new FileReader(), chosen = model;
  reader.addEventListener("load", () => {
    if (chosen !== model) return;
    if (reader.result.length + MOST_FIELDS > model.body_bytes) { showContent(null); ask(); return tell(`${file.name ?? "The recording"} is too large: a ${isSound(model) ? "sound" : "picture"} has at most ${Math.floor(0.74 * model.body_bytes / 1e6)} MB.`, true); }
    showContent(reader.result); ask();
  });
  reader.addEventListener("error", () => tell(`${file.name ?? "The recording"} cannot be read.`, true));
  reader.readAsDataURL(file);
}
// Records from the microphone until the next click; browsers write formats of their own, so it is sent as WAV.
async function record() {
  if (recorder) return recorder.stop();
  try {
    const stream = await navigator.mediaDevices.getUserMedia({ audio: true }), parts = [];
    recorder = new MediaRecorder(stream);
    recorder.addEventListener("dataavailable", (event) => parts.push(event.data));
    recorder.addEventListener("stop", async () => {
      stream.getTracks().forEach((track) => track.stop()); recorder = null; $("record").textContent = "Record";
      try {
        const sound = await new AudioContext().decodeAudioData(await new Blob(parts).arrayBuffer());
        readContent(asWav(sound.getChannelData(0), sound.sampleRate));
      } catch (error) { tell(`The recording cannot be read: ${error.message}`, true); }
    });
    recorder.start(); $("record").textContent = "Stop"; tell("Recording ...");
  } catch (error) { recorder = null; tell(`No recording: ${error.message}`, true); }
}
// Samples from -1 to 1 as a WAV file of 16 bits.
function asWav(samples, rate) {
  const head = new DataView(new ArrayBuffer(44)), size = 2 * samples.length;
  for (const [at, text] of [[0, "RIFF"], [8, "WAVE"], [12, "fmt "], [36, "data"]]) [...text].forEach((sign, i) => head.setUint8(at + i, sign.charCodeAt(0)));
  for (const [at, value] of [[4, 36 + size], [16, 16], [24, rate], [28, 2 * rate], [40, size]]) head.setUint32(at, value, true);
  for (const [at, value] of [[20, 1], [22, 1], [32, 2], [34, 16]]) head.setUint16(at, value, true);
  const whole = Int16Array.from(samples, (one) => Math.max(-1, Math.min(1, one)) * 32767);
  return new Blob([head, whole], { type: "audio/wav" });
}
// The first sentence of a description, which says what the model is for, and the others.
function sentences(text) { const end = text.search(/\.\s/); return end < 0 ? [text, ""] : [text.slice(0, end + 1), text.slice(end + 1).trim()]; }
// Examples that can be told apart. An encoder compares a text with all its second texts.
function different(examples) {
  if (model.task !== "encode") return examples;
  const seconds = new Map();
  for (const one of examples) seconds.set(one.source, [...(seconds.get(one.source) || []), ...(one.source_b ? [one.source_b] : [])]);
  return [...seconds].map(([source, some]) => ({ source, source_b: some.join("\n") }));
}
// Shows that something is computed, until `finished` is called; after a moment also in words.
function computing(signal) {
  const box = document.querySelector(".answer"), words = model.loaded ? "Computing ..." : `Loading ${model.name} ... its first answer takes longer.`;
  box.classList.add("waiting"); box.setAttribute("aria-busy", "true");
  const patience = setTimeout(() => { if (!signal.aborted) tell(words); }, PATIENCE_MS);
  return function finished() {
    clearTimeout(patience);
    if (signal !== asked?.signal) return;
    box.classList.remove("waiting"); box.removeAttribute("aria-busy");
  };
}
// A model that was not loaded before may have other facts now.
async function learn() {
  if (model.loaded) return;
  ({ models } = await call("/v1/models"));
  model = models.find((one) => one.name === model.name);
  $("looked").hidden = !model.attention;
}
function insertGap() {
  const box = $("text");
  box.setRangeText(GAP, box.selectionStart, box.selectionEnd, "end"); box.focus(); ask();
}

// Asks the chosen model; an answer that is no longer wanted is dropped.
async function ask() {
  clearTimeout(timer); timer = null; asked?.abort(); writing?.abort(); writing = null;
  $("write").textContent = "Write"; document.querySelector(".answer").classList.remove("waiting");
  $("explained").hidden = $("explain").hidden = $("choices").hidden = true; hideLook();
  const text = $("text").value, second = $("text-b").value, controller = asked = new AbortController();
  if (model.task === "generate") {
    $("answers").replaceChildren(); $("written").replaceChildren(); $("hint").hidden = $("alternatives").hidden = true; $("view").hidden = true;
    if (model.attention && !isBlank(text)) showView(text, second);
    return tell("Press Write, and the model continues your text.");
  }
  const empty = isFile(model) ? !content : isBlank(text) || (isPair(model) && isBlank(second));
  if (empty || (model.task === "fill-mask" && !text.toUpperCase().includes(GAP))) {
    $("answers").replaceChildren(); $("view").hidden = true;
    return tell(empty ? (isFile(model) ? `Choose a ${isSound(model) ? "sound" : "picture"}.` : "Type something.") : `Write ${GAP} where a word is missing.`);
  }
  const finished = computing(controller.signal);
  try {
    const began = performance.now(), found = await answerTo(text, second, controller.signal);
    if (controller.signal.aborted) return;
    await learn();
    if (controller.signal.aborted) return;
    $("answers").replaceChildren();
    found.rows.forEach(showRow);
    if (pairOf(model)) showWords($("answers").firstElementChild, found.rows[0].text);
    tell([duration(performance.now() - began), ...found.notes].join(" · "));
    if (found.look) await showLook(found.look);
    $("explain").hidden = model.task !== "classify" || isFile(model) || isSeries(model);
    if (model.attention) showView(text, second);
  } catch (error) {
    if (error.name === "AbortError") return;
    $("answers").replaceChildren(); $("view").hidden = true; tell(error.message, true);
  } finally { finished(); }
}
// The rows {text, score, share, use} to show, best first, or {group} as a title above others, and notes.
async function answerTo(text, second, signal) {
  const body = { model: model.name, texts: [text] };
  if (model.task === "translate") {
    const chosen = isDetecting() ? { texts: [text], target_language: $("to").value } : body;
    const found = await call("/v1/translate", { ...chosen, n_best: mostTranslations() }, signal), [answer] = found.answers;
    if (!signal.aborted) adopt(found.model);
    const rows = answer.translations.map((one) => ({ text: one.text, score: one.score.toFixed(2), share: 0 }));
    const hint = pairOf(model) && answer.source_tokens.length ? "click a word to choose another" : "";
    const detected = chosen.target_language && `${languageName(found.source_language)} detected`;
    return { rows, notes: [detected, ...notes(answer, answer.translations[0].reason), hint].filter(Boolean) };
  }
  if (model.task === "classify") {
    const given = isSeries(model) ? { series: [seriesOf(text)] } : isFile(model) ? { [`${model.widget}s`]: [content] } : { texts: [text], ...(isPair(model) && { texts_b: [second] }) };
    const [answer] = (await call("/v1/classify", { model: model.name, ...given, top: 10 }, signal)).answers;
    const rows = labelRows(answer.probabilities);
    return { rows: rows.length ? rows : [{ text: answer.label.toFixed(3), score: "", share: 0 }], notes: notes(answer) };
  }
  if (model.task === "fill-mask") {
    const [answer] = (await call("/v1/fill-mask", { ...body, top: 5 }, signal)).answers;
    const rows = answer.fillings.map((one) => ({ text: one.words.join(", "), score: percent(one.score), share: one.score, use: one.text }));
    return { rows, notes: ["click a word to insert it", ...notes(answer)] };
  }
  if (model.task === "encode") return nearest(body, text, second, signal);
  if (model.task in WRITTEN) return answerAboutFile(signal);
  const [answer] = (await call(`/v1/${model.task}`, body, signal)).answers;
  const rows = Object.entries(answer).map(([name, value]) => ({ text: `${name}: ${[value].flat().join(", ")}`, score: "", share: 0 }));
  return { rows, notes: notes(answer) };
}
function duration(ms) { return ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`; }
// As `is_blank` of the server.
function isBlank(text) { return /^[\s\p{Cc}\p{Default_Ignorable_Code_Point}\u2800]*$/u.test(text); }
function percent(value) { return `${(100 * value).toFixed(1)} %`; }
// Sorted here: JavaScript reads the labels "0" and "1" in the order of the numbers.
function labelRows(probabilities) {
  return Object.entries(probabilities).sort((a, b) => b[1] - a[1]).map(([label, value]) => ({ text: label, score: percent(value), share: value }));
}
// The labels by similarity, then the texts to compare with; either may be empty.
async function nearest(body, text, second, signal) {
  const labels = $("labels").value.split(",").map((one) => one.trim()).filter(Boolean), texts = second.split("\n").filter((line) => !isBlank(line));
  const rows = [], told = [];
  if (labels.length > 1) {
    const [answer] = (await call("/v1/zero-shot", { ...body, labels, top: 10 }, signal)).answers;
    rows.push({ group: "Labels by similarity: probabilities, not calibrated" });
    rows.push(...labelRows(answer.probabilities));
    told.push(...notes(answer));
  } else if (labels.length) told.push("write at least two labels");
  if (texts.length) {
    const { answers } = await call("/v1/similar", { model: model.name, query: text, texts, top: 10 }, signal);
    if (rows.length) rows.push({ group: "Similar texts: cosines" });
    rows.push(...answers.map((one) => ({ text: one.text, score: one.score.toFixed(3), share: Math.max(0, one.score) })));
  }
  return { rows, notes: labels.length || texts.length ? told : ["write labels, or texts to compare it with"] };
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
// Colours each word by how much the probability of the best label falls without it.
async function explain() {
  const text = $("text").value, second = $("text-b").value, controller = asked;
  $("explain").disabled = true;
  const before = $("status").textContent, finished = computing(controller.signal);
  try {
    const found = await call("/v1/explain", { model: model.name, text, ...(isPair(model) && { text_b: second }) }, controller.signal);
    if (controller.signal.aborted) return;
    const largest = Math.max(0, ...found.words.map((word) => Math.abs(word.effect)));
    const full = found.label === null ? largest : Math.max(largest, FULL_COLOUR);
    colour($("words"), found.text, found.words.filter((word) => !word.second), full);
    colour($("words-b"), found.text_b || "", found.words.filter((word) => word.second), full);
    $("explained-label").textContent = found.label ?? "the number";
    $("explained").hidden = false; $("explain").hidden = true; tell(before);
  } catch (error) {
    if (error.name !== "AbortError") tell(error.message, true);
  } finally { $("explain").disabled = false; finished(); }
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
    one.title = `${word.effect > 0 ? "+" : "-"}${Math.abs(word.effect).toFixed(4)}`;
    done = word.end;
  }
  place.append(letters.slice(done).join(""));
}
// Lets the model write on; the same button stops it.
async function write() {
  if (writing) return writing.abort();
  if (timer) ask();  // what was just typed; later it would end this writing
  const prompt = $("text").value, controller = writing = new AbortController(), began = performance.now();
  const body = { model: model.name, prompt, max_tokens: Number($("length").value) || 60, temperature: Number($("temperature").value), logprobs: 5 };
  const text = [], tokens = [];  // characters, as places are counted in them; tokens with their places and alternatives
  let finish = null;
  $("write").textContent = "Stop"; $("alternatives").hidden = true; $("hint").hidden = true; $("written").replaceChildren();
  make("span", prompt, $("written")).className = "soft";
  tell(model.loaded ? "Writing ..." : `Loading ${model.name} ... its first answer takes longer.`);
  const speed = () => `${tokens.length} tokens \u00b7 ${Math.round(1000 * tokens.length / (performance.now() - began))} tokens/s`;
  try {
    for await (const { choices: [choice] } of events("/v1/completions", body, controller.signal)) {
      text.push(...choice.text); finish = choice.finish_reason;
      const { tokens: names, text_offset: starts, token_logprobs: chosen, top_logprobs: tops } = choice.logprobs;
      names.forEach((name, i) => tokens.push({ name, start: starts[i] - [...prompt].length, logprob: chosen[i], top: tops[i] }));
      showTokens(text, tokens);
      tell(speed());
    }
    tell([speed(), finish === "length" ? "more may follow" : "the text ended"].join(" \u00b7 "));
    $("hint").hidden = false;
  } catch (error) {
    if (error.name !== "AbortError") tell(error.message, true); else if (writing === controller && tokens.length) { tell(`${speed()} \u00b7 stopped`); $("hint").hidden = false; }
  } finally { if (writing === controller) { writing = null; $("write").textContent = "Write"; } }
}
// Adds what is new; of the last token there may have been more characters since.
function showTokens(text, tokens) {
  const place = $("written");
  tokens.forEach((token, i) => {
    const shown = text.slice(token.start, tokens[i + 1]?.start).join("");
    if (token.element ? token.element.textContent === shown : !shown) return;
    token.element ||= clickable(make("span", undefined, place), () => showAlternatives(token));
    token.element.textContent = shown;
  });
}
function clickable(one, act) {
  one.className = "token"; one.tabIndex = 0; one.setAttribute("role", "button");
  one.addEventListener("click", act);
  one.addEventListener("keydown", (event) => { if (event.key === "Enter") act(); });
  return one;
}
function showAlternatives(token) {
  const place = $("alternatives"), rows = Object.entries(token.top).sort((a, b) => b[1] - a[1]);
  if (!(token.name in token.top)) rows.push([token.name, token.logprob]);
  for (const one of document.querySelectorAll(".token.chosen")) one.classList.remove("chosen");
  token.element.classList.add("chosen");
  place.replaceChildren(); place.hidden = false;
  const list = make("ol", undefined, place);
  for (const [name, logprob] of rows) {
    const item = make("li", undefined, list), share = Math.exp(logprob), bar = make("div", undefined, item);
    bar.className = "bar"; bar.style.width = `${100 * share}%`;
    make("span", name.replaceAll("\n", "\u23ce").replaceAll(" ", "\u2423"), item).className = "what";
    make("span", `${(100 * share).toFixed(1)} %`, item).className = "score";
    item.classList.toggle("chosen", name === token.name);
  }
}
async function showView(text, second) {
  const query = new URLSearchParams({ model: model.name, text, ...(isPair(model) && { text_b: second }) }), view = ++views;
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

// Rows of a table with quotes as in RFC 4180, but with TABs quotes are ordinary text, as on the command line; the
// delimiter is what the header has most of.
function parseTable(content) {
  const header = content.split(/\r?\n/, 1)[0], delimiter = [",", "\t", ";"].reduce((best, one) => header.split(one).length > header.split(best).length ? one : best);
  const rows = [[]];
  let field = "", quoted = false, i = 0;
  for (; i < content.length; i++) {
    const c = content[i];
    if (quoted) {
      if (c !== '"') field += c; else if (content[i + 1] === '"') { field += c; i++; } else quoted = false;
    } else if (c === '"' && field === "" && delimiter !== "\t") quoted = true;
    else if (c === delimiter) { rows.at(-1).push(field); field = ""; }
    else if (c === "\n") { rows.at(-1).push(field.replace(/\r$/, "")); rows.push([]); field = ""; }
    else field += c;
  }
  if (quoted) throw new Error("A quote never closes.");
  if (field || rows.at(-1).length) rows.at(-1).push(field); else rows.pop();
  const wrong = rows.findIndex((row) => row.length !== rows[0].length);
  if (wrong >= 0) throw new Error(`Row ${wrong + 1} has ${rows[wrong].length} fields, the header ${rows[0].length}.`);
  if (rows.length < 2) throw new Error("The file has no row below its header.");
  return { delimiter, rows };
}
// The text of a file; a file in another encoding is refused, because the download would have wrong characters.
async function textOf(file) {
  try { return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(await file.arrayBuffer()); }
  catch { throw new Error("The file is not UTF-8 text. Save it as UTF-8."); }
}
async function readFile() {
  uploads++; table = null; $("classify").disabled = $("download").hidden = true; $("table-status").textContent = "";
  const [file] = $("file").files;
  try {
    if (file) {
      const content = await textOf(file), mark = content.startsWith("\uFEFF") ? "\uFEFF" : "";  // which spreadsheets need
      table = { name: file.name, mark, ...parseTable(content.slice(mark.length)) };
    }
  } catch (error) { $("table-status").textContent = error.message; }
  for (const id of ["column", "column-b"]) {
    $(id).replaceChildren(); $(id).disabled = !table;
    table?.rows[0].forEach((name, at) => { make("option", name, $(id)).value = at; });
  }
  preselectColumns();
  $("classify").disabled = !table;
}
// Chooses the columns with the longest texts; of a pair in their order.
function preselectColumns() {
  if (!table) return;
  const [header, ...rows] = table.rows, length = (at) => rows.reduce((sum, row) => sum + row[at].length, 0);
  const longest = header.map((_, at) => at).sort((a, b) => length(b) - length(a)).slice(0, isPair(model) ? 2 : 1).sort((a, b) => a - b);
  $("column").value = longest[0]; $("column-b").value = longest.at(-1);
}
// A spreadsheet takes a cell that begins with one of these signs for a formula, unless it is a number.
const FORMULA = /^\s*[=+\-@\uff1d\uff0b\uff0d\uff20]/, NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;
async function classifyTable() {
  const upload = ++uploads, [header, ...rows] = table.rows, { delimiter, name, mark } = table, chosen = model, size = Math.min(ROWS_AT_A_TIME, limits.items);
  const texts = rows.map((row) => row[$("column").value]), seconds = rows.map((row) => row[$("column-b").value]);
  const added = ["label", "probability"], prefix = added.some((one) => header.includes(one)) ? "predicted_" : "";
  const written = [[...header, ...added.map((one) => prefix + one)]], counts = Object.create(null);
  let shielded = 0;
  $("download").hidden = true; $("classify").disabled = true;
  $("table-status").textContent = `0 of ${rows.length} rows`;
  try {
    for (let at = 0; at < rows.length; at += size) {
      const some = { model: chosen.name, texts: texts.slice(at, at + size) };
      if (isPair(chosen)) some.texts_b = seconds.slice(at, at + size);
      const { answers } = await call("/v1/classify", some);
      if (upload !== uploads) return;
      answers.forEach((answer, i) => {
        const labels = [answer.label].flat(), label = labels.join("|"), row = at + i, kind = label || "unsure";
        const hasNoText = isBlank(texts[row]) || (isPair(chosen) && isBlank(seconds[row]));  // it has no answer
        if (hasNoText) counts["without text"] = (counts["without text"] || 0) + 1; else counts[kind] = (counts[kind] || 0) + 1;
        const isFormula = FORMULA.test(label) && !NUMBER.test(label);
        shielded += isFormula;
        written.push([...rows[row], isFormula ? `'${label}` : label, labels.map((one) => answer.probabilities[one] ?? "").join("|")]);
      });
      $("table-status").textContent = `${written.length - 1} of ${rows.length} rows`;
    }
  } catch (error) { $("table-status").textContent = `Stopped after row ${written.length}: ${error.message}`; return; }
  finally { if (upload === uploads) $("classify").disabled = false; }
  const quote = (value) => delimiter !== "\t" && (/["\r\n]/.test(value) || String(value).includes(delimiter)) ? `"${String(value).replaceAll('"', '""')}"` : value;
  const content = mark + written.map((row) => row.map(quote).join(delimiter) + "\n").join("");
  const numeric = chosen.kind === "regression";
  $("table-status").textContent = `${rows.length} rows` + (numeric ? "" : `: ${Object.entries(counts).map(([label, count]) => `${count} ${label}`).join(", ")}`) + (shielded ? `. Labels that a spreadsheet would take for formulas have a ' before them: ${shielded}` : "");
  URL.revokeObjectURL($("download").href);
  $("download").href = URL.createObjectURL(new Blob([content], { type: "text/csv" }));
  $("download").download = name.replace(/(\.\w+)?$/, "-classified$1");
  $("download").textContent = `Download ${$("download").download}`; $("download").hidden = false; $("download").focus();
}
start().catch((error) => tell(error.message, true));
