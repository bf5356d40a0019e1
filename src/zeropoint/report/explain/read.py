"""Read the facts in a program, at any stage of compilation.

A fused or propagated program has facts on its regions. A quantized or integer program has them on the ops that produce
the values (`zeropoint.facts`), on rescales (`zeropoint.rescale`) and on ops that stay float
(`zeropoint.float_reason`). Ops without facts, such as a sum of products before its requantization, are skipped when the
producers and readers of a value are searched.

Source: the project's design, "every decision can be explained".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from xdsl.dialects.builtin import StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, OpResult, SSAValue, Use

from zeropoint.errors import Error
from zeropoint.ir.annotations import (
    BUDGET,
    CORRECTIONS,
    DEMANDS,
    EXPRESSED,
    FACTS,
    FLOAT_REASON,
    KERNEL,
    RESCALE,
    Fact,
    facts_by_type,
    facts_name,
    facts_of,
    listed_facts,
    unique_name,
)
from zeropoint.ir.captured import captured
from zeropoint.ir.locations import location_text, model_names, value_name
from zeropoint.ir.program import Program
from zeropoint.ir.quant import (
    QuantizeCastOp,
    QuantizeRegionOp,
    StatisticsOp,
    StatisticsRefOp,
    UniformQuantizedType,
)
from zeropoint.ir.stablehlo import BroadcastInDimOp, ConstantOp, ConvertOp, ReshapeOp, TransposeOp, UniformQuantizeOp
from zeropoint.ir.tensor_names import ops_of_tensor
from zeropoint.ir.tensors import element_of
from zeropoint.report.counts import computing, is_edge, is_float, is_not_integer, is_same_kernel, why_float, with_bodies
from zeropoint.report.explain.explanation import Explanation
from zeropoint.report.explain.records import ExplainedOutput, ExplainedValue, FloatOp, Missing, Rescale


class ExplanationError(Error, ValueError):
    """The program has no value of the given name, or nothing to explain."""


def _name(op: Operation) -> str:
    return location_text(op.location) or op.name


def _is_stop(op: Operation) -> bool:
    """Whether an op produces a value that explanations name."""
    if FACTS in op.attributes or isinstance(op, QuantizeRegionOp) or FLOAT_REASON in op.attributes:
        return True
    # A float op that no kernel covers. Ops that only repeat or move constants do not count.
    return _floats(op) and not isinstance(op, ConstantOp) and any(map(_is_computed, _read_by(op)))


def _is_computed(value: SSAValue) -> bool:
    """Whether a value is neither a constant nor a broadcast, reshape or transpose of one."""
    owner = value.owner
    while isinstance(owner, BroadcastInDimOp | ReshapeOp | TransposeOp):
        owner = owner.operand.owner
    return not isinstance(owner, ConstantOp)


@dataclass(frozen=True)
class _Names:
    """The names of the program's inputs, and the position of each op."""

    inputs: dict[SSAValue, str]
    positions: dict[Operation, int]

    @staticmethod
    def of(program: Program) -> _Names:
        ports = zip(program.entry.args, program.inputs, strict=True)
        inputs: dict[SSAValue, str] = {argument: port.name for argument, port in ports}
        return _Names(inputs, {op: index for index, op in enumerate(program.entry.ops)})

    def name(self, value: SSAValue) -> str:
        """The name of an input, the unique name of a kernel, or the name of an op.

        The number of the result follows if the op has several: `split#1`.
        """
        if isinstance(value.owner, Block):
            return self.inputs[value]
        return _unique(value) or value_name(value)

    def position(self, value: SSAValue) -> tuple[int, int]:
        """A key that sorts arguments first, by index, then results in program order."""
        if isinstance(value, BlockArgument):
            return 0, value.index
        assert isinstance(value.owner, Operation)
        return 1, self.positions[value.owner]


def _unique(value: SSAValue) -> str | None:
    """The unique name of a result of an op; None without one."""
    assert isinstance(value, OpResult)
    name = unique_name(value.op)
    return name if name is None or len(value.op.results) == 1 else f"{name}#{value.index}"


def _nearest(
    start: Iterable[SSAValue], step: Callable[[SSAValue], Iterator[SSAValue]], known: _Names
) -> tuple[str, ...]:
    """The names of the first named values found from `start` in the direction of `step`, in program order."""
    found: dict[SSAValue, str] = {}
    seen: set[SSAValue] = set()
    pending = list(start)
    while pending:
        value = pending.pop(0)
        if value in seen:
            continue
        seen.add(value)
        if isinstance(value, BlockArgument) or (isinstance(value.owner, Operation) and _is_stop(value.owner)):
            found[value] = known.name(value)
        else:
            pending += step(value)
    return tuple(dict.fromkeys(found[value] for value in sorted(found, key=known.position)))


def _operands(value: SSAValue) -> Iterator[SSAValue]:
    owner = value.owner
    return iter(()) if isinstance(owner, Block | ConstantOp) else _read_by(owner)


def _read_by(op: Operation) -> Iterator[SSAValue]:
    """The operands of an op, and the values that its loop bodies or branches read from outside of them."""
    yield from op.operands
    yield from captured(op.regions)


def _results(value: SSAValue) -> Iterator[SSAValue]:
    for use in value.uses:
        yield from _in_function(use.operation).results


def _in_function(op: Operation) -> Operation:
    """The op itself, or the outermost loop or branch around it."""
    while (around := op.parent_op()) is not None and not isinstance(around, FuncOp):
        op = around
    return op


def _facts(op: Operation, number: int) -> tuple[str, tuple[str, ...], tuple[Fact, ...]]:
    """The kernel, the names that it covers, and the other facts of result `number` of an op."""
    if isinstance(op, QuantizeRegionOp):
        inside = (location_text(inner.location) for inner in op.body.block.ops)
        names = dict.fromkeys(name for name in inside if name is not None)
        return op.logical_kernel.data, tuple(names), (*facts_of(op, DEMANDS), *facts_of(op, facts_name(number)))
    facts = facts_of(op)
    if not facts or facts[0].name != "kernel":
        return op.name, (), tuple(facts)
    kernel, *facts = [fact for fact in facts if fact.name != "unique name"]
    return kernel.value, tuple(kernel.source.split(", ")) if kernel.source else (), tuple(facts)


def _type(value: SSAValue, facts: tuple[Fact, ...]) -> str:
    """The quantized type of a value: that of its port, the one recorded for its integers, or that of the last fact.

    Without any of these, it is the value's element type.
    """
    owner = value.owner
    if isinstance(value, OpResult) and isinstance(owner, QuantizeRegionOp) and FLOAT_REASON not in owner.attributes:
        return str(owner.output_specs.data[value.index])
    expressed = owner.attributes.get(EXPRESSED) if isinstance(owner, Operation) else None
    if isinstance(expressed, UniformQuantizedType):
        return str(expressed)
    decided = [fact.value for fact in facts if fact.name == "parameters"]
    return decided[-1] if decided else str(element_of(value))


def _inputs(program: Program, known: _Names) -> Iterator[ExplainedValue]:
    attributes = program.main.arg_attrs
    for index, argument in enumerate(program.entry.args):
        listed = attributes.data[index].data.get(FACTS) if attributes is not None else None
        name = known.name(argument)
        for kind, facts, read in _quantized_by_readers(argument, tuple(listed_facts(listed))):
            yield ExplainedValue(name, "input", (name,), kind, facts, (), _nearest(read, _results, known))


def _quantized_by_readers(
    argument: SSAValue, facts: tuple[Fact, ...]
) -> Iterator[tuple[str, tuple[Fact, ...], Iterable[SSAValue]]]:
    """Each type that readers quantize a float value to, with its facts and the results of the readers.

    If the readers agree, there is one entry.
    """
    parts = facts_by_type(facts)
    results: dict[str, list[SSAValue]] = {}
    for use in argument.uses:
        if (kind := _type_at(use)) is not None:
            results.setdefault(str(kind), []).extend(_in_function(use.operation).results)
    if len(parts) < 2 or len(results) < 2:
        yield _type(argument, facts), facts, tuple(_results(argument))
        return
    for kind, part in parts.items():
        yield kind, part, results.get(kind, tuple(_results(argument)))


def _type_at(use: Use) -> UniformQuantizedType | None:
    """The type that an op quantizes its operand to; None if it does not."""
    op = use.operation
    if isinstance(op, QuantizeRegionOp):
        found = op.input_specs.data[use.index]
    else:
        found = element_of(op.results[0]) if isinstance(op, UniformQuantizeOp | QuantizeCastOp) else None
    return found if isinstance(found, UniformQuantizedType) else None


def _values(program: Program, known: _Names) -> Iterator[ExplainedValue]:
    yield from _inputs(program, known)
    for op in program.entry.ops:
        region = isinstance(op, QuantizeRegionOp)
        if RESCALE in op.attributes:
            continue
        if floats := tuple(_floats_read(op, known)):
            yield from floats
            continue
        if not (region or FACTS in op.attributes):
            continue
        makers = _nearest(_read_by(op), _operands, known)
        for result in op.results if region else op.results[:1]:
            kind, names, facts = _facts(op, result.index)
            readers = _nearest(_results(result), _results, known)
            shown = value_name(result), kind, names, _type(result, facts), facts, makers, readers
            yield ExplainedValue(*shown, _unique(result) or "")


def _floats_read(op: Operation, known: _Names) -> Iterator[ExplainedValue]:
    """Float values that kernels read: results of the op, or the float value that it quantizes for the kernels."""
    if isinstance(op, UniformQuantizeOp):
        facts, made = tuple(facts_of(op)), op.operand
        if _are_of_float(facts):
            while isinstance(made.owner, ConvertOp) and is_edge(made.owner):
                made = made.owner.operand
            readers = _nearest(_results(op.result), _results, known)
            yield _float_value(made, value_name(op.result), known, str(element_of(op.result)), facts, readers)
        return
    is_kernel = isinstance(op, QuantizeRegionOp) and FLOAT_REASON not in op.attributes
    for result in op.results if is_float(op) and not is_kernel else ():
        if _are_of_float(facts := tuple(facts_of(op, facts_name(result.index)))):
            for kind, part, read in _quantized_by_readers(result, facts):
                yield _float_value(result, value_name(result), known, kind, part, _nearest(read, _results, known))


def _are_of_float(facts: tuple[Fact, ...]) -> bool:
    """Whether facts belong to a float value that kernels read. The facts of a kernel's result begin with the kernel."""
    return bool(facts) and facts[0].name != "kernel"


def _float_value(
    value: SSAValue, name: str, known: _Names, kind: str, facts: tuple[Fact, ...], readers: tuple[str, ...]
) -> ExplainedValue:
    """A float value that kernels read as a quantized type."""
    op = value.owner
    assert isinstance(op, Operation)
    if isinstance(op, QuantizeRegionOp):
        kernel, names, _ = _facts(op, 0)
        makers = _nearest(_read_by(op), _operands, known)
    else:
        stated, island = op.attributes.get(KERNEL), _island(op)
        kernel = stated.data if isinstance(stated, StringAttr) else op.name
        names = tuple(dict.fromkeys(_name(one) for one in sorted(island, key=known.positions.__getitem__)))
        before = [operand for one in island for operand in _read_by(one) if operand.owner not in island]
        makers = _nearest(before, _operands, known)
    return ExplainedValue(name, kernel, names, kind, facts, makers, readers, float_reason=why_float(op))


def _island(op: Operation) -> set[Operation]:
    """A float op, and the ops before it that belong to the same kernel, without constants."""
    found, pending = {op}, [op]
    while pending:
        last = pending.pop()
        owners = {operand.owner for operand in last.operands} - found
        same = [made for made in owners if isinstance(made, Operation) and is_same_kernel(last, made)]
        found.update(same)
        pending += same
    return found


def _rescales(program: Program, known: _Names) -> Iterator[Rescale]:
    for op in program.entry.ops:
        if RESCALE not in op.attributes or not op.results:
            continue
        demands = {fact.name: fact for fact in facts_of(op)}
        text = op.attributes[RESCALE]
        whole = Fact("", text.data if isinstance(text, StringAttr) else "", "kernel", "")
        has, required = demands.get("has", whole), demands.get("required", whole)
        readers = _nearest(_results(op.results[0]), _results, known)
        yield Rescale(_name(op), has.source, required.source, has.value, required.value, readers)


def _float_ops(block: Block) -> Iterator[FloatOp]:
    """The ops that compute in float, as `count_ops` counts them.

    All ops of a region that stays float count. The ops of a region without a decision do not.
    """
    constants = {value for op in block.ops if isinstance(op, ConstantOp) for value in op.results}
    for op in computing(block.ops):
        if not isinstance(op, QuantizeRegionOp):
            yield from (FloatOp(inner.name, _name(inner), why_float(op)) for inner in with_bodies(op) if _floats(inner))
        elif isinstance(reason := op.attributes.get(FLOAT_REASON), StringAttr):
            ports = zip(op.body.block.args, op.operands, strict=True)
            inside = computing(op.body.block.ops, (argument for argument, value in ports if value in constants))
            yield from (FloatOp(inner.name, _name(inner), reason.data) for inner in inside if _floats(inner))


def _floats(op: Operation) -> bool:
    """Whether an op computes in float; ops that only observe values do not."""
    return is_not_integer(op) and not isinstance(op, StatisticsOp | StatisticsRefOp)


def _missing(block: Block) -> Iterator[Missing]:
    """The values that still need statistics."""
    for op in block.ops:
        if isinstance(op, StatisticsRefOp):
            made = op.arg.owner
            kind = made.logical_kernel.data if isinstance(made, QuantizeRegionOp) else getattr(made, "name", "input")
            yield Missing(op.stats_key.data, kind if isinstance(made, Operation) else "input")


def _outputs(program: Program, known: _Names) -> Iterator[ExplainedOutput]:
    last = program.entry.last_op
    assert last is not None
    for port, value in zip(program.outputs, last.operands, strict=True):
        yield ExplainedOutput(port.name, _nearest([value], _operands, known))


def stands_for(program: Program, name: str) -> tuple[str, ...]:
    """The names of the values and ops that the name of an output, a tensor or a constant stands for.

    A constant stands for the values that are computed from it.
    """
    known = _Names.of(program)
    made = [maker for output in _outputs(program, known) if output.name == name for maker in output.made_by]
    return tuple(made) or ops_of_tensor(program.module, name) or _readers_of_constant(program, name, known)


def _readers_of_constant(program: Program, name: str, known: _Names) -> tuple[str, ...]:
    """The values that are computed from a constant, such as the result of the convolution with a weight."""
    start: list[SSAValue] = []
    for op in program.entry.ops:
        if any(isinstance(inner, ConstantOp) and name in model_names(inner) for inner in op.walk()):
            start += _results(op.results[0]) if isinstance(op, ConstantOp) else op.results
    return _nearest(start, _results, known)


def explain(program: Program, value: str | None = None) -> Explanation:
    """The records of a program about its values, rescales and float ops.

    `value` restricts them to one name of the original model: of an op, a value, an input, an output, a tensor or a
    weight. Raises ExplanationError for an unknown name.
    """
    known = _Names.of(program)
    found = Explanation(
        tuple(_values(program, known)),
        tuple(_rescales(program, known)),
        tuple(_float_ops(program.entry)),
        tuple(_missing(program.entry)),
        tuple(facts_of(program.module, CORRECTIONS)),
        tuple(facts_of(program.module, BUDGET)),
        tuple(_outputs(program, known)),
    )
    if value is None:
        return found
    part = found.of(value)
    if not part and (others := stands_for(program, value)):
        part = found.of(*others)
    if not part:
        names = list(dict.fromkeys((*found.names(), *_constant_names(program))))
        raise ExplanationError(f"found no value '{value}' in the program, expected {_nearby(value, names)}")
    return part


def _constant_names(program: Program) -> list[str]:
    """The names of weights and biases."""
    constants = (op for op in program.entry.walk() if isinstance(op, ConstantOp))
    return list(dict.fromkeys(name for op in constants for name in model_names(op)))


def _nearby(name: str, names: list[str]) -> str:
    """The end of a message about an unknown name: a few similar names, or the first ones."""
    from difflib import get_close_matches

    close = get_close_matches(name, names, 4, 0.5) or names[:4]
    listed: list[Attribute | str] = [f"'{found}'" for found in close]
    return f"a name of the original model, such as {', '.join(map(str, listed))}" if listed else "a quantized program"
