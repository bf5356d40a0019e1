/** The table of all nodes: sorted by any column, filtered by kind and by name. */

/** @typedef {{key: string, label: string, text?: boolean, of: function(GraphNode): any, show: function(any): string}} Column */

/** @type {Column[]} */
const COLUMNS = [
  { key: "name", label: "name", text: true, of: (node) => node.name, show: String },
  { key: "kernel", label: "kernel", text: true, of: (node) => node.kernel || node.kind, show: String },
  { key: "shape", label: "shape", text: true, of: (node) => node.shape.join("\u00d7"), show: String },
  { key: "type", label: "type", text: true, of: (node) => typeText(node), show: String },
  { key: "sqnr", label: "SQNR, dB", of: (node) => sqnr(node, "total"), show: (value) => fixed(value, 1) },
  { key: "added", label: "own noise, dB", of: (node) => sqnr(node, "added"), show: (value) => fixed(value, 1) },
  { key: "clipped", label: "clipped", of: clipped, show: (value) => value === null ? "\u2013" : percent(value) },
  { key: "headroom", label: "headroom, bits", of: headroom, show: (value) => fixed(value, 0) },
  { key: "seconds", label: "time", of: seconds, show: (value) => value === null ? "\u2013" : duration(value) },
  { key: "share", label: "of all time", of: (node) => seconds(node) === null || !totalSeconds ? null : seconds(node) / totalSeconds, show: (value) => value === null ? "\u2013" : percent(value) },
  { key: "peak", label: "of peak", of: peakShare, show: (value) => value === null ? "\u2013" : percent(value) },
].filter((column) => column.text || nodes.some((node) => column.of(node) !== null));

class TableView {
  /** @param {HTMLElement} table @param {function(string): void} select */
  constructor(table, select) {
    this.table = table;
    this.select = select;
    this.order = { key: "", descending: false };
    this.kind = "";
    /** @type {Set<string>|null} */
    this.found = null;
    this.selected = "";
    this.draw();
  }

  rows() {
    const kept = nodes.filter((node) => (this.kind === "" ? node.kind !== "output" : node.kind === this.kind) &&
      (this.found === null || this.found.has(node.id)));
    const column = COLUMNS.find((one) => one.key === this.order.key);
    if (!column) return kept;
    const sign = this.order.descending ? -1 : 1;
    return kept.map((node, index) => ({ node, index, value: column.of(node) })).sort((a, b) => {
      if (a.value === null || b.value === null) return (a.value === null ? 1 : 0) - (b.value === null ? 1 : 0) || a.index - b.index;
      const before = column.text ? String(a.value).localeCompare(String(b.value)) : a.value === b.value ? 0 : a.value < b.value ? -1 : 1;
      return sign * before || a.index - b.index;
    }).map((row) => row.node);
  }

  /** @param {string} key */
  sort(key) {
    const again = this.order.key === key;
    if (again && this.order.descending) this.order = { key: "", descending: false };  // back to program order
    else this.order = { key, descending: again };
    this.draw();
    this.table.querySelector(`th[data-key="${key}"] button`)?.focus();
  }

  draw() {
    const head = element("tr", {}, ...COLUMNS.map((column) => element("th", {
      class: column.text ? "text" : "", "data-key": column.key, scope: "col",
      "aria-sort": this.order.key !== column.key ? "none" : this.order.descending ? "descending" : "ascending",
    }, element("button", { type: "button", onclick: () => this.sort(column.key) }, column.label))));
    const listed = this.rows();
    const scale = scaleOf(METRICS[0]);
    const rows = listed.map((node) => {
      const share = scale.share(node);
      const swatch = element("span", { class: "swatch", style: `background:${share === null ? "transparent" : ramp(share)}` });
      const cells = COLUMNS.map((column) => element("td", {
        class: `${column.text ? "text" : ""} ${column.key === "name" ? "name" : ""}`, title: column.text ? column.of(node) : null,
      }, column.key === "name" ? swatch : "", column.show(column.of(node))));
      return element("tr", {
        "data-id": node.id, tabindex: "0", class: node.id === this.selected ? "selected" : "",
        onclick: () => this.open(node.id),
        onkeydown: (/** @type {KeyboardEvent} */ event) => { if (event.key === "Enter") this.open(node.id); },
      }, ...cells);
    });
    this.table.replaceChildren(element("thead", {}, head), element("tbody", {}, ...rows));
    byId("rows").textContent = `${listed.length} of ${nodes.filter((node) => node.kind !== "output").length}`;
  }

  /** @param {string} id */
  open(id) {
    this.select(id);
    byId("detail").scrollIntoView({ block: "start" });
  }

  /** @param {string} id */
  show(id) {
    this.selected = id;
    this.table.querySelectorAll("tbody tr").forEach((row) => row.classList.toggle("selected", row.getAttribute("data-id") === id));
  }
}
