"""The facts of `zeropoint explain` as sentences, for each node."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation

from zeropoint.ir.annotations import EXPRESSED_SUMS, FACTS, INTEGER_SUMS, Fact
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeCastOp
from zeropoint.ir.stablehlo import UniformQuantizeOp
from zeropoint.ir.tensors import element_of
from zeropoint.report.document.graph import ReportGraph, numbered
from zeropoint.report.explain import ExplainedValue, Explanation, Rescale, explain
from zeropoint.report.explain.text import BECAUSE, short


def reasons(program: Program, graph: ReportGraph) -> dict[str, tuple[str, ...]]:
    """Why every value has its parameters, why every rescale exists, and why every island is float."""
    found = explain(program)
    inputs: dict[str, tuple[str, ...]] = {}
    for value in found.values:
        if value.kind == "input":  # an input has an entry for each type that readers quantize it to
            inputs[value.name] = (*inputs.get(value.name, ()), *value_sentences(value))
    floats = [value for value in found.values if value.float_reason]
    quantized = [value for value in found.values if value.kind != "input" and not value.float_reason]
    kernels = dict(zip(numbered([value.name for value in quantized]), quantized, strict=True))
    explained = [node for node in graph.nodes if node.kind == "kernel" and FACTS in graph.ops[node.id][-1].attributes]
    read: dict[tuple[str, str], ExplainedValue] = {(value.name, value.type): value for value in found.values}
    names = dict(zip((node.id for node in explained), numbered([node.name for node in explained]), strict=True))
    sentences: dict[str, tuple[str, ...]] = {}
    for node in graph.nodes:
        value = kernels.get(names.get(node.id, ("", 0)))
        if node.kind == "input" and node.name in inputs:
            sentences[node.id] = inputs[node.name]
        elif node.kind == "kernel" and value is not None:
            sentences[node.id] = value_sentences(value)
        elif node.kind == "kernel":
            sentences[node.id] = (ACCUMULATOR,)
        elif node.kind == "float":
            made = [value for value in floats if value.name in (node.name, *node.covers)]
            types = [sentence for value in made for sentence in read_sentences(value)]
            what = "Has steps in float" if node.reason.startswith(INTEGER_SUMS) else "Stays in float"
            sentences[node.id] = (f"{what}: {node.reason}.", *types)
        elif node.kind == "quantize":
            value = read.get((node.name, _quantized_type(graph.ops[node.id])))
            sentences[node.id] = () if value is None else value_sentences(value)
        elif node.kind == "dequantize":
            readers = ", ".join(f"'{one.name}'" for one in graph.nodes if node.id in one.reads)
            sentences[node.id] = (f"{_listed(readers)} read floats, so the integers are converted once.",)
    return sentences | _rescales(found, graph)


ACCUMULATOR = "Only float ops read this result, so the accumulator is dequantized directly, without rounding to 8 bits."


def _quantized_type(ops: Sequence[Operation]) -> str:
    """The type that the last quantize op of a node produces."""
    kinds = [element_of(op.results[0]) for op in ops if isinstance(op, QuantizeCastOp | UniformQuantizeOp)]
    return str(kinds[-1])


def read_sentences(value: ExplainedValue) -> tuple[str, ...]:
    """A sentence that names the kernels that quantize a float value, then the facts of its type."""
    readers = _listed(", ".join(f"'{name}'" for name in value.read_by)) or "its readers"
    return f"It is quantized for {readers}.", *value_sentences(value)


def value_sentences(value: ExplainedValue) -> tuple[str, ...]:
    """A sentence for each fact of a value, in the order of the decisions."""
    return tuple(fact_sentence(fact) for fact in value.facts)


def fact_sentence(fact: Fact) -> str:
    """A fact as a sentence: its value, the reason, and the source."""
    if fact == EXPRESSED_SUMS:
        return ACCUMULATOR
    because, value = BECAUSE[fact.salience], short(fact.value)
    sentence = SENTENCES.get(fact.name, "{name} {value}, {because} ({source}).")
    listed = _listed(value) if fact.name == "same scale" else value
    text = sentence.format(name=fact.name, value=listed, because=because, source=fact.source)
    return text[:1].upper() + text[1:]


SENTENCES = {
    "range": "range {value}, {because} ({source}).",
    "same scale": "{value} share one scale, because {source} requires it.",
    "parameters": "the type is {value}, {because} ({source}).",
    "corrected": "correction {source}: {value}.",
    "bits": "storage of {value} bits, {because} ({source}).",
    "weight scale": "weight scale {value}, {because} ({source}).",
}
"""The sentence of each fact, by name."""


def _listed(text: str) -> str:
    *first, last = text.split(", ")
    return f"{', '.join(first)} and {last}" if first else last


def _rescales(found: Explanation, graph: ReportGraph) -> dict[str, tuple[str, ...]]:
    nodes = [node.id for node in graph.nodes if node.kind == "rescale"]
    return {node: rescale_sentences(one) for node, one in zip(nodes, found.rescales, strict=True)}


def rescale_sentences(rescale: Rescale) -> tuple[str, ...]:
    """Sentences about the two requirements that conflict at a rescale."""
    readers = _listed(", ".join(f"'{name}'" for name in rescale.read_by)) or "its reader"
    return (
        f"'{rescale.value}' has {short(rescale.has)}: {rescale.why_has}.",
        f"For {readers}, it has to be {short(rescale.required)}: {rescale.why_required}.",
        "The two requirements conflict, so the value is converted from one scale to the other.",
    )
