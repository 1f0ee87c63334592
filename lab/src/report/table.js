// Tables of the steps: estimates compared with runners-up, and measured times with estimates and peaks.

/** A table whose rows are steps, with a choice of orders. */
function stepTable(panel, heading, columns, orders, row, note) {
  const body = html('tbody');
  const choose = html('select', { 'aria-label': 'Order' }, ...Object.keys(orders).map(name => html('option', {}, name)));
  const sort = () => {
    const compare = orders[choose.value];
    const indices = data.steps.map((_, index) => index).sort((a, b) => compare(a, b) || a - b);
    body.replaceChildren(...indices.map(index => rows[index]));
  };
  const rows = data.steps.map((step, at) => {
    const what = html(
      'td', { class: 'what' },
      html('span', { title: step.name }, html('i', { class: 'swatch', style: colours(at) }), html('b', {}, bare(step.op)), ` ${tail(step.name)}`),
      html('small', {}, `${step.backend} · ${step.implementation} · ${step.type}`),
    );
    return mark(html('tr', {}, html('th', { scope: 'row' }, `${at}`), what, ...row(step, at)), `step ${at}`);
  });
  choose.addEventListener('change', sort);
  const scroll = frame(panel, heading, html('label', {}, 'Order ', choose));
  const head = ['step', 'kernel and value', ...columns].map(name => html('th', { scope: 'col' }, name));
  scroll.append(html('table', {}, html('thead', {}, html('tr', {}, ...head)), body));
  if (note) scroll.append(html('p', { class: 'note' }, note));
  sort();
}

function bar(parts, title) {
  const children = parts.map(([kind, from, to]) => html('i', {
    class: kind, style: `left: ${percentOf(from)}; width: ${percentOf(within(to) - within(from))}`,
  }));
  return html('div', { class: 'bar', title }, ...children);
}

/** A share of the scale; what is beyond it ends with it. */
const within = share => Math.min(1, Math.max(0, share));
const percentOf = share => `${(within(share) * 100).toFixed(2)}%`;

/** What the cheapest program without a kernel adds and drops; what is in both lists changes nothing. */
function changes(runnerUp) {
  const key = change => `${change.node} → ${change.type}`;
  const drops = runnerUp.drops.slice();
  const adds = runnerUp.adds.filter(change => {
    const same = drops.findIndex(drop => key(drop) === key(change) && drop.seconds === change.seconds);
    if (same < 0) return true;
    drops.splice(same, 1);
    return false;
  });
  return { adds, drops };
}

const opOf = node => node.split(' ')[0];

/** The other way in a few words: the ops that differ, each once. */
function inWords(runnerUp) {
  const { adds, drops } = changes(runnerUp);
  const count = list => {
    const counts = new Map();
    for (const change of list) counts.set(opOf(change.node), (counts.get(opOf(change.node)) ?? 0) + 1);
    return [...counts].sort().map(([op, times]) => (times > 1 ? `${times} × ${bare(op)}` : bare(op))).join(', ');
  };
  if (!adds.length && !drops.length) return 'the same kernels on other operands';
  return `${count(adds) || 'nothing'} in place of ${count(drops) || 'nothing'}`;
}

function drawCosts(panel) {
  const cost = data.steps.map(step => step.seconds);
  const margin = data.steps.map(step => (step.runner_up ? Math.max(0, step.runner_up.margin) : Infinity));
  const most = Math.max(...cost, 1e-12) * 1.25;
  const row = (step, at) => {
    const parts = [['cost', 0, cost[at] / most]];
    const { runner_up: other } = step;
    if (other) parts.push([cost[at] + margin[at] > most ? 'margin beyond' : 'margin', cost[at] / most, (cost[at] + margin[at]) / most]);
    const title = other
      ? `${time(cost[at])}; another choice is made from ${time(cost[at] + margin[at])} on`
      : `${time(cost[at])}; nothing else computes this value`;
    return [
      html('td', { class: 'number' }, time(cost[at])),
      html('td', { class: 'bars', style: colours(at) }, bar(parts, title)),
      html('td', { class: 'number' }, other ? `${other.proven ? '' : '≈ '}+${time(margin[at])}` : '–'),
      html('td', { class: 'other' }, other ? html('span', { title: inWords(other) }, inWords(other)) : ''),
    ];
  };
  stepTable(
    panel, 'Cost of each step, and what would be chosen instead',
    ['estimate', 'estimate and margin', 'margin', 'runner-up: what the graph then has'],
    {
      'costliest first': (a, b) => cost[b] - cost[a],
      'closest call first': (a, b) => (margin[a] === margin[b] ? 0 : margin[a] - margin[b]),
      'as executed': () => 0,
    },
    row,
    'The margin is how much more the whole graph would cost without this kernel: the choice changes if the kernel costs that much more. A bar that is cut off continues beyond the scale. A dash: nothing else computes the value.',
  );
}

/** A share of the machine's peak as it was measured, which a step may exceed. */
const ofPeak = share => (share > 1 ? '> 100 %' : percent(share));

function drawProfile(panel) {
  const { steps: times } = data.profile;
  const total = times.reduce((sum, one) => sum + one.seconds, 0);
  const most = Math.max(...times.map((one, at) => Math.max(one.seconds, data.steps[at].seconds)), 1e-12) * 1.02;
  const off = (one, at) => data.steps[at].seconds / one.seconds - 1;
  const row = (step, at) => {
    const one = times[at];
    const parts = [['cost', 0, one.seconds / most], ['estimate', step.seconds / most, step.seconds / most]];
    const title = `measured ${time(one.seconds)}, estimate ${time(step.seconds)}`;
    return [
      html('td', { class: 'number' }, time(one.seconds)),
      html('td', { class: 'number' }, percent(one.seconds / total)),
      html('td', { class: 'bars', style: colours(at) }, bar(parts, title)),
      html('td', { class: 'number' }, `${time(step.seconds)} ${signed(off(one, at))}`),
      html('td', { class: 'bars narrow' }, bar([[`peak ${one.bound}`, 0, one.peak]], `${ofPeak(one.peak)} of the machine's ${one.bound}`)),
      html('td', { class: 'number' }, `${ofPeak(one.peak)} ${one.bound}`),
      html('td', { class: 'number' }, one.flops ? `${digits(one.flops / one.seconds / 1e9)} GFLOP/s` : '–'),
    ];
  };
  const lost = at => times[at].seconds * (1 - Math.min(1, times[at].peak));
  stepTable(
    panel, 'Measured time of each step',
    ['measured', 'share', 'measured; the tick is the estimate', 'estimate, off by', 'share of the peak', '', 'speed'],
    {
      'longest first': (a, b) => times[b].seconds - times[a].seconds,
      'most time above the peak first': (a, b) => lost(b) - lost(a),
      'furthest from its estimate first': (a, b) =>
        Math.abs(data.steps[b].seconds - times[b].seconds) - Math.abs(data.steps[a].seconds - times[a].seconds),
      'as executed': () => 0,
    },
    row,
    `Medians: the sum of the steps is ${time(total)}, and a run of the whole plan takes ${time(data.profile.seconds)}. The peak is that of the machine's arithmetic, or of its memory traffic if that takes longer. More than 100 % means that data came from a closer cache, or that the machine was busy when it was calibrated.`,
  );
}
