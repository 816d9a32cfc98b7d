"use strict";
// Calls of the server, and small helpers that all scripts share.
const $ = (id) => document.getElementById(id);
const make = (name, text, parent) => { const e = document.createElement(name); if (text !== undefined) e.textContent = text; if (parent) parent.append(e); return e; };
const RETRY_MS = 1000;
let key = sessionStorage.getItem("key"), keyed = null;

// One call of the API; waits and tries again while the server is busy or not ready yet, or the quota is used up.
async function respond(path, body, signal) {
  for (;;) {
    const headers = { ...(body && { "content-type": "application/json" }), ...(key && { authorization: `Bearer ${key}` }) }, sent = key;
    const answer = await fetch(path, { method: body ? "POST" : "GET", headers, body: body && JSON.stringify(body), signal });
    if (answer.ok) return answer;
    const reply = await answer.json();
    const reason = reply.error.message ?? reply.error;
    if (answer.status === 401) await newKey(sent, reason);
    else if (![429, 503].includes(answer.status)) throw new Error(reason);
    else {
      showStatus(`${reason.replace(/(: try again later)?\.?$/, "")}: asking again by itself ...`);
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
function showStatus(text, bad = false) { $("status").textContent = text; $("status").classList.toggle("bad", bad); }
function duration(ms) { return ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`; }
// As `is_blank` of the server.
function isBlank(text) { return /^[\s\p{Cc}\p{Default_Ignorable_Code_Point}\u2800]*$/u.test(text); }
function percent(value) { return `${(100 * value).toFixed(1)} %`; }
