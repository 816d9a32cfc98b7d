"use strict";
// Texts about files, and where each of their words looks: spotlights on a picture, or rows below a sound.
const LONGEST = 180, DARKNESS = 0.6, GLOW = 0.5, LIGHT = [255, 204, 64];
let looks = 0;

function hideLook() { looks++; $("look").replaceChildren(); $("look").hidden = true; }
async function showLook(best) {
  const number = ++looks, drawn = best.words.length ? await answerOf(model).draw(best) : [];
  if (number !== looks) return;  // of an answer that is shown no longer
  $("look").replaceChildren(...drawn);
  $("look").className = model.answer; $("look").hidden = !drawn.length;
}
// The picture once for each word, dark where the word does not look.
async function spotlights(best) {
  const picture = new Image();
  picture.src = content;
  await picture.decode();
  const scale = LONGEST / Math.max(picture.naturalWidth, picture.naturalHeight);
  return best.words.map((word, at) => {
    const figure = make("figure"), canvas = make("canvas", undefined, figure), pen = canvas.getContext("2d");
    canvas.width = Math.max(1, Math.round(scale * picture.naturalWidth)); canvas.height = Math.max(1, Math.round(scale * picture.naturalHeight));
    pen.imageSmoothingEnabled = scale < 1;
    pen.drawImage(picture, 0, 0, canvas.width, canvas.height);
    const most = Math.max(...best.attention[at].flat());
    pen.imageSmoothingEnabled = true;
    for (const [colour, opacity] of [[[0, 0, 0], (share) => DARKNESS * (1 - share)], [LIGHT, (share) => GLOW * share]]) pen.drawImage(cells(best.attention[at], most, colour, opacity), 0, 0, canvas.width, canvas.height);
    make("figcaption", word, figure);
    return figure;
  });
}
// A small picture of attention weights, one pixel a cell.
function cells(weights, most, colour, opacity) {
  const canvas = make("canvas");
  canvas.height = weights.length; canvas.width = weights[0].length;
  const pixels = new ImageData(canvas.width, canvas.height);
  weights.flat().forEach((weight, at) => pixels.data.set([...colour, 255 * opacity(weight / (most || 1))], 4 * at));
  canvas.getContext("2d").putImageData(pixels, 0, 0);
  return canvas;
}
// The waveform, and below it a row for each word: the darker, the more it looks there.
async function alignment(best) {
  const row = (label, height) => {
    const part = make("div"), name = make("span", label, part), canvas = make("canvas", undefined, part);
    canvas.width = 900; canvas.height = height; name.className = "soft";
    return [part, canvas.getContext("2d")];
  };
  const [sound, pen] = row("", 80), style = getComputedStyle(document.documentElement), mark = style.getPropertyValue("--mark");
  pen.fillStyle = style.getPropertyValue("--soft");
  (await loudness(pen.canvas.width)).forEach((loud, at) => pen.fillRect(at, 40 - 39 * loud, 1, Math.max(1, 78 * loud)));
  const rows = best.words.map((word, at) => {
    const [part, pen] = row(word, 24), weights = best.attention[at], most = Math.max(...weights), width = pen.canvas.width / weights.length;
    pen.fillStyle = mark;
    weights.forEach((weight, cell) => { pen.globalAlpha = weight / most; pen.fillRect(cell * width, 0, width + 1, 24); });
    const place = `“${word}” at ${best.times[at].toFixed(2)} s`;
    part.title = place;
    part.addEventListener("click", () => showStatus(place));  // a phone has no pointer that hovers
    return part;
  });
  return [sound, ...rows];
}
// How loud a sound is at `count` places, from 0 to 1; silence if the browser cannot read it.
async function loudness(count) {
  const most = new Array(count).fill(0);
  try {
    const bytes = Uint8Array.from(atob(content.slice(content.indexOf(",") + 1)), (sign) => sign.charCodeAt(0));
    const sound = await new OfflineAudioContext(1, 1, 8000).decodeAudioData(bytes.buffer);
    sound.getChannelData(0).forEach((sample, at) => { const place = Math.floor(count * at / sound.length); most[place] = Math.max(most[place], Math.abs(sample)); });
  } catch { /* the rows of the words are enough */ }
  const loudest = Math.max(...most) || 1;
  return most.map((one) => one / loudest);
}
