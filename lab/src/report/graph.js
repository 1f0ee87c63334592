// Draws the two graphs: a box for each node, with wires downwards.

const BOX_HEIGHT = 34;

/** The two lines of text in a box. */
function lines(box) {
  if (box.kind === 'output') return [box.name, 'output'];
  const type = box.node.type.text;
  if (box.kind === 'input') return [box.name, `input ${type}`];
  const number = box.kind === 'step' ? `${box.step} · ` : '';
  return [number + bare(box.node.op), type];
}

function drawGraph(panel, graph, heading, kind) {
  const text = graph.boxes.map(box => lines(box).map(line => cut(line, 28)));
  const sized = graph.boxes.map((box, at) => {
    const longest = Math.max(text[at][0].length * 6.4, text[at][1].length * 5.4);
    return { inputs: box.inputs, width: Math.max(64, Math.ceil(longest) + 24) };
  });
  const drawn = layered(sized, BOX_HEIGHT);
  const picture = svg('svg', {
    viewBox: `0 0 ${drawn.width} ${drawn.height}`, role: 'img', 'aria-label': heading,
  });
  const wires = svg('g', { class: 'wires' });
  graph.boxes.forEach((box, at) => {
    if (drawn.wires[at]) wires.append(mark(svg('path', { class: 'wire', d: drawn.wires[at] }), reference(box, at, kind)));
  });
  picture.append(wires);
  graph.boxes.forEach((box, at) => {
    const { x, y, width } = drawn.places[at];
    const paint = { step: box.step, node: stepsOfImported[at]?.[0] }[box.kind];
    const element = svg(
      'g',
      { class: `box ${box.kind}`, transform: `translate(${x - width / 2} ${y})`, style: colours(paint) },
      svg('title', {}, `${box.name}\n${text[at].join('\n')}`),
      svg('rect', { class: 'fill', width, height: BOX_HEIGHT, rx: box.kind === 'step' || box.kind === 'node' ? 3 : 12 }),
      box.kind === 'step' ? svg('rect', { class: 'stripe', width: 5, height: BOX_HEIGHT, rx: 2 }) : null,
      box.kind === 'step' ? svg('rect', { class: 'edge', x: width - 5, width: 5, height: BOX_HEIGHT, rx: 2 }) : null,
      svg('text', { x: 12, y: 14 }, text[at][0]),
      svg('text', { x: 12, y: 27, class: 'type' }, text[at][1]),
    );
    picture.append(mark(element, reference(box, at, kind)));
  });
  const size = factor => {
    picture.setAttribute('width', Math.round(drawn.width * factor));
    picture.setAttribute('height', Math.round(drawn.height * factor));
  };
  let fit = 1;
  const body = frame(panel, heading, zoom(factor => size(fit * factor)));
  body.append(picture);
  // Smaller text would be hard to read, so a wider graph scrolls.
  fit = Math.min(1, Math.max(0.72, (body.clientWidth - 4) / drawn.width));
  size(fit);
  const first = drawn.places.find(item => item.y === ACROSS);
  body.scrollLeft = first.x * fit - body.clientWidth / 2;
}

function reference(box, at, kind) {
  return kind === 'imported' ? `imported ${at}` : box.kind === 'step' ? `step ${box.step}` : `plan ${at}`;
}
