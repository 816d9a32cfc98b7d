"use strict";
// How a user gives an input: one renderer for each widget that a kind of input announces in /v1/models.
//   parts      ids of the elements that are shown
//   isText     whether words of the input can be explained, and tables of inputs classified
//   isEmpty()  and `missing`, what to do then
//   fields()   of a request with the one input
//   show(one)  puts an example of the model into the fields; undefined empties them
//   label(button, one, number)  what stands on the button of an example
const MOST_FIELDS = 1000;  // bytes of a request beside the file
let content = null;  // the picture or sound, as a data: URL

const TEXT = {
  parts: ["first"], isText: true, missing: "Type something.",
  isEmpty: () => isBlank($("text").value),
  fields: () => ({ texts: [$("text").value] }),
  show(one) {
    $("text").value = one?.source || ""; $("text-b").value = one?.source_b || "";
    if (document.activeElement === $("text")) $("text").select();  // what one types takes the place of the example
  },
  label(button, one) { button.textContent = one.source; },
  longest: () => limits.characters,
};
const PAIR = {
  ...TEXT, parts: ["first", "second", "column-second"], isPair: true, secondTitle: "Second text",
  isEmpty: () => isBlank($("text").value) || isBlank($("text-b").value),
  fields: () => ({ texts: [$("text").value], texts_b: [$("text-b").value] }),
  label(button, one) { button.textContent = `${one.source} / ${one.source_b}`; },
};
const SERIES = {
  ...TEXT, parts: ["first", "series"], isText: false, title: "Numbers, separated by commas or blanks",
  fields: () => ({ series: [seriesOf($("text").value)] }),
  show(one) { $("text").value = asNumbers(one?.source || []); $("numbers").value = ""; plot(); },
  label(button, one, number) { button.textContent = `Example ${number}`; },
  longest: () => model.body_bytes,
};
const FILE = {
  isFile: true,
  isEmpty: () => !content,
  fields: () => ({ [`${model.widget}s`]: [content] }),
  show(one) { $("image").value = $("clip").value = ""; showContent(one?.source ? asUrl(one.source) : null); },
  label(button, one, number) { button.textContent = `Example ${number}`; },
  longest: () => limits.characters,
};
const IMAGE = {
  ...FILE, parts: ["picture"], shows: "preview", noun: "picture", type: "image/png", missing: "Choose a picture, or draw one.",
  show(one) { FILE.show(one); if (one?.source) drawLike(asUrl(one.source)); },
  label(button, one, number) { const image = make("img", undefined, button); image.src = asUrl(one.source); image.alt = `Example ${number}`; },
};
const SOUND = { ...FILE, parts: ["sound"], shows: "playback", noun: "sound", type: "audio/flac", missing: "Choose a sound." };
const INPUTS = { text: TEXT, pair: PAIR, series: SERIES, image: IMAGE, sound: SOUND };
function inputOf(one) { return INPUTS[one.widget] || TEXT; }

// A picture or sound of the server, in base64, as an address.
function asUrl(base64) { return `data:${inputOf(model).type};base64,${base64}`; }
function showContent(url, isDrawn = false) {
  content = url;
  if (!isDrawn) wipe();
  for (const { shows } of [IMAGE, SOUND]) {
    const used = url && !isDrawn && inputOf(model).shows === shows;
    $(shows).hidden = !used;
    if (used) $(shows).src = url; else $(shows).removeAttribute("src");
  }
}
function readContent(file) {
  if (!file) return;
  const reader = new FileReader(), chosen = model, name = file.name ?? "The recording";
  reader.addEventListener("load", () => {
    if (chosen !== model) return;
    const isLarge = reader.result.length + MOST_FIELDS > model.body_bytes;
    showContent(isLarge ? null : reader.result); ask();
    if (isLarge) showStatus(`${name} is too large: a ${inputOf(model).noun} has at most ${Math.floor(0.74 * model.body_bytes / 1e6)} MB.`, true);
  });
  reader.addEventListener("error", () => showStatus(`${name} cannot be read.`, true));
  reader.readAsDataURL(file);
}
function startInputs() {
  for (const id of ["image", "clip"]) $(id).addEventListener("change", () => readContent($(id).files[0]));
  $("record").addEventListener("click", record);
  startDrawing();
  $("numbers").addEventListener("change", () => readNumbers($("numbers").files[0]));
  $("text").addEventListener("input", () => { if (inputOf(model) === SERIES) plot(); });
  $("input").addEventListener("dragover", (event) => { if (inputOf(model).isFile) event.preventDefault(); });
  $("input").addEventListener("drop", (event) => { if (inputOf(model).isFile) { event.preventDefault(); readContent(event.dataTransfer.files[0]); } });
}
