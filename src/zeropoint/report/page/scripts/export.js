/** The report as JSON and its table as CSV. */

/** @param {string} name @param {string} type @param {string} text */
function save(name, type, text) {
  const link = element("a", { href: URL.createObjectURL(new Blob([text], { type })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.getAttribute("href")), 1000);
}

/** @param {any} value @returns {string} */
function csvCell(value) {
  if (value === null || value === undefined) return "";
  const text = String(value);
  return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** @param {GraphNode[]} listed @returns {string} raw numbers: SQNR in dB, times in seconds, shares from 0 to 1 */
function csv(listed) {
  const rows = [COLUMNS.map((column) => column.key), ...listed.map((node) => COLUMNS.map((column) => column.of(node)))];
  return rows.map((row) => row.map(csvCell).join(",")).join("\n") + "\n";
}

const stem = report.header.model.replace(/\.[^.]*$/, "").replace(/[^\w.-]+/g, "_") || "report";
