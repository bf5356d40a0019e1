/** The panel of the selected node. */

/** @param {string} title @param {boolean} wide @param {...Node} children @returns {HTMLElement} */
function block(title, wide, ...children) {
  return element("section", { class: wide ? "block wide" : "block" }, element("h3", {}, title), ...children);
}

/** @param {string} value @param {string} label @returns {HTMLElement} */
function figure(value, label) { return element("div", { class: "figure" }, element("b", {}, value), element("span", {}, label)); }

/** @param {GraphNode} node */
function showDetail(node) {
  const panel = byId("detail");
  const blocks = element("div", { class: "blocks" });
  panel.replaceChildren(headOf(node), figuresOf(node), blocks);
  const add = (/** @type {HTMLElement|null} */ made) => { if (made) blocks.append(made); };
  const plots = [valuesBlock(node), weightsBlock(node)];
  plots.forEach((plot) => add(plot && plot.block));
  add(reasonsBlock(node));
  add(boundsBlock(node));
  add(textsBlock(node));
  plots.forEach((plot) => plot && plot.draw());  // only now do they have a width
}

/** @param {GraphNode} node @returns {HTMLElement} */
function headOf(node) {
  const kind = node.kind === "float" ? `float island: ${node.kernel}` : node.kernel || node.kind;
  const head = element("div", { class: "detail-head" }, element("h2", {}, node.name),
    element("span", { class: node.kind === "float" ? "badge float" : "badge" }, kind),
    element("span", { class: "badge mono" }, node.shape.length ? node.shape.join("\u00d7") : "scalar"),
    element("span", { class: "badge mono", title: "storage, scale : zero point" }, typeText(node)));
  const whole = element("div", {}, head);
  if (node.covers.length > 1) whole.append(coveredBy(node));
  whole.append(neighboursOf(node));
  whole.setAttribute("class", "detail-top");
  return whole;
}

const NAMES_SHOWN = 4;

/** The ops of the original model; only the first ones if there are many. @param {GraphNode} node @returns {HTMLElement} */
function coveredBy(node) {
  const { covers } = node;
  const more = covers.length - NAMES_SHOWN;
  if (more < 2) return element("p", { class: "muted" }, `covers ${covers.join(", ")}`);
  return element("details", { class: "muted" },
    element("summary", {}, `covers ${covers.slice(0, NAMES_SHOWN).join(", ")} and ${more} more`),
    covers.slice(NAMES_SHOWN).join(", "));
}

/** The nodes that a node reads and those that read it, as links. @param {GraphNode} node @returns {HTMLElement} */
function neighboursOf(node) {
  const listed = (/** @type {string} */ label, /** @type {GraphNode[]} */ found) => found.length === 0 ? [] : [
    element("span", {}, label, ...found.slice(0, NAMES_SHOWN).map((one) => opener(one, select)),
      found.length > NAMES_SHOWN ? `and ${found.length - NAMES_SHOWN} more` : null)];
  const before = node.reads.map((id) => nodeById.get(id)).filter(Boolean);
  const after = nodes.filter((one) => one.reads.includes(node.id));
  return element("p", { class: "muted neighbours" }, ...listed("reads", before), ...listed("read by", after));
}

/** @param {GraphNode} node @returns {HTMLElement} */
function figuresOf(node) {
  const found = [];
  if (report.noise[node.id]) {
    found.push(figure(decibelText(sqnr(node, "total")), "SQNR of the result"));
    found.push(figure(decibelText(sqnr(node, "inherited")), "SQNR inherited from its inputs"));
    found.push(figure(decibelText(sqnr(node, "added")), "SQNR by its own noise alone"));
  }
  if (clipped(node) !== null) found.push(figure(percent(clipped(node)), "of the values are clipped"));
  if (headroom(node) !== null) found.push(figure(`${headroom(node)} bits`, "least headroom of its sums"));
  const time = report.times[node.id];
  if (time) {
    found.push(figure(duration(time.seconds), `${percent(time.seconds / totalSeconds)} of the time (${time.kernels.join(", ")})`));
    if (time.operations && time.seconds) {
      const share = peakShare(node);
      found.push(figure(`${(time.operations / time.seconds / 1e9).toFixed(1)} Gop/s`,
        share === null ? "integer operations" : `${percent(share)} of the peak of a core`));
    }
  } else if (totalSeconds && node.kind === "kernel") {
    found.push(figure("\u2013", "no kernel of its own in native code: computed with a neighbour"));
  }
  return element("div", { class: "figures" }, ...found);
}

/** @param {GraphNode} node */
function valuesBlock(node) {
  const values = report.values[node.id];
  if (!values) return null;
  const place = element("div");
  const source = values.source === "calibration" ? "calibration" : `float values on ${values.source}`;
  const mass = values.clipped === null ? "" : ` \u00b7 clipped ${percent(values.clipped)}`;
  const made = block(`Values: ${source}, ${values.count.toLocaleString("en")} numbers${mass}`, false, place);
  return { block: made, draw: () => drawValues(place, node) };
}

/** @param {GraphNode} node */
function weightsBlock(node) {
  const weights = report.weights[node.id];
  if (!weights) return null;
  const place = element("div");
  const made = block(`Weight scales: ${weights.channels} channels of ${weights.storage}`, false, place);
  return { block: made, draw: () => drawWeights(place, node) };
}

/** @param {GraphNode} node @returns {HTMLElement|null} */
function reasonsBlock(node) {
  const found = report.reasons[node.id];
  return found ? block("Why", false, element("ul", {}, ...found.map((text) => element("li", {}, text)))) : null;
}

/** @param {GraphNode} node @returns {HTMLElement|null} */
function boundsBlock(node) {
  const found = report.bounds[node.id];
  if (!found) return null;
  const rows = found.map((bound) => {
    const bar = element("span", { class: bound.headroom < 2 ? "bits tight" : "bits", title: `${bound.bits} of ${bound.width} bits` },
      element("i", { style: `width:${Math.min(100, 100 * bound.bits / bound.width)}%` }));
    const most = bound.bound === null ? "beyond 2^63" : bound.bound.toLocaleString("en");
    const where = bound.channels > 1 ? `, channel ${bound.channel}` : "";
    return element("tr", {}, element("td", { class: "text wrap" }, `${bound.what}${where}`), element("td", {}, most),
      element("td", {}, bar, ` ${bound.bits}/${bound.width}`), element("td", {}, String(bound.headroom)));
  });
  const head = element("tr", {}, element("th", { class: "text" }, "numbers"), element("th", {}, "at most"),
    element("th", {}, "bits"), element("th", {}, "free"));
  const grown = found.filter((bound) => bound.grown).map((bound) => element("p", { class: "muted" },
    `The weight scales of ${bound.grown} of ${bound.channels} channels were increased, ` +
    `by a factor of at most ${short(bound.grown_most)}, so that bias and sums fit.`));
  return block("Bounds, proved for every input", false,
    element("div", { class: "scroll" }, element("table", { class: "tight" }, element("thead", {}, head), element("tbody", {}, ...rows))), ...grown);
}

/** @param {GraphNode} node @returns {HTMLElement|null} */
function textsBlock(node) {
  const found = report.texts[node.id];
  if (!found) return null;
  const column = (/** @type {string} */ title, /** @type {string} */ text) =>
    element("div", {}, element("h3", {}, title), element("pre", { tabindex: "0" }, text));
  const columns = [column(node.kind === "float" ? "Now" : "After: integers", found.after)];
  if (found.before !== null) columns.unshift(column("Before: float", found.before));
  return block("MLIR", true, element("div", { class: "texts" }, ...columns));
}
