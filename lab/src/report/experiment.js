// The page of an experiment: its tables as plots. Each plot is of one model and pipeline.

/** The lines of a table as objects. */
function table(name) {
  const one = data.tables[name];
  if (!one) return [];
  return one.lines.map(line => Object.fromEntries(one.columns.map((column, at) => [column, line[at]])));
}

const unique = list => [...new Set(list)];

/** Lines by the values of some columns, in the order in which they come. */
function groups(lines, columns) {
  const found = new Map();
  for (const line of lines) {
    const name = columns.filter(column => line[column] !== undefined).map(column => line[column]).join(' · ');
    if (!found.has(name)) found.set(name, []);
    found.get(name).push(line);
  }
  return found;
}

const panel = id => document.getElementById(id);
const seconds = { log: true, show: time };
const share = value => (value === null || value === undefined ? '–' : percent(value));
const elapsed = value => (value === null || value === undefined ? '–' : time(value));
const figure = value => (value === null || value === undefined ? '–' : value.toFixed(3));

/** A panel of figures, one for each group, under a legend. */
function figures(id, heading, names, list, note) {
  if (!list.length) return;
  const body = frame(panel(id), heading);
  if (names.length) body.append(legend(names));
  body.append(html('div', { class: 'figures' }, ...list));
  if (note) body.append(html('p', { class: 'note' }, note));
}

/** A table of text. */
function shownTable(columns, lines) {
  return html(
    'table', {},
    html('thead', {}, html('tr', {}, ...columns.map(([name]) => html('th', { scope: 'col' }, name)))),
    html('tbody', {}, ...lines.map(line => html('tr', {}, ...columns.map(([, of, kind]) => html('td', { class: kind ?? '' }, `${of(line)}`))))),
  );
}

const costs = unique(table('plans').map(line => line.cost));
const hosts = unique(table('plans').map(line => line.host).filter(host => host));
const hostColumn = hosts.length ? [['host', line => line.host]] : [];

/** What each cost model says of what was timed, against the time. */
function predicted(id, heading, estimates, measured, key, name) {
  const times = new Map(measured.map(line => [key(line), line.seconds]));
  const list = [...groups(estimates, ['host', 'model'])].map(([title, lines]) => plot(
    costs.map(cost => ({
      name: cost,
      points: lines.map(line => ({
        x: times.get(key(line)), y: line[`by ${cost}`], title: `${name(line)}: ${cost} says ${time(line[`by ${cost}`] ?? 0)}, measured ${time(times.get(key(line)))}`,
      })).filter(point => point.y !== null),
    })),
    { x: { name: 'measured', ...seconds }, y: { name: 'predicted', ...seconds }, diagonal: true, title },
  ));
  figures(id, heading, costs, list, 'On the line the prediction is right; what matters for a choice is the order.');
}

function drawPlans() {
  const key = line => [line.host, line.model, line.seed, line.pipeline, line.plan].join(' ');
  predicted('plans-predicted', 'Plans: predicted against measured', table('drawn'), table('measured/plans'), key, line => `plan ${line.plan} of ${line.pipeline} (${line.by})`);
}

function drawKernels() {
  const lines = table('measured/kernels');
  // A value may be computed by the same op in two plans.
  const key = line => [line.host, line.model, line.seed, line.plan, line.value].join(' ');
  predicted('kernels-predicted', 'Kernels: predicted against measured', lines, lines, key, line => `${line.op} ${line.value}`);
}

function drawRank() {
  const lines = table('measured/rank');
  if (!lines.length) return;
  const body = frame(panel('rank'), 'How well each cost model orders what was timed');
  body.append(shownTable([
    ...hostColumn, ['model', line => line.model], ['cost model', line => line.cost], ['of', line => `${line.count} ${line.of}`],
    ['Spearman', line => figure(line.spearman), 'number'], ['median error', line => share(line.median_error), 'number'],
    ['rounds among themselves', line => figure(line.repeat), 'number'],
  ], lines));
}

function drawRegret() {
  const list = [...groups(table('measured/regret'), ['host', 'model', 'pipeline'])].map(([title, lines]) => {
    const cells = [...groups(lines, ['cost', 'extractor'])].map(([name, cell]) => {
      const regret = cell.reduce((sum, line) => sum + line.regret, 0) / cell.length;
      return { name, value: regret, text: percent(regret), series: costs.indexOf(cell[0].cost) };
    });
    return barChart(cells, title);
  });
  figures('regret', 'Regret: how much slower than the fastest plan that was found of the model', costs, list, 'The mean over the seeds. All plans of a model ran in turns.');
}

function drawExtraction() {
  const lines = table('plans');
  const times = new Map(table('measured/extraction').map(line => [[line.host, line.model, line.pipeline, line.cost, line.extractor].join(' '), line.seconds]));
  const body = frame(panel('extraction'), 'What each extractor chose');
  body.append(shownTable([
    ...hostColumn, ['model', line => line.model], ['pipeline', line => line.pipeline], ['cost model', line => line.cost], ['extractor', line => line.extractor],
    ['cost', line => (line.seconds === null ? line.error : time(line.seconds)), 'number'], ['gap', line => (line.proven ? 'proven' : share(line.gap)), 'number'],
    ['steps', line => line.steps ?? '–', 'number'], ['arena', line => (line.arena === null ? '–' : bytes(line.arena)), 'number'],
    ['extracted in', line => elapsed(times.get([line.host, line.model, line.pipeline, line.cost, line.extractor].join(' '))), 'number'],
    ['plan', line => line.plan ?? '–'],
  ], lines));
}

function drawFailed() {
  const lines = table('failed');
  if (!lines.length) return;
  const body = frame(panel('failed'), 'What failed');
  body.append(shownTable([...hostColumn, ['task', line => line.task], ['cell', line => line.cell || '–'], ['why', line => line.error]], lines));
}

function drawGap() {
  const lines = table('gap');
  const extractors = unique(lines.map(line => line.extractor));
  const draw = (id, heading, of, x) => {
    const list = [...groups(lines, ['host', 'model', 'pipeline', 'cost'])].map(([title, cell]) => plot(
      extractors.map(name => ({
        name,
        points: cell.filter(line => line.extractor === name).map(line => ({
          x: of(line), y: line.gap, title: `${name}: cost ${time(line.seconds)}, bound ${time(line.bound)}, gap ${share(line.gap)}, ${line.states} states`,
        })).sort((a, b) => a.x - b.x),
      })),
      { x, y: { name: 'gap to the bound', show: value => percent(value) }, line: true, title },
    ));
    figures(id, heading, extractors, list);
  };
  // An extractor without limits has all of them.
  draw('gap', 'Gap over work: what share of its limits the extractor has', line => line.effort ?? 1, { name: 'share of the limits', log: true, show: value => `${Number(value.toPrecision(3))}` });
  const times = table('measured/gap');
  if (times.length) draw('gap-time', 'Gap over time', line => times[lines.indexOf(line)].elapsed, { name: 'time', ...seconds });
}

function drawAblation() {
  const list = [...groups(table('ablation'), ['host', 'model', 'pipeline', 'cost'])].map(([title, lines]) => {
    const worth = lines.map(line => ({
      name: line.rule, value: line.without === null ? Infinity : line.more,
      text: line.without === null ? 'nothing runs' : `+${percent(line.more)}`,
    }));
    const shown = worth.filter(bar => bar.value > 5e-5);
    const none = worth.length - shown.length;
    return barChart(shown, `${title}${none ? ` (${none} rules cost nothing)` : ''}`);
  });
  figures('ablation', 'What the program costs more without each rule', [], list);
}

function drawPareto() {
  const lines = table('memory');
  const list = [...groups(lines, ['host', 'model', 'pipeline'])].map(([title, cell]) => plot(
    costs.map(cost => ({
      name: cost,
      points: cell.filter(line => line.cost === cost).map(line => ({
        x: line.bytes, y: line.seconds, title: `${bytes(line.bytes)}: ${time(line.seconds)}${line.proven ? ', proven' : ''}`,
      })),
    })),
    { x: { name: 'arena and constants', log: true, show: bytes }, y: { name: 'estimate', ...seconds }, line: true, title },
  ));
  figures('pareto', 'Time and memory: the fastest plans within so many bytes of arena and constants', costs, list);
}

function start() {
  document.title = `${data.title} · ovolo`;
  panel('title').textContent = data.title;
  const field = name => data.fields.find(([known]) => known === name)?.[1] ?? '';
  panel('settings').textContent = hosts.length ? `compared: ${hosts.join(', ')}` : `ovolo ${field('ovolo')} · ${field('processor')} · ${field('threads')} thread(s)`;
  const counts = [['models', 'model'], ['pipelines', 'pipeline'], ['cost models', 'cost'], ['extractors', 'extractor']];
  panel('figures').append(...counts.map(([name, column]) => html(
    'div', {}, html('dt', {}, name), html('dd', {}, `${unique(table('plans').map(line => line[column])).length}`),
  )));
  drawRegret();
  drawRank();
  drawPlans();
  drawKernels();
  drawExtraction();
  drawFailed();
  drawGap();
  drawAblation();
  drawPareto();
  frame(panel('spec'), 'The experiment').append(html('pre', {}, data.spec));
  document.documentElement.dataset.drawn = 'true';
}

start();
