"use strict";
// Series of numbers: as text, from a file, and as a plot.
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
  reader.addEventListener("error", () => showStatus(`${file.name} cannot be read.`, true));
  reader.readAsText(file);
}
// Draws a line for each channel of the series in the box.
function plot() {
  $("plot").replaceChildren();
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
