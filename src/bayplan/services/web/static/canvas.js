// Draws the map on a canvas and says what is under the pointer. The chosen node is drawn over a copy of the picture.

// Pixels between the lines of a closed node.
const HATCH = 6;

export function drawMap(canvas, map, plan, look, marks) {
  const scale = window.devicePixelRatio || 1;
  canvas.style.width = `${plan.width}px`;
  canvas.style.height = `${plan.height}px`;
  canvas.width = Math.round(plan.width * scale);
  canvas.height = Math.round(plan.height * scale);
  const pen = canvas.getContext("2d");
  pen.scale(scale, scale);
  const colours = palette();
  plan.boxes.forEach((each) => drawBox(pen, plan, each, look, colours, marks));
  drawNodes(pen, map, plan, look, colours, marks);
}

// Outlines one node on the picture that `drawMap` made.
export function choose(canvas, plan, at) {
  const scale = window.devicePixelRatio || 1;
  let picture = pictures.get(canvas);
  if (picture?.plan !== plan) {
    const copy = new OffscreenCanvas(canvas.width, canvas.height);
    copy.getContext("2d").drawImage(canvas, 0, 0);
    pictures.set(canvas, (picture = { plan, copy }));
  }
  const pen = canvas.getContext("2d");
  pen.setTransform(1, 0, 0, 1, 0, 0);
  pen.drawImage(picture.copy, 0, 0);
  pen.scale(scale, scale);
  outline(pen, plan, at, palette()("new"));
}

const pictures = new WeakMap();

function outline(pen, { cell, wide, cells }, at, colour) {
  pen.strokeStyle = colour;
  pen.lineWidth = cell >= 16 ? 2.5 : 1.5;
  rounded(pen, cells[at * 2] - 0.5, cells[at * 2 + 1] - 0.5, wide + 1, cell + 1, 3);
  pen.stroke();
  pen.lineWidth = 1;
}

function drawBox(pen, plan, { domain, x, y, width, height, head }, look, colours, marks) {
  pen.globalAlpha = marks.dimmed(domain.first) ? 0.35 : 1;
  pen.fillStyle = domain.depth % 2 ? colours("paper") : colours("panel");
  pen.strokeStyle = domain.depth ? colours("line") : colours("frame");
  rounded(pen, x + 0.5, y + 0.5, width - 1, height - 1, head < 10 ? 2 : 5);
  pen.fill();
  pen.stroke();
  pen.globalAlpha = 1;
  if (head >= 10) label(pen, plan, { domain, x, y, width, head }, look, colours);
}

function label(pen, plan, { domain, x, y, width, head }, look, colours) {
  const size = head < 20 ? 9 : 12;
  const middle = y + head / 2 + 1;
  pen.textBaseline = "middle";
  pen.font = `${domain.depth ? 500 : 600} ${size}px system-ui, sans-serif`;
  const sum = head < 20 && domain.depth ? "" : look.brief(domain.first, domain.end);
  const name = clipped(pen, domain.name, width - 2 * plan.pad);
  pen.fillStyle = colours("ink");
  pen.textAlign = "left";
  pen.fillText(name, x + plan.pad, middle);
  const taken = pen.measureText(name).width;
  pen.font = `${size - 1}px system-ui, sans-serif`;
  if (sum && taken + pen.measureText(sum).width + 3 * plan.pad < width) {
    pen.fillStyle = colours("dim");
    pen.textAlign = "right";
    pen.fillText(sum, x + width - plan.pad, middle);
  }
}

function drawNodes(pen, map, plan, look, colours, marks) {
  const { cell, wide, cells, names } = plan;
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  const numbers = `600 ${Math.min(12, Math.round(cell * 0.42))}px system-ui, sans-serif`;
  for (let at = 0; at < map.nodes.length; at += 1) {
    const [x, y] = [cells[at * 2], cells[at * 2 + 1]];
    if (x < 0) continue;
    const shade = look.shade(at);
    pen.globalAlpha = marks.dimmed(at) ? 0.3 : 1;
    const fill = marks.fill?.(at) ?? shade ?? "track";
    pen.fillStyle = colours(fill);
    if (cell >= 10) {
      rounded(pen, x, y, wide, cell, 3);
      pen.fill();
    } else pen.fillRect(x, y, wide, cell);
    if (map.closed[at]) hatch(pen, x, y, wide, cell, colours("frame"));
    if (cell >= 16) {
      pen.fillStyle = fill === shade ? colours(`${shade}-ink`) : colours(fill === "bad" ? "paper" : "ink");
      pen.font = numbers;
      pen.fillText(look.number(at), x + wide / 2, y + cell * (names ? 0.7 : 0.5) + 0.5);
      if (names) {
        pen.font = "11px system-ui, sans-serif";
        pen.fillText(clippedInside(pen, names.get(at), wide - 6), x + wide / 2, y + cell * 0.32);
      }
    }
    const mark = marks.outlined?.(at);
    if (mark && cell >= 4) {
      pen.globalAlpha = 1;
      outline(pen, plan, at, colours(mark));
    }
  }
  pen.globalAlpha = 1;
}

export const hatched = ({ cell }) => cell >= 8;

// Closed nodes differ by shape, not only by colour; a cell without room for lines is filled.
function hatch(pen, x, y, wide, cell, colour) {
  pen.fillStyle = pen.strokeStyle = colour;
  if (!hatched({ cell })) return pen.fillRect(x, y, wide, cell);
  pen.save();
  pen.globalAlpha *= 0.6;
  pen.beginPath();
  pen.rect(x, y, wide, cell);
  pen.clip();
  pen.beginPath();
  for (let left = 4 - cell; left < wide; left += HATCH) {
    pen.moveTo(x + left, y);
    pen.lineTo(x + left + cell, y + cell);
  }
  pen.stroke();
  pen.restore();
}

function rounded(pen, x, y, width, height, radius) {
  pen.beginPath();
  pen.roundRect(x, y, width, height, radius);
}

function clipped(pen, text, width) {
  if (pen.measureText(text).width <= width) return text;
  let kept = text;
  while (kept.length > 1 && pen.measureText(`${kept}…`).width > width) kept = kept.slice(0, -1);
  return `${kept}…`;
}

// Names of nodes differ in their ends more often than inside.
function clippedInside(pen, text, width) {
  let [shown, kept] = [text, text.length];
  while (kept > 2 && pen.measureText(shown).width > width) {
    kept -= 1;
    shown = `${text.slice(0, Math.ceil(kept / 2))}…${text.slice(-Math.floor(kept / 2))}`;
  }
  return shown;
}

function palette() {
  const style = getComputedStyle(document.documentElement);
  const known = new Map();
  return (name) => {
    if (!known.has(name)) known.set(name, style.getPropertyValue(`--${name}`).trim());
    return known.get(name);
  };
}

// The node at a point, else the innermost domain whose box is there.
export function hit(plan, x, y) {
  let domain = null;
  for (const each of plan.boxes) {
    if (x >= each.x && y >= each.y && x <= each.x + each.width && y <= each.y + each.height) domain = each.domain;
  }
  const [first, end] = domain ? [domain.first, domain.end] : [0, plan.cells.length / 2];
  for (let at = first; at < end; at += 1) {
    const [left, top] = [plan.cells[at * 2], plan.cells[at * 2 + 1]];
    if (left >= 0 && x >= left && y >= top && x < left + plan.wide + plan.gap && y < top + plan.cell + plan.gap)
      return { node: at, domain };
  }
  return { node: -1, domain };
}

// The nearest node in a direction, for the arrow keys.
export function neighbour(plan, from, [dx, dy]) {
  const [x, y] = [plan.cells[from * 2], plan.cells[from * 2 + 1]];
  let [best, least] = [from, Infinity];
  for (let at = 0; at < plan.cells.length / 2; at += 1) {
    const [right, down] = [plan.cells[at * 2] - x, plan.cells[at * 2 + 1] - y];
    const along = right * dx + down * dy;
    if (plan.cells[at * 2] < 0 || along <= 0) continue;
    const cost = along + 4 * Math.abs(right * dy + down * dx);
    if (cost < least) [best, least] = [at, cost];
  }
  return best;
}
