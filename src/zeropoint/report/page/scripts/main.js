/** Puts the page together: one selection, one search, one metric, seen by the graph, the panel and the table. */

let selected = "";
let metric = METRICS[0];

/** @param {string} id */
function select(id) {
  const node = nodeById.get(id);
  if (!node) return;
  selected = id;
  graphView.show(id);
  tableView.show(id);
  showDetail(node);
}

function paint() {
  const { range: [from, to], cut } = graphView.paint(metric);
  byId("legend").replaceChildren(...(metric ? [`${cut ? "\u2265 " : ""}${short(from)}`, element("i"), `${short(to)} ${metric.unit}`] : []));
}

/** @param {string} text */
function search(text) {
  const wanted = text.trim().toLowerCase();
  const found = wanted === "" ? null : new Set(nodes.filter((node) =>
    [node.name, node.kernel, ...node.covers].some((name) => name.toLowerCase().includes(wanted))).map((node) => node.id));
  graphView.dim(found);
  tableView.found = found;
  tableView.draw();
  byId("matches").textContent = found === null ? "" : `${found.size} found`;
  return found;
}

/** The next node in program order, among those found. @param {number} step */
function move(step) {
  const kept = nodes.filter((node) => tableView.found === null || tableView.found.has(node.id));
  const at = kept.findIndex((node) => node.id === selected);
  const next = kept[at < 0 ? 0 : (at + step + kept.length) % kept.length];
  if (next) select(next.id);
}

/** @type {Object<string, function(): void>} */
const KEYS = {
  ArrowDown: () => move(1), ArrowRight: () => move(1), ArrowUp: () => move(-1), ArrowLeft: () => move(-1),
  "+": () => graphView.scale(1.3), "-": () => graphView.scale(1 / 1.3), 0: () => graphView.fit(),
  Enter: () => byId("detail").focus(),
};

const graphView = new GraphView(byId("graph"), select);
const tableView = new TableView(byId("table"), select);

byId("metric").append(...METRICS.map((one) => element("option", { value: one.key }, one.label)));
byId("metric").addEventListener("change", () => {
  metric = METRICS.find((one) => one.key === byId("metric").value);
  paint();
});
byId("kind").addEventListener("change", () => { tableView.kind = byId("kind").value; tableView.draw(); });
byId("search").addEventListener("input", () => search(byId("search").value));
byId("search").addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
  if (event.key === "Enter") move(event.shiftKey ? -1 : 1);
  if (event.key === "Escape") { byId("search").value = ""; search(""); byId("graph").focus(); }
});
byId("zoom-in").addEventListener("click", () => graphView.scale(1.3));
byId("zoom-out").addEventListener("click", () => graphView.scale(1 / 1.3));
byId("zoom-fit").addEventListener("click", () => graphView.fit());
byId("graph").addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
  if (KEYS[event.key] && !event.ctrlKey && !event.metaKey) { event.preventDefault(); KEYS[event.key](); }
});
document.addEventListener("keydown", (event) => {
  const typing = event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement;
  if (event.key === "/" && !typing) { event.preventDefault(); byId("search").focus(); }
});
byId("save-json").addEventListener("click", () => save(`${stem}.report.json`, "application/json", JSON.stringify(report, null, 1)));
byId("save-csv").addEventListener("click", () => save(`${stem}.report.csv`, "text/csv", csv(tableView.rows())));
onTheme.push(() => { paint(); tableView.draw(); if (selected) select(selected); });
window.addEventListener("resize", () => {
  if (selected) showDetail(nodeById.get(selected));
  if (selected) graphView.show(selected);
});

showHeader();
showWorst(select);
showNotes();
paint();
const worstFirst = nodes.filter((node) => node.kind === "kernel" && finite(sqnr(node, "added")))
  .sort((a, b) => sqnr(a, "added") - sqnr(b, "added"));
const linked = decodeURIComponent(location.hash.slice(1));
const first = nodes.find((node) => node.name === linked) || worstFirst[0] || nodes.find(shown) || nodes[0];
if (first) select(first.id);
