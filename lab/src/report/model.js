// Derives from the data of a model's page what each buffer holds, and which imported nodes each step computes.

/** The last part of a name, which is where names of a model differ. */
function tail(name) {
  const parts = name.split('/').filter(part => part);
  return parts.length > 2 ? `…/${parts.slice(-2).join('/')}` : name;
}

/** An op without its backend. */
function bare(op) {
  return op.slice(op.indexOf('.') + 1);
}

const stepOfName = new Map(data.steps.map((step, index) => [step.name, index]));

/**
 * What is drawn of a graph: its inputs, its outputs, and the nodes between. What depends on constants
 * alone is computed before the first run, and stands in the details of its users.
 */
function boxes(graph, planned) {
  const index = new Map(graph.nodes.map((node, at) => [node.name, at]));
  const constant = [];
  for (const node of graph.nodes) {
    const from = node.inputs.every(name => constant[index.get(name)]);
    constant.push(node.op === 'const' || (node.op !== 'input' && from));
  }
  const returned = new Set(graph.outputs.map(output => output.value));
  const found = [];
  const boxOf = new Map();
  graph.nodes.forEach((node, at) => {
    if (constant[at] && !returned.has(node.name)) return;
    const step = planned ? stepOfName.get(node.name) : undefined;
    let kind = planned ? (step === undefined ? 'view' : 'step') : 'node';
    if (node.op === 'input') kind = 'input';
    if (constant[at]) kind = 'constant';
    const operands = constant[at] ? [] : node.inputs.map(name => ({ name, at: index.get(name) }));
    boxOf.set(node.name, found.length);
    found.push({
      name: node.name, kind, step, node,
      inputs: [...new Set(operands.filter(one => boxOf.has(one.name)).map(one => boxOf.get(one.name)))],
      operands: operands.map(one => ({ name: one.name, type: graph.nodes[one.at].type.text })),
    });
  });
  for (const output of graph.outputs) {
    found.push({ name: output.name, kind: 'output', node: null, inputs: [boxOf.get(output.value)], operands: [] });
  }
  return { boxes: found, boxOf };
}

const plan = boxes(data.program, true);
const imported = data.imported ? boxes(data.imported, false) : null;

/** For each step, the imported nodes that it computes: those between its operands and its result. */
const importedOfStep = data.steps.map(() => []);
/** For each imported node that is drawn, the steps that compute it. */
const stepsOfImported = imported ? imported.boxes.map(() => []) : [];

if (imported) {
  // A form of a value in another layout is called `NAME@LAYOUT`.
  const origin = box => {
    if (imported.boxOf.has(box.name)) return imported.boxOf.get(box.name);
    // A value on a device has a different name: it is the last one that its step computes.
    const last = data.steps[box.step]?.imported?.at(-1)?.name;
    if (box.node.type.device !== 'host' && imported.boxOf.has(last)) return imported.boxOf.get(last);
    const suffix = `@${box.node.type.layout}`;
    return box.name.endsWith(suffix) ? imported.boxOf.get(box.name.slice(0, -suffix.length)) : undefined;
  };
  const origins = plan.boxes.map(box => (box.node ? origin(box) : undefined));
  const known = new Set(origins);
  plan.boxes.forEach((box, at) => {
    if (box.kind !== 'step' || origins[at] === undefined) return;
    const region = importedOfStep[box.step];
    const converts = box.inputs.some(input => origins[input] === origins[at]);
    const open = [origins[at]];
    while (open.length) {
      const next = open.pop();
      region.push(next);
      if (converts) break;
      for (const input of imported.boxes[next].inputs) {
        if (!known.has(input) && imported.boxes[input].kind === 'node' && !region.includes(input)) open.push(input);
      }
    }
    for (const node of region) stepsOfImported[node].push(box.step);
  });
}

/** For each buffer: the steps whose results it holds, those that read it, and the one whose scratch it is. */
const holds = data.buffers.map(() => ({ written: [], read: [], scratch: undefined }));

/** The arena of each device, the host's first; those without a device belong to the host. */
const arenas = [{ device: 'host', arena: data.arena, lower_bound: data.lower_bound, lower_bound_any_order: data.lower_bound_any_order, proven: data.proven }, ...(data.devices ?? [])];
const deviceOf = buffer => buffer.device ?? 'host';

function bufferAt(step, { device, offset }) {
  return data.buffers.findIndex(
    buffer =>
      deviceOf(buffer) === device &&
      buffer.lower <= step && step < buffer.upper && buffer.offset <= offset && offset < buffer.offset + buffer.size,
  );
}

/** The device and the offset of a place in an arena. */
function inArena(place) {
  const found = /^@(\d+)(?:#(.+))?$/.exec(place);
  return found ? { device: found[2] ?? 'host', offset: Number(found[1]) } : undefined;
}

/** For each step, the buffers that it writes, takes as scratch, and reads. */
const buffersOfStep = data.steps.map((step, at) => {
  const of = place => (inArena(place) === undefined ? -1 : bufferAt(at, inArena(place)));
  const written = of(step.output);
  if (written >= 0) holds[written].written.push(at);
  const scratch = step.scratch > 0 ? bufferAt(at, { device: inArena(step.output).device, offset: step.scratch_offset }) : -1;
  if (scratch >= 0) holds[scratch].scratch = at;
  const read = [...new Set(step.operands.map(of))].filter(buffer => buffer >= 0 && buffer !== written);
  for (const buffer of read) holds[buffer].read.push(at);
  return { written: [written, scratch].filter(buffer => buffer >= 0), read };
});

/**
 * The step that says what a buffer is for: the one whose scratch it is, or whose result takes the most of it
 * for the longest.
 */
function owner(buffer) {
  const { written, scratch } = holds[buffer];
  if (scratch !== undefined) return scratch;
  const range = step => {
    const { offset } = inArena(data.steps[step].output);
    return [offset, offset + data.steps[step].bytes];
  };
  const taken = (step, at) => {
    const [from, to] = range(step);
    const over = written.slice(at + 1).find(later => range(later)[0] < to && from < range(later)[1]);
    return data.steps[step].bytes * ((over ?? data.buffers[buffer].upper) - step);
  };
  return written.reduce((best, step, at) => (taken(step, at) > best.taken ? { step, taken: taken(step, at) } : best), { step: written[0], taken: -1 }).step;
}
