/** The plots of a kernel, by Observable Plot. */

const OBSERVER_COLOURS = ["#3f7fd1", "#c2601f", "#2f8f5b", "#8a5cc4", "#b0364b"];

/** @param {HTMLElement} place @returns {number} */
function plotWidth(place) { return Math.max(260, Math.min(620, place.clientWidth || 420)); }

/** The histogram of float values, with the chosen range and those of other observers.
 * @param {HTMLElement} place @param {GraphNode} node */
function drawValues(place, node) {
  const values = report.values[node.id];
  const { low, high, counts } = values.histogram;
  const step = (high - low) / counts.length;
  const bins = counts.map((count, index) => ({ from: low + index * step, to: low + (index + 1) * step, count }))
    .filter((bin) => bin.count > 0);
  const chosen = node.parameters && node.parameters.low !== null ? [node.parameters.low, node.parameters.high] : null;
  const lines = Object.entries(values.ranges).map(([name, ends], index) => ({ name, ends, colour: OBSERVER_COLOURS[index % 5] }));
  const inside = (value) => chosen === null || (value >= chosen[0] - step / 2 && value <= chosen[1] + step / 2);
  const marks = [
    Plot.rectY(bins, {
      x1: "from", x2: "to", y1: 0.5, y2: "count", inset: 0.4,
      fill: (bin) => inside((bin.from + bin.to) / 2) ? colour("bar") : colour("bad"),
    }),
    ...lines.map((line) => Plot.ruleX(line.ends, { stroke: line.colour, strokeDasharray: "4,3", strokeWidth: 1.4 })),
    Plot.ruleY([0.5], { stroke: colour("muted") }),
  ];
  if (chosen) marks.push(Plot.ruleX(chosen, { stroke: colour("text"), strokeWidth: 2.2 }));
  const ends = [low, high, ...(chosen || [])];
  place.replaceChildren(Plot.plot({
    width: plotWidth(place), height: 210, marginLeft: 48, style: { background: "transparent", fontSize: "11px" },
    x: { label: "real value", domain: [Math.min(...ends) - step, Math.max(...ends) + step], tickFormat: short, ticks: 6 },
    y: { type: "log", label: "values", ticks: 4, tickFormat: "~s" },
    marks,
  }), keys([
    ...(chosen ? [{ name: `chosen: ${short(chosen[0])} to ${short(chosen[1])}`, colour: "currentColor", solid: true }] : []),
    ...lines.map((line) => ({ name: `${line.name}: ${short(line.ends[0])} to ${short(line.ends[1])}`, colour: line.colour })),
  ]));
}

/** @param {{name: string, colour: string, solid?: boolean}[]} entries @returns {HTMLElement} */
function keys(entries) {
  return element("div", { class: "keys" }, ...entries.map((entry) => element("span", {},
    element("i", { class: entry.solid ? "solid" : "dashed", style: `border-color:${entry.colour}` }), entry.name)));
}

/** The weight scale of every channel. @param {HTMLElement} place @param {GraphNode} node */
function drawWeights(place, node) {
  const { low, high, group } = report.weights[node.id];
  const points = low.map((value, index) => ({ channel: index * group, low: value, high: group === 1 ? value : high[index] }));
  const marks = group === 1
    ? [Plot.ruleX(points, { x: "channel", y1: 0, y2: "high", stroke: colour("bar"), strokeWidth: 1 }),
      Plot.dot(points, { x: "channel", y: "high", r: 2.2, fill: colour("accent") })]
    : [Plot.areaY(points, { x: "channel", y1: "low", y2: "high", fill: colour("bar") })];
  place.replaceChildren(Plot.plot({
    width: plotWidth(place), height: 170, marginLeft: 56, style: { background: "transparent", fontSize: "11px" },
    x: { label: group === 1 ? "output channel" : `output channel (groups of ${group}: smallest to largest)`, ticks: 6 },
    y: { label: "weight scale", ticks: 4, tickFormat: short, zero: group === 1 },
    marks: [...marks, ...(group === 1 ? [Plot.ruleY([0], { stroke: colour("muted") })] : [])],
  }));
}
