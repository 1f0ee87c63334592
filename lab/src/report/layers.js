// A layered drawing of a directed, acyclic graph, after Sugiyama, Tagawa and Toda (1981): a layer for
// each box, an order in each layer with few crossings, then places across.

const ACROSS = 12;
const DOWN = 26;
const PORT = 9;
const SWEEPS = 10;

/**
 * Places boxes, each with `inputs` (boxes before it), `width` and the common height. Gives the middle
 * top of each box, a path for the wires from each box, and the size of the whole.
 */
function layered(boxes, height) {
  const items = boxes.map((box, index) => ({ index, layer: 0, width: box.width, box, above: [], below: [] }));
  const users = boxes.map(() => []);
  boxes.forEach((box, index) => {
    for (const input of box.inputs) {
      users[input].push(index);
      items[index].layer = Math.max(items[index].layer, items[input].layer + 1);
    }
  });
  // A box without operands is placed just above its first user. So is a box whose operand has other readers:
  // they share its wire.
  for (let index = boxes.length - 1; index >= 0; index--) {
    const { inputs } = boxes[index];
    const free = !inputs.length || (inputs.length === 1 && users[inputs[0]].length > 1);
    if (free && users[index].length) items[index].layer = Math.min(...users[index].map(user => items[user].layer)) - 1;
  }
  const link = (upper, lower) => {
    items[upper].below.push(lower);
    items[lower].above.push(upper);
  };
  // A wire that passes layers has a position in each of them, which all wires from one box share.
  boxes.forEach((_, source) => {
    const chain = [source];
    for (const user of users[source].slice().sort((a, b) => items[a].layer - items[b].layer)) {
      while (items[source].layer + chain.length < items[user].layer) {
        const layer = items[source].layer + chain.length;
        items.push({ index: items.length, layer, width: 2, above: [], below: [] });
        link(chain[chain.length - 1], items.length - 1);
        chain.push(items.length - 1);
      }
      link(chain[items[user].layer - items[source].layer - 1], user);
    }
  });
  const rows = [];
  for (const item of items) (rows[item.layer] ??= []).push(item.index);
  order(items, rows);
  place(items, rows);
  return finish(items, rows, boxes, height);
}

/** Orders the rows by the means of their neighbours, down and up, and keeps the order with the fewest crossings. */
function order(items, rows) {
  const sort = (row, side) => {
    const wish = new Map(row.map(index => {
      const near = items[index][side];
      return [index, near.length ? near.reduce((sum, one) => sum + items[one].rank, 0) / near.length : items[index].rank];
    }));
    row.sort((a, b) => wish.get(a) - wish.get(b) || items[a].rank - items[b].rank);
    rank(row);
  };
  const rank = row => row.forEach((index, at) => { items[index].rank = at; });
  rows.forEach(rank);
  let [best, fewest] = [rows.map(row => row.slice()), crossings(items, rows)];
  for (let sweep = 0; sweep < SWEEPS && fewest > 0; sweep++) {
    if (sweep % 2 === 0) rows.forEach(row => sort(row, 'above'));
    else for (let at = rows.length - 1; at >= 0; at--) sort(rows[at], 'below');
    const count = crossings(items, rows);
    if (count < fewest) [best, fewest] = [rows.map(row => row.slice()), count];
  }
  best.forEach((row, at) => {
    rows[at] = row;
    rank(row);
  });
}

function crossings(items, rows) {
  let count = 0;
  for (const row of rows) {
    const ends = row.flatMap(index => items[index].below.map(one => items[one].rank).sort((a, b) => a - b));
    for (let a = 0; a < ends.length; a++) {
      for (let b = a + 1; b < ends.length; b++) if (ends[b] < ends[a]) count++;
    }
  }
  return count;
}

/** Gives each item its middle: near its neighbours, in order and apart; long wires straight. */
function place(items, rows) {
  for (const row of rows) {
    let x = 0;
    for (const index of row) {
      items[index].x = x + items[index].width / 2;
      x += items[index].width + ACROSS;
    }
    for (const index of row) items[index].x -= x / 2;
  }
  const pull = (a, b) => (items[a].box ? 1 : 4) * (items[b].box ? 1 : 4);
  const settle = (row, sides) => {
    // Least squares under the distances: isotonic regression, by pooling neighbours that would collide.
    const pools = [];
    let offset = 0;
    row.forEach((index, at) => {
      if (at) offset += (items[row[at - 1]].width + items[index].width) / 2 + ACROSS;
      let [sum, weight] = [0, 0];
      for (const near of sides.flatMap(side => items[index][side])) {
        sum += pull(index, near) * items[near].x;
        weight += pull(index, near);
      }
      if (!weight) [sum, weight] = [items[index].x * 0.1, 0.1];
      let pool = { sum: sum - weight * offset, weight, members: [[index, offset]] };
      while (pools.length && pools[pools.length - 1].sum / pools[pools.length - 1].weight >= pool.sum / pool.weight) {
        const before = pools.pop();
        pool = {
          sum: before.sum + pool.sum, weight: before.weight + pool.weight,
          members: before.members.concat(pool.members),
        };
      }
      pools.push(pool);
    });
    for (const pool of pools) {
      for (const [index, distance] of pool.members) items[index].x = pool.sum / pool.weight + distance;
    }
  };
  const sweep = (down, up) => {
    rows.forEach(row => settle(row, down));
    if (up) for (let at = rows.length - 1; at >= 0; at--) settle(rows[at], up);
  };
  for (let round = 0; round < SWEEPS; round++) sweep(['above'], ['below']);
  for (let round = 0; round < SWEEPS; round++) sweep(['above', 'below'], ['above', 'below']);
  sweep(['above']); // This makes chains straight.
}

function finish(items, rows, boxes, height) {
  const left = Math.min(...items.map(item => item.x - item.width / 2)) - ACROSS;
  for (const item of items) {
    item.x = Math.round((item.x - left) * 10) / 10;
    item.y = ACROSS + item.layer * (height + DOWN);
  }
  // Wires end next to each other on the upper edge of a box.
  const ports = new Map();
  for (const item of items.slice(0, boxes.length)) {
    const sources = item.above.slice().sort((a, b) => items[a].x - items[b].x);
    const apart = Math.min(PORT, (item.width - 16) / sources.length);
    sources.forEach((source, at) => {
      ports.set(`${source} ${item.index}`, Math.round((item.x + (at - (sources.length - 1) / 2) * apart) * 10) / 10);
    });
  }
  const wire = source => {
    let path = '';
    const open = [source];
    while (open.length) {
      const from = open.pop();
      for (const to of items[from].below) {
        const [x1, y1, y2] = [items[from].x, items[from].y + height, items[to].y];
        const x2 = items[to].box ? ports.get(`${from} ${to}`) : items[to].x;
        path += `M${x1} ${y1}`;
        path += Math.abs(x1 - x2) < 0.2 ? `V${y2}` : `C${x1} ${(y1 + y2) / 2} ${x2} ${(y1 + y2) / 2} ${x2} ${y2}`;
        if (!items[to].box) {
          path += `V${y2 + height}`;
          open.push(to);
        }
      }
    }
    return path;
  };
  const right = Math.max(...items.map(item => item.x + item.width / 2));
  return {
    places: items.slice(0, boxes.length),
    wires: boxes.map((_, index) => wire(index)),
    width: right + ACROSS,
    height: rows.length * (height + DOWN) - DOWN + 2 * ACROSS,
  };
}
