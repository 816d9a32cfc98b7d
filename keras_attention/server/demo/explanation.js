"use strict";
// Which words of a text decide about its label.
const FULL_COLOUR = 0.1;  // as in visualize/pages.py

// Colours each word by how much the probability of the best label falls without it.
async function explain() {
  const text = $("text").value, second = $("text-b").value, controller = asked;
  $("explain").disabled = true;
  const before = $("status").textContent, finished = computing(controller.signal);
  try {
    const found = await call("/v1/explain", { model: model.name, text, ...(inputOf(model).isPair && { text_b: second }) }, controller.signal);
    if (controller.signal.aborted) return;
    const largest = Math.max(0, ...found.words.map((word) => Math.abs(word.effect)));
    const full = found.label === null ? largest : Math.max(largest, FULL_COLOUR);
    colour($("words"), found.text, found.words.filter((word) => !word.second), full);
    colour($("words-b"), found.text_b || "", found.words.filter((word) => word.second), full);
    $("explained-label").textContent = found.label ?? "the number";
    $("effect").textContent = ""; $("explained").hidden = false; $("explain").hidden = true; tell(before);
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
    const number = `${word.effect > 0 ? "+" : "-"}${Math.abs(word.effect).toFixed(4)}`;
    one.title = number; one.tabIndex = 0; one.setAttribute("role", "button");
    const showNumber = () => { $("effect").textContent = `${word.text}: ${number}`; };  // a phone has no pointer that hovers
    one.addEventListener("click", showNumber); one.addEventListener("focus", showNumber);
    done = word.end;
  }
  place.append(letters.slice(done).join(""));
}
