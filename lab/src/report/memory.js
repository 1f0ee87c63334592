// The arena of each device over the steps: a rectangle for each buffer, steps across and bytes upwards.

const MEMORY_TOP = 18;
const MEMORY_BOTTOM = 18;
const MEMORY_LEFT = 62;

function drawMemory(panel) {
  let factor = 1;
  const drawn = [];
  const arrange = () => drawn.forEach(one => one(factor));
  const body = frame(panel, 'Memory: buffers in the arena, step by step', html('span', { class: 'key-line' }, 'thin line: bytes live'), zoom(value => { factor = value; arrange(); }));
  const filled = arenas.filter(one => one.arena);
  if (!filled.length) {
    body.append(html('p', {}, 'No step needs memory of the arena.'));
    return;
  }
  if (arenas.length === 1) {
    drawn.push(drawArena(filled[0], 'buffers', body, () => body.clientHeight));
  } else {
    // One picture a device, one under the other.
    filled.forEach((one, at) => {
      const field = html('div');
      body.append(html('p', { class: 'device' }, `arena of ${one.device}`), field);
      drawn.push(drawArena(one, at ? `buffers-${at}` : 'buffers', field, () => body.clientHeight / filled.length));
    });
  }
  arrange();
  window.addEventListener('resize', arrange);
}

/** Draws the arena of a device into an element; gives the function that fits it to the window. */
function drawArena({ device, arena, lower_bound: bound }, id, body, room) {
  const buffers = data.buffers.flatMap((buffer, at) => (deviceOf(buffer) === device ? [[buffer, at]] : []));
  // After the last step the outputs are copied to the caller.
  const columns = data.steps.length + 1;
  const live = new Array(columns).fill(0);
  for (const [buffer] of buffers) {
    for (let step = buffer.lower; step < buffer.upper; step++) live[step] += buffer.size;
  }
  // In units of steps and bytes, so that every number is exact; the window only stretches it.
  const picture = svg('svg', {
    id, viewBox: `0 0 ${columns} ${arena}`, preserveAspectRatio: 'none', role: 'img',
    'aria-label': `${buffers.length} buffers in an arena of ${exactBytes(arena)}`,
  });
  buffers.forEach(([buffer, at]) => {
    const scratch = holds[at].scratch !== undefined;
    picture.append(mark(
      svg(
        'rect',
        {
          class: `buffer${scratch ? ' scratch' : ''}`, style: colours(owner(at)),
          x: buffer.lower, width: buffer.upper - buffer.lower,
          y: arena - buffer.offset - buffer.size, height: buffer.size,
        },
        svg('title', {}, bufferText(at)),
      ),
      `buffer ${at}`,
    ));
  });
  const band = svg('rect', { class: 'band', x: -2, width: 1, y: 0, height: arena });
  picture.append(band);
  const notes = svg('svg', { class: 'notes', 'aria-hidden': 'true' });
  const axis = svg('svg', { class: 'axis', 'aria-hidden': 'true' });
  const field = html('div', { class: 'field' }, picture, notes);
  body.classList.add('timeline');
  body.append(axis, field);

  return factor => {
    const height = Math.max(room() - MEMORY_TOP - MEMORY_BOTTOM - 4, 160);
    const width = Math.round(Math.max(body.clientWidth - MEMORY_LEFT - 12, columns * 4) * factor);
    const [across, up] = [width / columns, height / arena];
    picture.style = `left: 0; top: ${MEMORY_TOP}px; width: ${width}px; height: ${height}px`;
    field.style = `width: ${width + 8}px; height: ${height + MEMORY_TOP + MEMORY_BOTTOM}px`;
    fill(notes, { width: width + 8, height: height + MEMORY_TOP + MEMORY_BOTTOM }, []).replaceChildren();
    fill(axis, { width: MEMORY_LEFT, height: height + MEMORY_TOP + MEMORY_BOTTOM }, []).replaceChildren();
    const y = offset => MEMORY_TOP + height - offset * up;
    buffers.forEach(([buffer, at]) => {
      const [wide, high] = [(buffer.upper - buffer.lower) * across, buffer.size * up];
      if (wide < 44 || high < 13) return;
      const x = buffer.lower * across + 4;
      const middle = y(buffer.offset + buffer.size / 2);
      const step = data.steps[owner(at)];
      const name = `${owner(at)} · ${holds[at].scratch === undefined ? bare(step.op) : 'scratch'} ${tail(step.name)}`;
      const second = high >= 27;
      notes.append(svg('text', { x, y: middle + (second ? -2 : 4) }, cut(name, Math.floor((wide - 6) / 6.6))));
      if (second) notes.append(svg('text', { x, y: middle + 11, class: 'type' }, cut(bytes(buffer.size), Math.floor((wide - 6) / 5.5))));
    });
    const path = live.map((size, step) => `${step ? 'L' : 'M'}${step * across} ${y(size)}H${(step + 1) * across}`).join('');
    notes.append(
      svg('path', { class: 'live', d: path }),
      svg('line', { class: 'peak', x1: 0, x2: width, y1: y(arena), y2: y(arena) }),
      svg('line', { class: 'bound', x1: 0, x2: width, y1: y(bound), y2: y(bound) }),
      svg('text', { x: 2, y: y(arena) - 5 }, arena === bound ? `arena = lower bound for this order ${bytes(arena)}` : `arena ${bytes(arena)}`),
    );
    if (arena !== bound) notes.append(svg('text', { x: 2, y: y(bound) + 12 }, `lower bound for this order ${bytes(bound)}`));
    const apart = round(48 / across);
    for (let step = 0; step < data.steps.length; step += apart) {
      notes.append(svg('text', { x: (step + 0.5) * across, y: height + MEMORY_TOP + 13, class: 'tick' }, `${step}`));
    }
    const [unit, size] = unitOf(arena);
    for (let offset = 0; offset <= arena; offset += round((arena / size) * (30 / height), 0.01) * size) {
      const label = `${Number((offset / size).toFixed(2))} ${unit}`;
      axis.append(
        svg('text', { x: MEMORY_LEFT - 8, y: y(offset) + 4, class: 'tick end' }, label),
        svg('line', { x1: MEMORY_LEFT - 5, x2: MEMORY_LEFT, y1: y(offset), y2: y(offset) }),
      );
    }
  };
}

/** A round number, at least so large: 1, 2 or 5 times a power of ten, from `scale` on. */
function round(least, scale = 1) {
  for (; ; scale *= 10) {
    for (const digit of [1, 2, 5]) if (digit * scale >= least) return digit * scale;
  }
}

function bufferText(at) {
  const { offset, size, lower, upper } = data.buffers[at];
  const { written, scratch } = holds[at];
  const last = upper > data.steps.length ? 'the end (output)' : `step ${upper - 1}`;
  const when = upper - lower === 1 ? `step ${lower}` : `step ${lower} to ${last}`;
  const what = scratch === undefined
    ? written.map(step => `${data.steps[step].name} (step ${step}, ${bytes(data.steps[step].bytes)})`).join('\n')
    : `scratch of ${data.steps[scratch].name}`;
  const of = arenas.length > 1 ? ` of ${deviceOf(data.buffers[at])}` : '';
  return `${what}\n${exactBytes(size)} at offset ${offset}${of}\n${when}`;
}
