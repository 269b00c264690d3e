// Boxes in boxes: where every domain and node of the map goes. Numbers in, rectangles out; nothing is drawn here.

const CELLS = [52, 46, 40, 34, 28, 23, 19, 16, 13, 10, 8, 6, 4, 3, 2];
// Up to so many nodes have their names in their cells.
const MOST_NAMED = 50;
const [NAMED_CELL, NARROWEST, WIDEST] = [46, 64, 190];

// The largest cells with which the map is at most `height` high, with names where possible; the smallest if none is.
export function layout(map, scope, width, height) {
  const shapes = CELLS.map((cell) => ({ cell, wide: cell, names: null }));
  if (scope.end - scope.first <= MOST_NAMED) shapes.unshift(named(map, scope));
  for (const shape of shapes) {
    const found = arrange(map, scope, width, shape);
    // Names are worth scrolling.
    if (found.height <= (shape.names ? 1.5 : 1) * height || shape.cell === CELLS.at(-1)) return found;
  }
}

// Cells for the nodes' names, without their domain where that tells none apart.
function named(map, scope) {
  const full = map.nodes.slice(scope.first, scope.end);
  const short = full.map((name) => name.split(".")[0]);
  const shown = new Set(short).size === full.length ? short : full;
  const longest = Math.max(...shown.map((name) => name.length));
  const names = new Map(shown.map((name, at) => [scope.first + at, name]));
  return { cell: NAMED_CELL, wide: Math.min(WIDEST, Math.max(NARROWEST, 7 * longest + 20)), names };
}

function arrange(map, scope, width, { cell, wide, names }) {
  const tight = cell < 13;
  // Labels of inner domains would take more room than their nodes, where cells are tiny.
  const head = tight ? 15 : 20;
  const look = {
    cell,
    wide,
    names,
    gap: cell < 8 ? 1 : 3,
    pad: cell < 8 ? 2 : tight ? 4 : 8,
    head,
    innerHead: cell < 8 ? 2 : head,
    top: scope.depth + 1,
  };
  const tops = scope.children.length
    ? scope.children.map((each) => box(map, each, look, width))
    : [grid(scope, look, width)];
  const [placed, size] = flow(tops, look.pad + 2, width);
  const boxes = [];
  const cells = new Float32Array(map.nodes.length * 2).fill(-1);
  const place = (item, x, y) => {
    if (item.domain) boxes.push({ domain: item.domain, x, y, width: item.width, height: item.height, head: item.head });
    item.nodes?.forEach(([node, dx, dy]) => cells.set([x + dx, y + dy], node * 2));
    item.inside?.forEach(([inner, dx, dy]) => place(inner, x + dx, y + dy));
  };
  placed.forEach(([item, x, y]) => place(item, x, y));
  return { ...look, boxes, cells, width, height: Math.ceil(size.height) };
}

function box(map, domain, look, most) {
  const inner = most - 2 * look.pad;
  if (!domain.children.length) {
    const leaf = grid(domain, look, inner);
    return framed(domain, look, [[leaf, look.pad, headOf(domain, look)]], leaf);
  }
  const items = domain.children.map((each) => box(map, each, look, inner));
  const area = items.reduce((sum, each) => sum + (each.width + look.pad) * (each.height + look.pad), 0);
  const widest = Math.max(...items.map((each) => each.width));
  const [placed, size] = flow(items, look.pad, Math.min(inner, Math.max(widest, Math.sqrt(area) * 1.35)));
  return framed(
    domain,
    look,
    placed.map(([item, x, y]) => [item, x + look.pad, y + headOf(domain, look)]),
    size,
  );
}

function framed(domain, look, inside, size) {
  const head = headOf(domain, look);
  // Names of domains fit roughly; those that do not are clipped.
  const label = head < 10 ? 0 : Math.min(150, (head < 20 ? 6 : 7) * domain.name.length + 8);
  return {
    domain,
    inside,
    head,
    width: Math.max(size.width, label) + 2 * look.pad,
    height: size.height + head + look.pad,
  };
}

function headOf(domain, look) {
  return domain.depth > look.top ? look.innerHead : look.head;
}

function grid(domain, look, most) {
  const [across, down] = [look.wide + look.gap, look.cell + look.gap];
  const number = domain.end - domain.first;
  const square = Math.ceil(Math.sqrt((number * 1.2 * down) / across));
  const columns = Math.max(1, Math.min(square, Math.floor(most / across)));
  const nodes = Array.from({ length: number }, (_, at) => [
    domain.first + at,
    (at % columns) * across,
    Math.floor(at / columns) * down,
  ]);
  return { nodes, width: columns * across - look.gap, height: Math.ceil(number / columns) * down - look.gap };
}

// Left to right, then the next line.
function flow(items, gap, width) {
  const placed = [];
  let [x, y, line, widest] = [0, 0, 0, 0];
  for (const item of items) {
    if (x > 0 && x + item.width > width + 0.5) [x, y, line] = [0, y + line + gap, 0];
    placed.push([item, x, y]);
    x += item.width + gap;
    line = Math.max(line, item.height);
    widest = Math.max(widest, x - gap);
  }
  return [placed, { width: widest, height: y + line }];
}

// The tree of domains from the columns of the map; nodes outside of the topology are a domain of their own.
export function domainsOf(map) {
  const root = { name: "", path: [], depth: -1, first: 0, end: map.nodes.length, children: [] };
  let above = [{ ...root, end: map.inTree, children: root.children }];
  map.levels.forEach((level, depth) => {
    let parent = 0;
    const made = level.domains.map((name, at) => {
      const first = level.starts[at];
      while (first >= above[parent].end) parent += 1;
      const domain = {
        name,
        path: [...above[parent].path, name],
        depth,
        level: level.name,
        first,
        end: level.starts[at + 1] ?? map.inTree,
        children: [],
      };
      above[parent].children.push(domain);
      return domain;
    });
    above = made;
  });
  if (map.levels.length && map.inTree < map.nodes.length) {
    root.children.push({
      name: "outside the topology",
      path: ["outside the topology"],
      depth: 0,
      level: "",
      first: map.inTree,
      end: map.nodes.length,
      children: [],
    });
  }
  return root;
}

export function domainAt(root, path) {
  return path.reduce((domain, name) => domain?.children.find((each) => each.name === name), root);
}

// The positions of a domain's nodes.
export const range = ({ first, end }) => Array.from({ length: end - first }, (_, at) => first + at);
