// Amounts and times for reading.

const BINARY = ["", "Ki", "Mi", "Gi", "Ti", "Pi"];

export function amount(value, unit) {
  if (unit === "milli") return value > 0 && value < 1000 ? `${value}m` : trimmed(value / 1000);
  if (unit !== "bytes") return String(value);
  let power = 0;
  while (power + 1 < BINARY.length && value >= 1024 ** (power + 1)) power += 1;
  return trimmed(value / 1024 ** power) + BINARY[power];
}

// What fits into a small box: whole cores, Gi without the unit.
export function brief(value, unit) {
  if (unit === "milli") return String(Math.floor(value / 1000));
  if (unit === "bytes") return String(Math.floor(value / 2 ** 30));
  return String(value);
}

function trimmed(number) {
  return String(Math.floor(number * 10) / 10);
}

export function age(seconds) {
  if (seconds < 0) return "?";
  for (const [size, unit] of [
    [86400, "d"],
    [3600, "h"],
    [60, "m"],
  ]) {
    if (seconds >= size) return `${Math.floor(seconds / size)}${unit}`;
  }
  return `${seconds}s`;
}

export function count(number, noun) {
  return number === 1 ? `1 ${noun}` : `${number.toLocaleString("en")} ${noun}s`;
}

// A Kubernetes quantity as a number, for the length of a bar.
export function quantity(text) {
  const match = /^(-?[0-9.]+)([a-zA-Z]*)$/.exec(text ?? "");
  if (!match) return 0;
  const scale = { "": 1, m: 1e-3, k: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15 };
  const binary = BINARY.indexOf(match[2]);
  return Number(match[1]) * (binary > 0 ? 1024 ** binary : (scale[match[2]] ?? 1));
}

// A quantity for reading: 21900m is 21.9, 100224Mi is 97.8Gi. No node has a million of anything but bytes.
export function readable(text) {
  const value = quantity(text);
  const bytes = value >= 1e6 || /[kMGTPi]$/.test(text);
  return bytes ? amount(value, "bytes") : amount(Math.round(1000 * value), "milli");
}

export function amounts(total) {
  return Object.entries(total)
    .map(([name, amount]) => `${shortName(name)} ${amount}`)
    .join(" · ");
}

export function shortName(resource) {
  return resource.slice(resource.lastIndexOf("/") + 1);
}

// A moment of simulated time: 45s, 2m10s, 1h05m.
export function time(seconds) {
  if (seconds < 10) return `${Math.round(seconds * 10) / 10}s`;
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole}s`;
  const [minutes, rest] = [Math.floor(whole / 60), whole % 60];
  if (minutes < 60) return rest ? `${minutes}m${String(rest).padStart(2, "0")}s` : `${minutes}m`;
  return minutes % 60 ? `${Math.floor(minutes / 60)}h${String(minutes % 60).padStart(2, "0")}m` : `${minutes / 60}h`;
}
