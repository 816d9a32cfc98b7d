"use strict";
// Classifies the rows of a table, which can be downloaded with two more columns.
const ROWS_AT_A_TIME = 16;
let table = null, uploads = 0;

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
  const longest = header.map((_, at) => at).sort((a, b) => length(b) - length(a)).slice(0, inputOf(model).isPair ? 2 : 1).sort((a, b) => a - b);
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
      if (inputOf(chosen).isPair) some.texts_b = seconds.slice(at, at + size);
      const { answers } = await call("/v1/classify", some);
      if (upload !== uploads) return;
      answers.forEach((answer, i) => {
        const labels = [answer.label].flat(), label = labels.join("|"), row = at + i, kind = label || "unsure";
        const hasNoText = isBlank(texts[row]) || (inputOf(chosen).isPair && isBlank(seconds[row]));  // it has no answer
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
