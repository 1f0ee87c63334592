// Creates elements.

const SVG = 'http://www.w3.org/2000/svg';

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== null && value !== false) element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children.filter(child => child !== undefined && child !== null));
  return element;
}

const svg = (tag, attributes = {}, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);
const html = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);

/** The panel's heading with its tools, and a part of it that scrolls. */
function frame(panel, heading, ...tools) {
  const body = html('div', { class: 'scroll', tabindex: 0, role: 'group', 'aria-label': heading });
  panel.hidden = false;
  panel.append(html('div', { class: 'heading' }, html('h2', {}, heading), ...tools), body);
  return body;
}

function button(text, label, action) {
  const made = html('button', { type: 'button', title: label, 'aria-label': label }, text);
  made.addEventListener('click', action);
  return made;
}

/** Buttons that change a factor: smaller, larger, as at first. */
function zoom(apply) {
  let factor = 1;
  const set = value => apply((factor = Math.min(Math.max(value, 0.25), 16)));
  return html(
    'span', { class: 'zoom' },
    button('−', 'Smaller', () => set(factor / 1.25)),
    button('+', 'Larger', () => set(factor * 1.25)),
    button('Reset', 'Reset the zoom', () => set(1)),
  );
}

/** Text cut to a number of characters. */
function cut(text, length) {
  return text.length <= length ? text : `${text.slice(0, Math.max(1, length - 1))}…`;
}
