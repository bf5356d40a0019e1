"""Check that a program's specs obey the target's table, and that it is fully quantized.

Source: the RFC on quantization transformations, section "Propagation pass". At each step, the constraints of the
current kernel are satisfied. A model is fully quantized when every quantizable port of every kernel has parameters.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from xdsl.dialects.builtin import AnyFloat, StringAttr
from xdsl.ir import Attribute, OpResult, SSAValue

from zeropoint.ir.annotations import FLOAT_REASON, TARGET
from zeropoint.ir.constants import is_constant
from zeropoint.ir.locations import named_kernel, written_name
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp, Storage, UniformQuantizedType
from zeropoint.ir.regions import regions_of
from zeropoint.ir.stablehlo import ConvolutionOp, DotGeneralOp
from zeropoint.ir.tensors import element_of
from zeropoint.numerics.ranges import held_scale
from zeropoint.solve.errors import PropagationError
from zeropoint.solve.functions import Types, ask, is_settable, open_type
from zeropoint.solve.kernel import result_ports
from zeropoint.solve.operands import product_scales
from zeropoint.solve.rescale import is_rescale
from zeropoint.targets import (
    OUTPUT,
    Custom,
    FixedScale,
    KernelRow,
    KernelSignature,
    Role,
    SameScale,
    Target,
)

ACCUMULATOR = Storage.of("i32")
CONTRACTED = ("input", "weight", "bias")
"""The inputs of a contraction."""


def region_name(region: QuantizeRegionOp) -> str:
    """Kernel and location: `convolution 'conv1'`."""
    return named_kernel(region.logical_kernel.data, region.outputs[0])


def unquantized_ports(program: Program) -> list[str]:
    """One sentence for each quantizable port without a uniform type; empty if the program is fully quantized."""
    return [sentence for region in regions_of(program) for sentence in _unquantized(region)]


def _unquantized(region: QuantizeRegionOp) -> Iterator[str]:
    for kind, index, value, spec in _ports(region):
        if isinstance(element_of(value), AnyFloat) and not isinstance(spec, UniformQuantizedType):
            yield f"{region_name(region)}: {_port_name(region, kind, index)} has {spec}{_reason(region)}"


def _port_name(region: QuantizeRegionOp, kind: str, index: int) -> str:
    """The name of a port in messages, without a row of a target: `weight` for a contraction, else `output` or `input
    1`."""
    contracts = any(isinstance(op, ConvolutionOp | DotGeneralOp) for op in region.body.block.ops)
    if kind == "input" and contracts and index < len(CONTRACTED):
        return CONTRACTED[index]
    several = len(region.inputs if kind == "input" else region.outputs) > 1
    return f"{kind} {index}" if several else kind


def check_fully_quantized(program: Program) -> Program:
    """Return the program. Raises PropagationError, which lists the ports, if it is not fully quantized."""
    left = unquantized_ports(program)
    if left:
        first = next((region for region in regions_of(program) if any(_unquantized(region))), None)
        raise PropagationError(f"found {len(left)} ports without parameters, expected none: {'; '.join(left)}", first)
    return program


def _reason(region: QuantizeRegionOp) -> str:
    found = region.attributes.get(FLOAT_REASON)
    return f" ({found.data})" if isinstance(found, StringAttr) else ""


def _ports(region: QuantizeRegionOp) -> Iterator[tuple[str, int, SSAValue, Attribute]]:
    for kind, values, specs in (
        ("input", region.inputs, region.input_specs),
        ("output", region.outputs, region.output_specs),
    ):
        for index, (value, spec) in enumerate(zip(values, specs, strict=True)):
            yield kind, index, value, spec


def violations(program: Program, target: Target) -> list[str]:
    """One sentence for each port whose type contradicts its kernel's row or the op that defines its value."""
    return [sentence for region in regions_of(program) for sentence in _of_region(region, target)]


def check_kernels(program: Program, target: Target) -> Program:
    """Return the program. Raises PropagationError, which lists all violations, if a kernel's constraints do not
    hold."""
    found = violations(program, target)
    if found:
        first = next(region for region in regions_of(program) if any(_of_region(region, target)))
        raise PropagationError(f"found {len(found)} constraints that do not hold: {'; '.join(found)}", first)
    given = program.module.attributes.get(TARGET)
    if isinstance(given, StringAttr) and given.data != target.name:
        raise PropagationError(f"found a program for target {given}, expected '{target.name}'", program.main)
    return program


def _of_region(region: QuantizeRegionOp, target: Target) -> Iterator[str]:
    types: dict[int, UniformQuantizedType] = {}
    for kind, index, _, spec in _ports(region):
        if isinstance(spec, UniformQuantizedType):
            types[~index if kind == "output" else index] = spec
    if not types:
        return
    name = region_name(region)
    for index, value in enumerate(region.inputs):
        if index in types and _made_type(value) not in (None, types[index]):
            port = _port_name(region, "input", index)
            yield f"{name}: {port} is read as {types[index]}, '{written_name(value)}' is not of that type"
    if is_rescale(region):
        if types.get(0) == types.get(OUTPUT):
            yield f"{name}: changes nothing"
        return
    if (target.real_results or target.unrounded_results) and _gives_accumulators(region, types):
        del types[OUTPUT]  # after `express-accumulators`, a result that only floats read keeps its i32 accumulator
    for sentence in (*_of_scales(region, types, target), *_of_row(region, types, target)):
        yield f"{name}: {sentence}"


def _made_type(value: SSAValue) -> UniformQuantizedType | None:
    """The type that a region gives its result; None if no region quantizes the value."""
    if not isinstance(value, OpResult) or not isinstance(value.op, QuantizeRegionOp):
        return None
    spec = value.op.output_specs.data[value.index]
    return spec if isinstance(spec, UniformQuantizedType) else None


def _of_row(region: QuantizeRegionOp, types: dict[int, UniformQuantizedType], target: Target) -> Iterator[str]:
    row = _row(region, types, target)
    if row is None:
        yield f"target {target.name} has no row for {_signature(region, types)}"
        return
    yield from _of_rules(row, types)
    yield from _of_bias(region, row, types)
    yield from _of_relation(region, row, types)


def _gives_accumulators(region: QuantizeRegionOp, types: dict[int, UniformQuantizedType]) -> bool:
    """Whether the output is a contraction's accumulator: i32 at scale s_in * s_w, zero point 0."""
    output = types.get(OUTPUT)
    if output is None or output.storage != ACCUMULATOR or 0 not in types or 1 not in types:
        return False
    if not any(isinstance(op, ConvolutionOp | DotGeneralOp) for op in region.body.block.ops):
        return False
    scales = product_scales(region, types[1])
    products = types[0].scale * (types[1].scales if scales is None else scales)
    return not output.zero_points.any() and np.array_equal(output.scales, products)


def _signature(region: QuantizeRegionOp, types: dict[int, UniformQuantizedType]) -> KernelSignature:
    def storage(index: int) -> Storage | None:
        found = types.get(index)
        return None if found is None else found.storage

    output, *more = (storage(~i) for i in range(len(region.outputs)))
    return KernelSignature(tuple(storage(i) for i in range(len(region.inputs))), output, tuple(more))


def _row(region: QuantizeRegionOp, types: dict[int, UniformQuantizedType], target: Target) -> KernelRow | None:
    """The first row that fits the storages and zero points; else the first that fits the storages, or None."""
    rows = list(target.fitting(region.logical_kernel.data, _signature(region, types)))
    return next((row for row in rows if not any(_of_rules(row, types))), next(iter(rows), None))


def _of_scales(region: QuantizeRegionOp, types: dict[int, UniformQuantizedType], target: Target) -> Iterator[str]:
    """Sentences for scales that are not powers of two, on a target that requires them.

    f32 scales are not checked, because the product of two f32 scales is not exact in f32.
    """
    for port, found in types.items():
        wrong = held_scale(found.scales, target.scale_type) != found.scales
        if target.scale_type == "power_of_two" and bool(np.any(wrong)):
            named = _port_name(region, *(("output", ~port) if port < 0 else ("input", port)))
            scale = float(np.atleast_1d(found.scales)[np.atleast_1d(wrong)][0])
            yield f"{named} has scale {scale:g}, expected a power of two"


def _of_rules(row: KernelRow, types: dict[int, UniformQuantizedType]) -> Iterator[str]:
    for port, found in types.items():
        rule = row.rule(port)
        if rule.zero_point is not None and bool(np.any(found.zero_points != rule.zero_point)):
            yield f"{row.port_name(port)} has zero point {found.zero_points.tolist()}, expected {rule.zero_point}"
        fits = (rule.per_channel and found.is_per_channel) or (rule.blocks and found.is_sub_channel)
        if not fits and not found.is_per_layer:
            yield f"{row.port_name(port)} has more than one scale, expected one"


def _of_bias(region: QuantizeRegionOp, row: KernelRow, types: dict[int, UniformQuantizedType]) -> Iterator[str]:
    if 2 not in types or row.rule(2).role is not Role.BIAS:
        return
    scales = product_scales(region, types[1])
    if not np.array_equal(types[2].scales, types[0].scale * (types[1].scales if scales is None else scales)):
        yield "bias scale differs from input scale * weight scale"


def _of_relation(region: QuantizeRegionOp, row: KernelRow, types: dict[int, UniformQuantizedType]) -> Iterator[str]:
    relation = row.relation
    if isinstance(relation, SameScale):
        group = [port for port in types if port in relation and row.rule(port).role is not Role.OTHER]
        if len({types[port] for port in group}) > 1:
            yield f"{', '.join(map(row.port_name, sorted(group)))} differ, expected the same scale and zero point"
    if isinstance(relation, FixedScale | SameScale):
        for port, found in types.items():
            wanted = row.fixed(port, found.storage)
            if wanted not in (None, found):
                expected = f"scale {wanted.scale:g} and zero point {wanted.zero_point}"
                yield f"{row.port_name(port)} has {found}, expected {expected}"
    elif isinstance(relation, Custom):
        yield from _of_function(region, row, types)


def _of_function(region: QuantizeRegionOp, row: KernelRow, types: dict[int, UniformQuantizedType]) -> Iterator[str]:
    """Call the row's function again, on the inputs or else on the results; report types that differ from what it
    derives."""
    assert isinstance(row.relation, Custom)
    values = {**dict(enumerate(region.inputs)), **dict(result_ports(region))}
    settable = {port: value for port, value in values.items() if is_settable(row, region, port)}

    def asked(known: Mapping[int, UniformQuantizedType]) -> list[tuple[int, UniformQuantizedType]]:
        seen: Types = {
            port: known.get(port) or open_type(value, row.rule(port).storage, None, None)
            for port, value in settable.items()
        }
        derived = ask(row, region, row.relation.name if isinstance(row.relation, Custom) else "", seen)
        return [(port, made) for port, made in derived if not is_constant(values[port])]

    inputs = {port: found for port, found in types.items() if port >= 0}
    derived = asked(inputs) or asked({port: found for port, found in types.items() if port < 0})
    for port, made in derived:
        if made != types.get(port):
            yield f"{row.port_name(port)} has {types.get(port)}, expected {made} ({row.relation.name})"
