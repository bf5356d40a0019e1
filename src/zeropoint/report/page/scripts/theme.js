/** Light and dark: what the system prefers, until the button is pressed. */

const root = document.documentElement;
const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");
/** @type {(function(): void)[]} */
const onTheme = [];

/** @param {string} name */
function setTheme(name) {
  root.dataset.theme = name;
  onTheme.forEach((redraw) => redraw());
}

/** @param {string} name @returns {string} a colour of the style sheet */
function colour(name) { return getComputedStyle(root).getPropertyValue(`--${name}`).trim(); }

/** @param {number} share from 0, good, to 1, bad @returns {string} */
function ramp(share) {
  return d3.interpolateRgbBasis([colour("good"), colour("good"), colour("middle"), colour("bad")])(share);
}

setTheme(prefersDark.matches ? "dark" : "light");
prefersDark.addEventListener("change", (event) => setTheme(event.matches ? "dark" : "light"));
byId("theme").addEventListener("click", () => setTheme(root.dataset.theme === "dark" ? "light" : "dark"));
