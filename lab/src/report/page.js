// The page: head, colours, and one selection for all pictures.

/** Elements by what they show: `step 3`, `imported 5`, `plan 7`, `buffer 2`. */
const marked = new Map();

function mark(element, name) {
  element.dataset.shows = name;
  if (!marked.has(name)) marked.set(name, []);
  marked.get(name).push(element);
  return element;
}

/** Colours by rank of what takes most time; the default layout and what comes after the last are grey. */
const palettes = Object.fromEntries(['layout', 'op', 'backend'].map(aspect => {
  const seconds = new Map();
  for (const step of data.steps) seconds.set(step[aspect], (seconds.get(step[aspect]) ?? 0) + step.seconds);
  const names = [...seconds.keys()].sort((a, b) => seconds.get(b) - seconds.get(a) || (a < b ? -1 : 1));
  const coloured = names.filter(name => aspect !== 'layout' || name !== 'plain');
  return [aspect, new Map(names.map(name => {
    const rank = coloured.indexOf(name);
    return [name, rank < 0 || rank > 7 ? null : rank];
  }))];
}));

/** The colour of a name: for areas in the set `colour`, for edges in `edge` and `backend`. */
function colour(aspect, name, set) {
  const rank = palettes[aspect].get(name);
  return rank === null ? 'var(--grey)' : `var(--${set}-${rank})`;
}

/** The style of an element that shows a step. */
function colours(step) {
  if (step === undefined) return undefined;
  const { layout, op, backend } = data.steps[step];
  return [
    `--layout: ${colour('layout', layout, 'colour')}`, `--layout-edge: ${colour('layout', layout, 'edge')}`,
    `--op: ${colour('op', op, 'colour')}`, `--backend: ${colour('backend', backend, 'backend')}`,
  ].join('; ');
}

function drawHead() {
  const over = (one, bound) => (bound ? one.arena / bound : 1).toFixed(3);
  const ratio = one => `${over(one, one.lower_bound)}${one.proven ? ', proven least' : ''}`;
  const any = one => `${over(one, one.lower_bound_any_order)}${one.arena <= one.lower_bound_any_order ? ', proven least' : ''}`;
  const of = one => (arenas.length > 1 ? ` of ${one.device}` : '');
  const count = graph => graph.boxes.filter(box => box.kind === 'node' || box.kind === 'step').length;
  const figures = [
    ...(imported ? [['nodes imported', `${count(imported)}`]] : []),
    ['steps planned', `${count(plan)}`],
    ['estimate', time(data.seconds)],
    ...(data.profile ? [['measured', `${time(data.profile.seconds)} (estimate ${signed(data.seconds / data.profile.seconds - 1)})`]] : []),
    ...arenas.flatMap(one => [[`arena${of(one)}`, exactBytes(one.arena)], ['over the lower bound for its order', ratio(one)], ['over the lower bound for all orders', any(one)]]),
    ...data.constants.map(one => [`constants${of(one)}`, `${exactBytes(one.bytes)}, ${exactBytes(one.computed)} of them packed or computed`]),
    ['buffers', `${data.buffers.length}`],
  ];
  document.title = `${data.title} · ovolo`;
  document.getElementById('title').textContent = data.title;
  document.getElementById('settings').textContent = data.settings.map(([name, value]) => `${name} ${value}`).join(' · ');
  document.getElementById('figures').append(
    ...figures.map(([name, value]) => html('div', {}, html('dt', {}, name), html('dd', {}, value))),
  );
}

function drawLegend(aspect) {
  document.documentElement.dataset.colour = aspect;
  const counts = names => {
    const found = new Map();
    for (const name of names) found.set(name, (found.get(name) ?? 0) + 1);
    return found;
  };
  const group = (title, of, set, kind) => {
    const many = counts(data.steps.map(step => step[of]));
    return [
      html('li', { class: 'group' }, `${title}:`),
      ...[...palettes[of].keys()].map(name => html(
        'li', {}, html('span', { class: `key ${kind}`, style: `--key: ${colour(of, name, set)}` }),
        `${of === 'op' ? bare(name) : name} (${many.get(name)})`,
      )),
    ];
  };
  document.getElementById('legend').replaceChildren(
    ...group({ op: 'operation', layout: 'layout', backend: 'backend' }[aspect], aspect, aspect === 'backend' ? 'backend' : 'colour', 'whole'),
    ...(aspect === 'backend' ? [] : group('left edge, backend', 'backend', 'backend', 'left')),
    ...(aspect === 'layout' ? [] : group('right edge, layout', 'layout', 'edge', 'right')),
  );
}

/** What belongs to what is shown: names to light up, and names that are only near. */
function related(name) {
  const [kind, at] = [name.split(' ')[0], Number(name.split(' ')[1])];
  const steps = { step: () => [at], imported: () => stepsOfImported[at], buffer: () => stepsOfBuffer(at), plan: () => [] }[kind]();
  const lit = new Set([name, ...steps.map(step => `step ${step}`)]);
  const near = new Set();
  if (kind !== 'buffer') {
    for (const step of steps) {
      importedOfStep[step].forEach(node => lit.add(`imported ${node}`));
      buffersOfStep[step].written.forEach(buffer => lit.add(`buffer ${buffer}`));
      buffersOfStep[step].read.forEach(buffer => near.add(`buffer ${buffer}`));
    }
  } else {
    holds[at].read.forEach(step => near.add(`step ${step}`));
  }
  return { steps, lit, near };
}

function stepsOfBuffer(at) {
  return holds[at].scratch === undefined ? holds[at].written : [holds[at].scratch];
}

let [pinned, shown] = [null, null];

function show(name, scroll) {
  if (name === shown && !scroll) return;
  shown = name;
  for (const element of document.querySelectorAll('.lit, .near')) element.classList.remove('lit', 'near');
  document.body.classList.toggle('selecting', name !== null);
  const { steps, lit, near } = name === null ? { steps: [], lit: [], near: [] } : related(name);
  const light = (names, kind) => {
    for (const one of names) for (const element of marked.get(one) ?? []) element.classList.add(kind);
  };
  light(near, 'near');
  light(lit, 'lit');
  for (const band of document.querySelectorAll('.band')) band.setAttribute('x', steps.length ? steps[0] : -2);
  drawDetails(name);
  if (scroll) {
    for (const body of document.querySelectorAll('.scroll')) {
      // The wire of a box can be as long as the graph.
      const first = body.querySelector('.box.lit, tr.lit, .buffer.lit');
      if (first && !(scroll instanceof Element && body.contains(scroll))) reveal(first, body);
    }
  }
}

function reveal(element, body) {
  const [inner, outer] = [element.getBoundingClientRect(), body.getBoundingClientRect()];
  const off = (a, b, c, d) => (a < c || b > d ? (a + b - c - d) / 2 : 0);
  body.scrollBy(off(inner.left, inner.right, outer.left, outer.right), off(inner.top, inner.bottom, outer.top + 24, outer.bottom));
}

function pin(name, scroll) {
  pinned = name;
  history.replaceState(null, '', name === null ? '#' : `#${name.replace(' ', '=')}`);
  show(name, scroll);
}

function drawDetails(name) {
  const body = document.querySelector('#details .scroll');
  const [kind, at] = name === null ? [null, 0] : [name.split(' ')[0], Number(name.split(' ')[1])];
  const rows = [];
  const row = (term, ...parts) => rows.push(html('dt', {}, term), ...parts.map(part => html('dd', {}, part)));
  const box = kind === 'imported' ? imported.boxes[at] : kind === 'plan' ? plan.boxes[at] : null;
  if (kind === null) {
    row('nothing selected', 'Hover over a box, a rectangle or a row; click to keep it. Arrow keys go from step to step, Escape lets go.');
  } else if (kind === 'step') {
    stepDetails(at, row);
  } else if (kind === 'buffer') {
    row('buffer', ...bufferText(at).split('\n'));
  } else {
    row('value', box.name);
    if (box.node) row('op', bare(box.node.op) + (box.kind === 'view' ? ' (a view: no work, no memory)' : ''));
    for (const [attribute, value] of Object.entries(box.node?.attrs ?? {})) row(attribute, `${Array.isArray(value) ? `[${value.join(', ')}]` : value}`);
    if (box.node) row('type', box.node.type.text);
    box.operands.forEach(operand => row('operand', `${operand.name}: ${operand.type}`));
    const steps = kind === 'imported' ? stepsOfImported[at] : [];
    if (steps.length) row('computed by', ...steps.map(step => `step ${step}: ${data.steps[step].op}`));
  }
  body.replaceChildren(html('dl', {}, ...rows));
}

function stepDetails(at, row) {
  const step = data.steps[at];
  const box = plan.boxes[plan.boxOf.get(step.name)];
  row(`step ${at}`, step.name);
  row('kernel', `${step.op}, implementation ${step.implementation}, backend ${step.backend}`);
  row('result', `${step.type} → ${where(step.output)}${step.in_place === null ? '' : `, in place of operand ${step.in_place}`}`);
  box.operands.forEach((operand, index) => row(`operand ${index}`, `${operand.name}: ${operand.type}, ${where(step.operands[index])}`));
  if (step.copied !== null) row('copies', `operand ${step.copied} into the result first`);
  if (step.scratch) row('scratch', `${exactBytes(step.scratch)} at offset ${step.scratch_offset}`);
  row('estimate', time(step.seconds));
  if (data.profile) {
    const one = data.profile.steps[at];
    row('measured', `${time(one.seconds)}, ${ofPeak(one.peak)} of the peak (${one.bound})`);
  }
  if (step.runner_up) {
    const { adds, drops } = changes(step.runner_up);
    const line = sign => change => `${sign} ${time(change.seconds)}  ${change.node} → ${change.type}`;
    const proven = step.runner_up.proven ? '' : ' (not proven)';
    row('without it', `+${time(Math.max(0, step.runner_up.margin))} in all${proven}`, ...adds.map(line('+')), ...drops.map(line('−')));
  }
  if (step.attributes) row('attributes', step.attributes);
  const from = step.imported.map(one => `${one.name} (${one.op})`).join(', ');
  if (step.rules.length) row('by rules', [...step.rules, from].filter(part => part).join(' ← '));
  if (step.other_rules.length) row('and by', step.other_rules.join(', '));
}

function where(text) {
  const constant = /^constant %(\d+)/.exec(text);
  if (constant) return `constant ${data.program.nodes[Number(constant[1])].name}`;
  const place = inArena(text);
  if (!place) return text;
  return `offset ${place.offset}${place.device === 'host' ? '' : ` of ${place.device}`}`;
}

function listen() {
  const at = event => event.target.closest?.('[data-shows]')?.dataset.shows ?? null;
  const main = document.querySelector('main');
  main.addEventListener('pointerover', event => show(at(event) ?? pinned));
  main.addEventListener('pointerleave', () => show(pinned));
  main.addEventListener('click', event => {
    if (event.target.closest('button, select, label, #details')) return;
    pin(at(event), event.target);
  });
  main.addEventListener('keydown', event => {
    const move = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (move && event.target.classList.contains('scroll') && data.steps.length) {
      event.preventDefault();
      const from = pinned?.startsWith('step ') ? Number(pinned.split(' ')[1]) : move > 0 ? -1 : data.steps.length;
      pin(`step ${Math.min(Math.max(from + move, 0), data.steps.length - 1)}`, true);
    }
  });
  const find = document.getElementById('find');
  document.addEventListener('keydown', event => {
    if (event.key === 'Escape') pin(null);
    if (event.key === '/' && event.target.tagName !== 'INPUT') {
      event.preventDefault();
      find.focus();
    }
  });
  let turn = 0;
  const search = next => {
    const text = find.value.trim().toLowerCase();
    const has = words => words.toLowerCase().includes(text);
    const steps = data.steps.flatMap((step, index) => (has(`${step.name} ${step.op}`) ? [`step ${index}`] : []));
    const nodes = (imported?.boxes ?? []).flatMap((box, index) => (box.node && has(`${box.name} ${box.node.op}`) ? [`imported ${index}`] : []));
    const hits = text ? [...steps, ...nodes] : [];
    turn = next ? turn + 1 : 0;
    document.getElementById('found').textContent = text ? (hits.length ? `${(turn % hits.length) + 1} of ${hits.length}` : 'none') : '';
    pin(hits.length ? hits[turn % hits.length] : null, true);
  };
  find.addEventListener('input', () => search(false));
  find.addEventListener('keydown', event => { if (event.key === 'Enter') search(true); });
  const colourBy = document.getElementById('colour-by');
  colourBy.addEventListener('change', () => drawLegend(colourBy.value));
}

function start() {
  const colourBy = document.getElementById('colour-by');
  // Where nearly all steps have one layout, the colour of the whole box can say more; its edges still
  // tell layout and backend.
  const most = Math.max(...[...palettes.layout.keys()].map(name => data.steps.filter(step => step.layout === name).length));
  if (most >= 0.9 * data.steps.length) colourBy.value = 'op';
  document.body.classList.toggle('measured', data.profile !== null);
  drawHead();
  drawLegend(colourBy.value);
  frame(document.getElementById('details'), 'Details');
  if (data.profile) drawProfile(document.getElementById('profile'));
  if (data.compared) drawCosts(document.getElementById('costs'));
  drawMemory(document.getElementById('memory'));
  if (imported) drawGraph(document.getElementById('imported'), imported, 'As imported', 'imported');
  drawGraph(document.getElementById('plan'), plan, 'As planned', 'plan');
  drawDetails(null);
  listen();
  // Names in links are of the page's own making, without anything to decode; others select nothing.
  const linked = location.hash.slice(1).replace('=', ' ');
  if (marked.has(linked)) pin(linked, true);
  document.documentElement.dataset.drawn = 'true';
}

start();
