// Values as colors: shares from 0 to the largest, by their root, to show what is faint; signed ones about 0.

const UNSEEN = "#3c4043"; // what a query never sees, -inf
const shades = {};

function readColors(data) {
  for (const [name, text] of Object.entries(data)) {
    const bytes = new Uint8Array(bytesOf(text));
    shades[name] = Array.from({ length: 256 }, (_, i) => `rgb(${bytes[3 * i]},${bytes[3 * i + 1]},${bytes[3 * i + 2]})`);
    shades[name].bytes = bytes;
  }
}

// How a map of values is colored: index(value) from 0 to 255, -1 for what is never seen.
function scaleOf(values, kind) {
  let limit = 0;
  for (const value of values) if (Number.isFinite(value)) limit = Math.max(limit, Math.abs(value));
  const whole = limit || 1;
  const index = kind === "share"
    ? (value) => Math.round(255 * Math.sqrt(value / whole))
    : (value) => (Number.isFinite(value) ? Math.round(127.5 + 127.5 * (value / whole)) : -1);
  const color = (value) => { const i = index(value); return i < 0 ? UNSEEN : shades[kind][i]; };
  return { kind, limit, index, color };
}

const percent = (share) => `${(100 * share).toFixed(share < 0.0995 ? 2 : 1)} %`;
const number = (value) => (Number.isFinite(value) ? value.toFixed(4).replace("-", "−") : "never");
const digits = (value) => (Math.abs(value) >= 100 ? value.toFixed(0) : Math.abs(value) < 1e-3 ? value.toExponential(1) : value.toPrecision(2));
const short = (value) => (value === 0 ? "0" : digits(value).replaceAll("-", "−"));

// What stands below a scale, at its start, its middle and its end.
function ticksOf({ kind, limit }) {
  if (limit === 0) return ["", "0", ""];
  return kind === "share" ? ["0", percent(limit / 4), percent(limit)] : [short(-limit), "0", `+${short(limit)}`];
}
