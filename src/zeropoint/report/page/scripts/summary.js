/** The header, the float ops, the worst kernels and the missing sections. */

/** @param {string} label @param {string} value @param {string} more @returns {HTMLElement} */
function card(label, value, more) {
  return element("div", { class: "card" }, element("div", { class: "label" }, label),
    element("div", { class: "value" }, value), element("div", { class: "more" }, more));
}

function showHeader() {
  const { header, ops } = report;
  byId("title").textContent = header.model;
  const parts = [`target ${header.target}`, `profile ${header.profile}`];
  if (header.calibration) parts.push(`calibrated on ${header.calibration}`);
  if (header.data) parts.push(`compared with float on ${header.data}`);
  byId("subtitle").textContent = parts.join(" \u00b7 ");
  const cards = [];
  const outputs = [...header.outputs].sort((a, b) => (a.sqnr ?? Infinity) - (b.sqnr ?? Infinity));
  if (outputs.length) {
    const worst = outputs[0];
    const which = outputs.length > 1 ? `worst of ${outputs.length} outputs: ${worst.name}` : `output ${worst.name}`;
    cards.push(card("SQNR against float", worst.sqnr === null ? "exact" : `${fixed(worst.sqnr, 1)} dB`, which));
    const ranked = outputs.filter((output) => output.top1 !== null).sort((a, b) => a.top1 - b.top1)[0];
    if (ranked) cards.push(card("Top-1 agreement", `${(100 * ranked.top1).toFixed(2)} %`, `same argmax as float, ${ranked.name}`));
  }
  const counts = ops.counts;
  cards.push(card("Float ops", String(counts.floats), `${counts.integer} integer ops, ${counts.rescales} rescales, ${counts.edges} conversions`));
  const before = header.float_bytes;
  cards.push(card("Constants", bytes(report.integer_bytes), before ? `${bytes(before)} in float: ${percent(report.integer_bytes / before)}` : "of the integer program"));
  if (header.arena_bytes !== null) cards.push(card("Arena", bytes(header.arena_bytes), "memory for values between kernels"));
  if (header.seconds !== null) cards.push(card("Time of all kernels", duration(header.seconds), `one thread, ${header.processor}`));
  byId("cards").replaceChildren(...cards);
  showLines("floats", ["Float islands", ...report.float_summary]);
  showLines("corrections", report.corrections);
  showLines("budget", report.budget);
  byId("footer").textContent = `zeropoint ${header.version}. Plots by Observable Plot and D3, layout by dagre; all of it is in this file.`;
}

/** A title and a list; hidden without entries. @param {string} id @param {string[]} lines */
function showLines(id, [title, ...lines]) {
  if (!lines.length) return;
  const list = lines.map((text) => element("li", {}, text));
  byId(id).replaceChildren(element("strong", {}, title), element("ul", {}, ...list));
  byId(id).hidden = false;
}

/** @param {function(string): void} select */
function showWorst(select) {
  const place = byId("worst");
  place.replaceChildren(element("h2", {}, "Kernels that add the most noise"));
  const note = report.notes.find((/** @type {{section: string}} */ one) => one.section === "worst");
  if (!report.worst.length) {
    place.append(element("p", { class: "muted" }, note ? `The effect of recipe rules needs ${note.needs}.` : "No kernel adds noise."));
    const listed = nodes.filter((node) => node.kind === "kernel" && finite(sqnr(node, "added")))
      .sort((a, b) => sqnr(a, "added") - sqnr(b, "added")).slice(0, 5);
    if (listed.length) place.append(element("ol", {}, ...listed.map((node) => element("li", {}, opener(node, select), ` ${decibelText(sqnr(node, "added"))}`))));
    return;
  }
  place.append(element("p", { class: "muted" }, `Each rule was tried alone, without corrections, on ${report.worst_samples} ` +
    "samples; the figure is the least SQNR of an output."));
  const head = element("tr", {}, ...["kernel", "own noise, dB", "recipe rule", "output SQNR, dB", "gain"].map((label, index) =>
    element("th", { class: index === 0 || index === 2 ? "text" : "" }, label)));
  const rows = report.worst.flatMap((/** @type {any} */ worst) => worst.trials.map((/** @type {any} */ trial, /** @type {number} */ index) => {
    const node = nodeById.get(worst.node);
    const gain = trial.after === null ? null : trial.after - trial.before;
    const figures = gain === null ? trial.why_not || "exact" : `${fixed(trial.before, 1)} \u2192 ${fixed(trial.after, 1)}`;
    return element("tr", {}, element("td", { class: "text name" }, index === 0 && node ? opener(node, select) : ""),
      element("td", {}, index === 0 && node ? fixed(sqnr(node, "added"), 1) : ""),
      element("td", { class: "text rule" }, element("code", {}, trial.rule)), element("td", {}, figures),
      element("td", { class: `gain ${gain !== null && gain > 0.05 ? "up" : "down"}` }, gain === null ? "" : `${gain > 0 ? "+" : ""}${gain.toFixed(2)}`));
  }));
  place.append(element("div", { class: "scroll" }, element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows))));
}

/** @param {GraphNode} node @param {function(string): void} select @returns {HTMLElement} */
function opener(node, select) {
  return element("button", { class: "link", type: "button", onclick: () => select(node.id) }, node.name);
}

const SECTIONS = {
  outputs: "Outputs against float", noise: "Noise of every kernel", values: "Histograms of values", weights: "Weight scales",
  before: "MLIR before", times: "Times", worst: "Effect of recipe rules",
};

function showNotes() {
  if (!report.notes.length) return;
  const place = byId("notes");
  place.hidden = false;
  place.replaceChildren(element("h2", {}, "Not in this report"), element("ul", {}, ...report.notes.map(
    (/** @type {{section: string, needs: string}} */ note) => element("li", {}, `${SECTIONS[note.section] || note.section}: needs ${note.needs}.`))));
}
