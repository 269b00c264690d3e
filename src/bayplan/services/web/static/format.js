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
  for (const [size, unit] of [[86400, "d"], [3600, "h"], [60, "m"]]) {
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
  return Number(match[1]) * (binary > 0 ? 1024 ** binary : scale[match[2]] ?? 1);
}

export function shortName(resource) {
  return resource.slice(resource.lastIndexOf("/") + 1);
}
