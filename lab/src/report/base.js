'use strict';
// The data of a page, the display of errors, and the formats of numbers.

/** Shows an error where a reader sees it. */
function fail(message) {
  const errors = document.getElementById('errors');
  errors.hidden = false;
  errors.textContent += `${message}\n`;
}
window.addEventListener('error', event => fail(event.message));

const data = JSON.parse(document.getElementById('data').textContent);

/** A number with three digits that count. */
function digits(value) {
  if (value === 0) return '0';
  const places = Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value))));
  return value.toFixed(Math.min(places, 6));
}

function time(seconds) {
  const size = Math.abs(seconds);
  const [scale, unit] = size >= 1e-3 ? [1e3, 'ms'] : size >= 1e-6 || size === 0 ? [1e6, 'µs'] : [1e9, 'ns'];
  return `${digits(seconds * scale)} ${unit}`;
}

const unitOf = count => (count >= 1 << 20 ? ['MiB', 1 << 20] : count >= 1024 ? ['KiB', 1024] : ['B', 1]);

function bytes(count) {
  const [unit, size] = unitOf(count);
  return `${digits(count / size)} ${unit}`;
}

/** Bytes in a unit that reads well, and exactly. */
function exactBytes(count) {
  return count < 1024 ? `${count} B` : `${bytes(count)} (${count} B)`;
}

function percent(share) {
  return `${(share * 100).toFixed(1)} %`;
}

function signed(share) {
  return `${share < 0 ? '−' : '+'}${(Math.abs(share) * 100).toFixed(0)} %`;
}
