/** Numbers, sizes and elements. */

/** @param {number} ratio noise relative to signal @returns {number} the SQNR in dB */
function decibels(ratio) { return ratio > 0 ? -10 * Math.log10(ratio) : Infinity; }

/** @param {number|null|undefined} value @param {number} digits @returns {string} */
function fixed(value, digits) {
  if (value === null || value === undefined || Number.isNaN(value)) return "\u2013";
  return Number.isFinite(value) ? value.toFixed(digits) : value > 0 ? "exact" : "none left";
}

/** @param {number|null|undefined} value @returns {string} an SQNR with its unit, or "exact" */
function decibelText(value) {
  const text = fixed(value, 1);
  return Number.isFinite(value) ? `${text} dB` : text;
}

/** @param {number} value @returns {string} four significant digits */
function short(value) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  return size >= 1e6 || size < 1e-4 ? value.toExponential(2) : String(Number(value.toPrecision(4)));
}

/** @param {number} bytes @returns {string} */
function bytes(bytes) {
  if (bytes < 1024) return `${bytes} B`;
  return bytes < 1024 ** 2 ? `${(bytes / 1024).toFixed(1)} KiB` : `${(bytes / 1024 ** 2).toFixed(2)} MiB`;
}

/** @param {number} seconds @returns {string} */
function duration(seconds) {
  if (seconds < 1e-3) return `${(1e6 * seconds).toFixed(seconds < 1e-5 ? 2 : 1)} \u00b5s`;
  return seconds < 1 ? `${(1e3 * seconds).toFixed(2)} ms` : `${seconds.toFixed(2)} s`;
}

/** @param {number} share @returns {string} two significant digits below 1 % */
function percent(share) {
  const figure = 100 * share;
  if (share === 0) return "0\u00a0%";
  if (share < 1e-7) return `${figure.toExponential(1)}\u00a0%`;
  return `${share < 0.01 ? Number(figure.toPrecision(2)) : figure.toFixed(1)}\u00a0%`;
}

/** An element with attributes and children; text is never read as HTML.
 * @param {string} tag @param {Object<string, any>} [attributes] @param {...(Node|string|null)} children
 * @returns {HTMLElement} */
function element(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

/** @param {string} id @returns {any} the element of the page */
function byId(id) { return document.getElementById(id); }
