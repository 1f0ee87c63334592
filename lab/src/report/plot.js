// Plots: points and lines over two axes, and bars; a colour and a mark for each series.

const COLOURS = 8;
const seriesColour = at => `var(--edge-${at % COLOURS})`;

/** Marks that differ without colour. */
const MARKS = [
  (x, y) => svg('circle', { cx: x, cy: y, r: 3.2 }),
  (x, y) => svg('rect', { x: x - 3, y: y - 3, width: 6, height: 6 }),
  (x, y) => svg('path', { d: `M${x} ${y - 4} l4 7 h-8 z` }),
  (x, y) => svg('path', { d: `M${x} ${y - 4.4} l4.4 4.4 l-4.4 4.4 l-4.4 -4.4 z` }),
  (x, y) => svg('path', { d: `M${x} ${y + 4} l4 -7 h-8 z` }),
];

/** Round places for ticks from one value to another, a few of them. */
function ticks(from, to, log) {
  if (log) {
    const [low, high] = [Math.floor(Math.log10(from)), Math.ceil(Math.log10(to))];
    const places = steps => {
      const found = [];
      for (let power = low; power <= high; power++) for (const step of steps) found.push(step * 10 ** power);
      return found.filter(value => value >= from * 0.999 && value <= to * 1.001);
    };
    // The coarsest steps with at least three ticks.
    const all = [[1], [1, 3], [1, 2, 5], [1, 1.5, 2, 3, 5, 7]].map(places);
    return all.find(found => found.length > 2) ?? all[3];
  }
  const raw = (to - from) / 5 || 1;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map(one => one * power).find(one => one >= raw);
  const found = [];
  for (let value = Math.ceil(from / step) * step; value <= to + step * 1e-6; value += step) found.push(value);
  return found;
}

/** The range of values with some air; logarithmic axes show what is above zero. */
function range(values, log) {
  const shown = values.filter(value => Number.isFinite(value) && (!log || value > 0));
  if (!shown.length) return [log ? 1 : 0, log ? 10 : 1];
  let [from, to] = [Math.min(...shown), Math.max(...shown)];
  if (log) return from === to ? [from / 2, to * 2] : [from / 1.15, to * 1.15];
  from = Math.min(0, from);
  return [from, from === to ? from + 1 : to + (to - from) * 0.05];
}

/**
 * A plot. `series` have a name and points `{x, y, title}`; `x` and `y` are axes `{name, log, show}`. With
 * `line` the points of a series are joined, with `diagonal` there is a line where both are equal.
 */
function plot(series, { x, y, line = false, diagonal = false, title }) {
  const [width, height, left, bottom, top, right] = [430, 300, 62, 38, 8, 12];
  let xs = range(series.flatMap(one => one.points.map(point => point.x)), x.log);
  let ys = range(series.flatMap(one => one.points.map(point => point.y)), y.log);
  if (diagonal) xs = ys = [Math.min(xs[0], ys[0]), Math.max(xs[1], ys[1])];
  const scale = (value, [from, to], log) => (log ? Math.log(value / from) / Math.log(to / from) : (value - from) / (to - from));
  const clamp = share => Math.min(1, Math.max(0, share));
  const placeX = value => left + clamp(scale(value, xs, x.log)) * (width - left - right);
  const placeY = value => height - bottom - clamp(scale(value, ys, y.log)) * (height - top - bottom);
  const place = value => value.toFixed(1);
  const drawn = svg('svg', { viewBox: `0 0 ${width} ${height}`, width, height, role: 'img', 'aria-label': title, class: 'plot' });
  for (const value of ticks(...xs, x.log)) {
    const at = place(placeX(value));
    drawn.append(svg('line', { class: 'grid', x1: at, x2: at, y1: top, y2: height - bottom }));
    drawn.append(svg('text', { class: 'tick', x: at, y: height - bottom + 13 }, x.show(value)));
  }
  for (const value of ticks(...ys, y.log)) {
    const at = place(placeY(value));
    drawn.append(svg('line', { class: 'grid', x1: left, x2: width - right, y1: at, y2: at }));
    drawn.append(svg('text', { class: 'tick end', x: left - 5, y: Number(at) + 3 }, y.show(value)));
  }
  drawn.append(svg('text', { class: 'axis-name', x: (left + width - right) / 2, y: height - 6 }, x.name));
  drawn.append(svg('text', { class: 'axis-name', transform: `translate(11 ${(height - bottom + top) / 2}) rotate(-90)` }, y.name));
  if (diagonal) {
    const [from, to] = xs;
    drawn.append(svg('line', { class: 'diagonal', x1: place(placeX(from)), y1: place(placeY(from)), x2: place(placeX(to)), y2: place(placeY(to)) }));
  }
  series.forEach((one, at) => {
    const points = one.points.filter(point => Number.isFinite(point.x) && Number.isFinite(point.y) && (!x.log || point.x > 0));
    const group = svg('g', { class: 'series', style: `--series: ${seriesColour(at)}`, 'data-series': one.name });
    if (line && points.length > 1) {
      group.append(svg('path', { class: 'curve', d: points.map((point, index) => `${index ? 'L' : 'M'}${place(placeX(point.x))} ${place(placeY(point.y))}`).join(' ') }));
    }
    for (const point of points) {
      const shape = MARKS[at % MARKS.length](Number(place(placeX(point.x))), Number(place(placeY(point.y))));
      shape.classList.add('point');
      shape.append(svg('title', {}, point.title));
      group.append(shape);
    }
    drawn.append(group);
  });
  return html('figure', {}, html('figcaption', {}, title), drawn);
}

/** The names of the series with their colours and marks. */
function legend(names) {
  return html('ul', { class: 'series-legend' }, ...names.map((name, at) => {
    const key = svg('svg', { width: 12, height: 12, class: 'series', style: `--series: ${seriesColour(at)}` });
    const shape = MARKS[at % MARKS.length](6, 6);
    shape.classList.add('point');
    key.append(shape);
    return html('li', {}, key, ` ${name}`);
  }));
}

/** Bars with names: `bars` have a name, a value, and a text for it. */
function barChart(bars, title) {
  const [row, left, width] = [18, 190, 430];
  const most = Math.max(...bars.map(bar => bar.value).filter(Number.isFinite), 1e-12);
  const drawn = svg('svg', {
    viewBox: `0 0 ${width} ${bars.length * row + 4}`, width, height: bars.length * row + 4, role: 'img', 'aria-label': title, class: 'plot bars-plot',
  });
  bars.forEach((bar, at) => {
    const y = at * row + 3;
    const length = Number.isFinite(bar.value) ? Math.max(1, (bar.value / most) * (width - left - 80)) : width - left - 80;
    const group = svg('g', { class: `bar-row${Number.isFinite(bar.value) ? '' : ' beyond'}` });
    group.append(
      svg('title', {}, `${bar.name}: ${bar.text}`),
      svg('text', { class: 'end', x: left - 6, y: y + 11 }, cut(bar.name, 30)),
      svg('rect', { x: left, y, width: length.toFixed(1), height: row - 5, style: `--series: ${seriesColour(bar.series ?? 0)}` }),
      svg('text', { x: left + length + 5, y: y + 11 }, bar.text),
    );
    drawn.append(group);
  });
  return html('figure', {}, html('figcaption', {}, title), drawn);
}
