/** Light and dark: what the system prefers, until the button is pressed. */

const root = document.documentElement;
const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");
/** @type {(function(): void)[]} */
const onTheme = [];

/** @type {Map<string, string>} */
const colours = new Map();
/** @type {function(number): string} */
let interpolate = () => "";

/** @param {string} name */
function setTheme(name) {
  root.dataset.theme = name;
  colours.clear();
  interpolate = d3.interpolateRgbBasis([colour("good"), colour("good"), colour("middle"), colour("bad")]);
  onTheme.forEach((redraw) => redraw());
}

/** @param {string} name @returns {string} a colour of the style sheet */
function colour(name) {
  if (!colours.has(name)) colours.set(name, getComputedStyle(root).getPropertyValue(`--${name}`).trim());
  return colours.get(name);
}

/** @param {number} share from 0, good, to 1, bad @returns {string} */
function ramp(share) { return interpolate(share); }

setTheme(prefersDark.matches ? "dark" : "light");
prefersDark.addEventListener("change", (event) => setTheme(event.matches ? "dark" : "light"));
byId("theme").addEventListener("click", () => setTheme(root.dataset.theme === "dark" ? "light" : "dark"));
