"use strict";
// A picture drawn with a mouse, a pen or a finger: light on dark or dark on light, as the examples of the model are.
const SKETCH_SIDE = 280, STROKE = 0.09;  // pixels of the longer side, and the width of a line as a share of it
let colours = { ground: "white", ink: "black" }, last = null;

function startDrawing() {
  const board = $("sketch"), pen = board.getContext("2d", { willReadFrequently: true });
  const place = (event) => [event.offsetX * board.width / board.clientWidth, event.offsetY * board.height / board.clientHeight];
  const line = (event) => {
    const to = place(event);
    pen.strokeStyle = colours.ink; pen.lineWidth = STROKE * Math.max(board.width, board.height); pen.lineCap = "round";
    pen.beginPath(); pen.moveTo(...(last || to)); pen.lineTo(...to); pen.stroke();
    last = to;
  };
  board.addEventListener("pointerdown", (event) => { if (event.button === 0) { board.setPointerCapture(event.pointerId); line(event); } });
  board.addEventListener("pointermove", (event) => { if (last) line(event); });
  for (const end of ["pointerup", "pointercancel"]) board.addEventListener(end, () => { if (last) { last = null; showContent(board.toDataURL(), true); ask(); } });
  $("wipe").addEventListener("click", () => { showContent(null); $("image").value = ""; ask(); });
}
function wipe() {
  const board = $("sketch"), pen = board.getContext("2d");
  last = null;
  pen.fillStyle = colours.ground; pen.fillRect(0, 0, board.width, board.height);
}
// Takes the ground and the shape of an example: what is drawn then looks like what the model has learned from.
async function drawLike(url) {
  const chosen = model, picture = new Image(), sample = make("canvas"), pen = sample.getContext("2d");
  picture.src = url;
  try { await picture.decode(); } catch { return; }  // the browser cannot show it; black on white, then
  if (chosen !== model) return;
  sample.width = sample.height = 16;
  pen.fillStyle = "white"; pen.fillRect(0, 0, 16, 16); pen.drawImage(picture, 0, 0, 16, 16);
  const { data } = pen.getImageData(0, 0, 16, 16);
  const brightness = (at) => data[4 * at] + data[4 * at + 1] + data[4 * at + 2];
  const border = [...Array(256).keys()].filter((at) => at < 16 || at >= 240 || at % 16 === 0 || at % 16 === 15).map(brightness).sort((a, b) => a - b);
  colours = border[border.length >> 1] < 3 * 128 ? { ground: "black", ink: "white" } : { ground: "white", ink: "black" };
  const scale = SKETCH_SIDE / Math.max(picture.naturalWidth, picture.naturalHeight), board = $("sketch");
  board.width = Math.max(1, Math.round(scale * picture.naturalWidth)); board.height = Math.max(1, Math.round(scale * picture.naturalHeight));
  wipe();
}
