/** The document of the report, indexed by node, and the metrics that colour the graph.
 *
 * @typedef {{id: string, kind: string, name: string, kernel: string, covers: string[], shape: number[],
 *   element: string, parameters: {storage: string, scales: number[], zero_point: number, low: ?number, high: ?number}|null,
 *   reason: string, reads: string[]}} GraphNode
 * @typedef {{key: string, label: string, worst: "high"|"low", unit: string, of: function(GraphNode): ?number}} Metric
 */

const report = JSON.parse(byId("data").textContent);
/** @type {GraphNode[]} */
const nodes = report.nodes;
/** @type {Map<string, GraphNode>} */
const nodeById = new Map(nodes.map((node) => [node.id, node]));
const totalSeconds = report.header.seconds || 0;

/** @param {GraphNode} node @param {"total"|"inherited"|"added"} part @returns {?number} SQNR in dB */
function sqnr(node, part) {
  const noise = report.noise[node.id];
  return noise === undefined || noise[part] === null ? null : decibels(noise[part]);
}

/** @param {GraphNode} node @returns {?number} the bits that stay free in the sums of a kernel */
function headroom(node) {
  const found = (report.bounds[node.id] || []).map((bound) => bound.headroom);
  return found.length ? Math.min(...found) : null;
}

/** @param {GraphNode} node @returns {?number} */
function clipped(node) { const found = report.values[node.id]; return found ? found.clipped : null; }

/** @param {GraphNode} node @returns {?number} */
function seconds(node) { const found = report.times[node.id]; return found ? found.seconds : null; }

/** @param {GraphNode} node @returns {?number} operations per second relative to the processor's peak */
function peakShare(node) {
  const found = report.times[node.id];
  if (!found || !found.operations || !found.seconds || !report.header.peak) return null;
  return found.operations / found.seconds / report.header.peak;
}

/** @type {Metric[]} */
const METRICS = [
  { key: "added", label: "SQNR lost here", worst: "low", unit: "dB", of: (node) => sqnr(node, "added") },
  { key: "total", label: "SQNR of the result", worst: "low", unit: "dB", of: (node) => sqnr(node, "total") },
  { key: "time", label: "Time", worst: "high", unit: "\u00b5s", of: (node) => seconds(node) === null ? null : 1e6 * seconds(node) },
  { key: "headroom", label: "Headroom of sums", worst: "low", unit: "bits", of: headroom },
  { key: "clipped", label: "Clipped values", worst: "high", unit: "%", of: (node) => clipped(node) === null ? null : 100 * clipped(node) },
].filter((metric) => nodes.some((node) => finite(metric.of(node))));

/** @param {?number} value @returns {boolean} */
function finite(value) { return value !== null && Number.isFinite(value); }

/** The range of the colours in dB, from the worst value. Without it, one nearly exact kernel would make all others look
 * alike. */
const DECIBELS_SHOWN = 30;

/** The colours of a metric, from good to bad over the values in this report. With `cut`, there are better values than
 * the best colour shows.
 * @param {Metric|undefined} metric @returns {{range: number[], cut: boolean, share: function(GraphNode): ?number}} */
function scaleOf(metric) {
  const values = metric ? nodes.filter(shown).map(metric.of).filter(finite) : [];
  const [low, greatest] = values.length ? [Math.min(...values), Math.max(...values)] : [0, 1];
  const cut = metric !== undefined && metric.unit === "dB" && greatest > low + DECIBELS_SHOWN;
  const high = cut ? low + DECIBELS_SHOWN : greatest;
  const width = high - low || 1;
  return {
    cut,
    range: metric && metric.worst === "low" ? [high, low] : [low, high],
    share: (node) => {
      const value = metric && shown(node) ? metric.of(node) : null;
      if (value === null) return null;
      if (!Number.isFinite(value)) return 0;
      return metric.worst === "low" ? Math.max(0, high - value) / width : (value - low) / width;
    },
  };
}

/** @param {GraphNode} node @returns {boolean} whether a metric colours it */
function shown(node) { return node.kind === "kernel" || node.kind === "float" || node.kind === "other"; }

/** @param {GraphNode} node @returns {string} storage, scale and zero point as MLIR writes them, or the element type */
function typeText(node) {
  const found = node.parameters;
  if (!found) return node.kind === "rescale" ? "\u2013" : node.element;
  const [low, high] = found.scales;
  return low === high ? `${found.storage} ${short(low)}:${found.zero_point}` : `${found.storage} ${short(low)} to ${short(high)}`;
}
