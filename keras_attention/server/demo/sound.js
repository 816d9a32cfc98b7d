"use strict";
// Recordings from the microphone.
let recorder = null;

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
      } catch (error) { showStatus(`The recording cannot be read: ${error.message}`, true); }
    });
    recorder.start(); $("record").textContent = "Stop"; showStatus("Recording ...");
  } catch (error) { recorder = null; showStatus(`No recording: ${error.message}`, true); }
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
