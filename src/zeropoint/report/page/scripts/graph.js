/** The graph: a box per kernel, hatched boxes for float islands, diamonds for rescales, small boxes for conversions that
 * several nodes read. dagre computes the layout, d3 zooms. */

const BOX = { width: 226, height: 46 };
const SIZES = {
  rescale: { width: 54, height: 54 }, input: { width: 170, height: 30 }, output: { width: 170, height: 30 },
  quantize: { width: 170, height: 30 }, dequantize: { width: 170, height: 30 },
};
const NAME_LENGTH = 30;
/** The kinds of nodes that only change how a value is stored. Their box shows the kind. */
const CONVERSIONS = { rescale: true, quantize: true, dequantize: true };

/** @param {GraphNode} node */
function sizeOf(node) { return SIZES[node.kind] || BOX; }

/** @returns {any} the dagre graph with places for nodes and points for edges */
function layOut() {
  const graph = new dagre.graphlib.Graph();
  graph.setGraph({ rankdir: "TB", nodesep: 26, ranksep: 30, marginx: 16, marginy: 16 });
  graph.setDefaultEdgeLabel(() => ({}));
  nodes.forEach((node) => graph.setNode(node.id, { ...sizeOf(node) }));
  nodes.forEach((node) => node.reads.forEach((read) => graph.setEdge(read, node.id)));
  dagre.layout(graph);
  return graph;
}

/** @param {string} text @returns {string} the end of a long name, which distinguishes nodes better than its beginning */
function ending(text) { return text.length > NAME_LENGTH ? `\u2026${text.slice(1 - NAME_LENGTH)}` : text; }

/** @param {GraphNode} node @returns {string} its kernel; of a function of one value, `elementwise_unary (tanh)`, the function */
function kernelText(node) { return ending((/\((.+)\)$/.exec(node.kernel) || ["", node.kernel])[1].replace("stablehlo.", "")); }

class GraphView {
  /** @param {HTMLElement} place @param {function(string): void} select */
  constructor(place, select) {
    this.place = place;
    this.select = select;
    this.layout = layOut();
    this.svg = d3.select(place).append("svg");
    const defs = this.svg.append("defs");
    defs.append("pattern").attr("id", "hatch").attr("width", 7).attr("height", 7)
      .attr("patternUnits", "userSpaceOnUse").attr("patternTransform", "rotate(45)")
      .append("line").attr("y2", 7).attr("stroke", "var(--hatch)").attr("stroke-width", 2).attr("stroke-opacity", .45);
    defs.append("marker").attr("id", "arrow").attr("viewBox", "0 0 8 8").attr("refX", 7).attr("refY", 4)
      .attr("markerWidth", 7).attr("markerHeight", 7).attr("orient", "auto")
      .append("path").attr("d", "M0,0L8,4L0,8z").attr("fill", "var(--muted)");
    this.world = this.svg.append("g");
    this.zoom = d3.zoom().scaleExtent([0.02, 3]).on("zoom", (event) => this.world.attr("transform", event.transform));
    this.svg.call(this.zoom).on("dblclick.zoom", null).on("wheel.zoom", null);
    this.svg.on("wheel", (event) => this.wheel(event), { passive: false });
    this.drawEdges();
    this.drawNodes();
    this.start();
  }

  drawEdges() {
    const line = d3.line().x((point) => point.x).y((point) => point.y).curve(d3.curveBasis);
    this.world.append("g").selectAll("path").data(this.layout.edges()).join("path").attr("class", "edge")
      .attr("marker-end", "url(#arrow)").attr("d", (edge) => line(this.layout.edge(edge).points));
  }

  drawNodes() {
    const groups = this.world.append("g").selectAll("g").data(nodes).join("g")
      .attr("class", (node) => `node ${node.kind}`).attr("data-id", (node) => node.id)
      .attr("role", "button").attr("aria-label", (node) => `${node.kind} ${node.name} ${node.kernel}`)
      .attr("transform", (node) => { const at = this.layout.node(node.id); return `translate(${at.x},${at.y})`; })
      .on("click", (event, node) => this.select(node.id));
    groups.append("title").text((node) => [node.name, node.kernel, node.reason].filter(Boolean).join("\n"));
    groups.filter((node) => node.kind === "rescale").append("path").attr("class", "shape")
      .attr("d", "M0,-26L26,0L0,26L-26,0z").attr("fill", "var(--panel)");
    const boxes = groups.filter((node) => node.kind !== "rescale");
    boxes.append("rect").attr("class", "shape").attr("x", (node) => -sizeOf(node).width / 2)
      .attr("y", (node) => -sizeOf(node).height / 2).attr("width", (node) => sizeOf(node).width)
      .attr("height", (node) => sizeOf(node).height)
      .attr("rx", (node) => shown(node) ? 7 : 15);
    boxes.filter((node) => node.kind === "float").append("rect").attr("x", -BOX.width / 2).attr("y", -BOX.height / 2)
      .attr("width", BOX.width).attr("height", BOX.height).attr("rx", 7).attr("fill", "url(#hatch)")
      .attr("pointer-events", "none");
    groups.append("text").attr("text-anchor", "middle").attr("y", (node) => shown(node) ? -4 : 4)
      .text((node) => node.kind in CONVERSIONS ? node.kind : ending(node.name));
    groups.filter(shown).append("text").attr("class", "small").attr("text-anchor", "middle").attr("y", 14);
    this.groups = groups;
  }

  /** @param {Metric|undefined} metric */
  paint(metric) {
    const scale = scaleOf(metric);
    this.groups.each(function (node) {
      const share = scale.share(node);
      const fill = share === null ? colour(shown(node) ? "good" : "panel") : ramp(share);
      const light = d3.lab(fill).l < 58;
      d3.select(this).classed("light", light).classed("dark", !light).select(".shape").attr("fill", fill);
      const value = metric && shown(node) ? metric.of(node) : null;
      const figure = value === null ? "" : Number.isFinite(value) ? ` \u00b7 ${short(value)} ${metric.unit}` : " \u00b7 exact";
      d3.select(this).select(".small").text(`${kernelText(node)}${figure}`);
    });
    return scale;
  }

  /** @param {WheelEvent} event */
  wheel(event) {
    event.preventDefault();
    if (event.ctrlKey || event.metaKey) {
      this.zoom.scaleBy(this.svg, 2 ** (-event.deltaY / 200), d3.pointer(event));
    } else {
      const at = d3.zoomTransform(this.svg.node()).k;
      this.zoom.translateBy(this.svg, -event.deltaX / at, -event.deltaY / at);
    }
  }

  /** @returns {{width: number, height: number}} */
  size() { return { width: this.place.clientWidth || 400, height: this.place.clientHeight || 600 }; }

  /** The top of the graph at a readable size. */
  start() {
    const { width, height } = this.layout.graph();
    const place = this.size();
    const scale = Math.max(Math.min(1, place.width / width), Math.min(0.55, place.width / 300));
    const top = Math.max(0, (place.height - height * scale) / 2);
    this.zoom.transform(this.svg, d3.zoomIdentity.translate((place.width - width * scale) / 2, Math.min(top, 12)).scale(scale));
  }

  fit() {
    const { width, height } = this.layout.graph();
    const place = this.size();
    const scale = Math.min(1, place.width / width, place.height / height);
    this.zoom.transform(this.svg, d3.zoomIdentity
      .translate((place.width - width * scale) / 2, (place.height - height * scale) / 2).scale(scale));
  }

  /** @param {number} factor */
  scale(factor) { this.zoom.scaleBy(this.svg, factor); }

  /** Mark a node, and move it into view if it is outside. @param {string} id */
  show(id) {
    this.groups.classed("selected", (node) => node.id === id);
    const at = this.layout.node(id);
    const view = d3.zoomTransform(this.svg.node());
    const [x, y] = view.apply([at.x, at.y]);
    const place = this.size();
    if (x < 40 || y < 30 || x > place.width - 40 || y > place.height - 30) this.zoom.translateTo(this.svg, at.x, at.y);
  }

  /** @param {Set<string>|null} found the nodes to keep bright; null: all */
  dim(found) { this.groups.classed("dim", (node) => found !== null && !found.has(node.id)); }
}
