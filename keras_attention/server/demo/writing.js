"use strict";
// A language model writes on; each of its tokens shows what else was probable there.
let writing = null;

function beginWriting() {
  $("written").replaceChildren(); $("hint").hidden = $("alternatives").hidden = true;
  showStatus("Press Write, and the model continues your text.");
}
function stopWriting() { writing?.abort(); writing = null; $("write").textContent = "Write"; }
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
  showStatus(model.loaded ? "Writing ..." : `Loading ${model.name} ... its first answer takes longer.`);
  const speed = () => `${tokens.length} tokens \u00b7 ${Math.round(1000 * tokens.length / (performance.now() - began))} tokens/s`;
  try {
    for await (const { choices: [choice] } of events("/v1/completions", body, controller.signal)) {
      text.push(...choice.text); finish = choice.finish_reason;
      const { tokens: names, text_offset: starts, token_logprobs: chosen, top_logprobs: tops } = choice.logprobs;
      names.forEach((name, i) => tokens.push({ name, start: starts[i] - [...prompt].length, logprob: chosen[i], top: tops[i] }));
      showTokens(text, tokens);
      showStatus(speed());
    }
    showStatus([speed(), finish === "length" ? "more may follow" : "the text ended"].join(" \u00b7 "));
    $("hint").hidden = false;
  } catch (error) {
    if (error.name !== "AbortError") showStatus(error.message, true); else if (writing === controller && tokens.length) { showStatus(`${speed()} \u00b7 stopped`); $("hint").hidden = false; }
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
