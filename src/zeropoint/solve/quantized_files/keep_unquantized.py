"""Keep float what a quantized model computes in floats, for runtimes that make integer kernels of ops between casts.

```mlir
%a = quant.dcast(quant.qcast(%0))             the model quantizes this value,
%1 = "quant.region"(%a) ({ hard_sigmoid })    not this one,
%2 = "quant.region"(%a, %1) ({ multiply })
%b = quant.dcast(quant.qcast(%2))             and this one
```
Such a runtime computes a kernel in floats if one of its operands or its result is not quantized, or if its result is
quantized twice, to two types. So do we, with the same bits. A type for `%1` would round where the file does not.
Kernels that move elements pass a type on. Biases need no type of their own. What the file has as one function that no
kernel computes, a hard sigmoid, is marked (`FILE_HAS_FLOATS`) and stays float as well.

This is for models without calibration data. With data, every value gets a type.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from xdsl.ir import Operation, SSAValue

from zeropoint.ir.annotations import FILE_HAS_FLOATS, PINNED, SCALED_AFTER
from zeropoint.ir.constants import is_constant
from zeropoint.ir.locations import location_text
from zeropoint.ir.program import Program
from zeropoint.ir.quant import (
    CalibratedQuantizedType,
    QuantizeCastOp,
    QuantizeRegionOp,
    StatisticsOp,
    UniformQuantizedType,
)
from zeropoint.ir.stablehlo import AddOp, ClampOp, ConvolutionOp, DivideOp, MultiplyOp
from zeropoint.ir.tensors import element_of, shape_of
from zeropoint.ir.weights import Weights
from zeropoint.solve.constraints import Constraints, take_constraints
from zeropoint.solve.keep_float import keep_real, with_float
from zeropoint.solve.kernel import ADDS_ELEMENTS, is_float
from zeropoint.solve.quantized_files.linear_resizes import weigh_neighbours
from zeropoint.solve.quantized_files.model_rounding import insert_rounding
from zeropoint.solve.quantized_files.quantized_at_load import (
    BIAS,
    WEIGHTS,
    has_float_weights,
    quantize_weights,
    round_bias,
)
from zeropoint.solve.quantized_files.quantized_twice import has_two_types
from zeropoint.solve.quantized_files.shared_biases import state_shared_biases
from zeropoint.solve.quantized_files.stored_zeros import pad_with_stored_zeros, pads_stored_zeros
from zeropoint.solve.quantized_files.whole_windows import count_whole_windows, has_whole_windows
from zeropoint.targets import Role, Target
from zeropoint.targets.logical_kernels import PASSES_ELEMENTS

WHY = "the model does not quantize all that it reads and returns"
ONNXRUNTIME = "onnxruntime"
"""The profile of targets whose float ops have the bits of onnxruntime."""
OPENVINO = "openvino"
"""The profile of targets that pass types through concatenations."""
JOINED = "concatenate"
TRANSPOSED = "transpose_convolution"
HARD_SIGMOID = "hard_sigmoid"
SAME_SIGNS = frozenset({"add", "multiply"})
"""Kernels whose float arithmetic rounds otherwise than the integer kernel, which needs one signedness."""
BYTE = 8
"""The width in bits of what integer kernels with real biases read and return."""
FLAT = 2
"""The rank of a Flatten's result."""


@dataclass
class _Types:
    """The values that have a type of the model, found in program order.

    `twice` has the regions with a result that the file rounds to two types.
    `floats` has the regions that the runtime computes in floats, `means` those that it divides by the size of whole
    windows, and `loaded` those whose weights it quantizes itself, by the type of their data. `biased` has the types of
    data and weights of those of which it rounds only the bias, `real_biased` those whose bias is a real number.
    `scaled` has floats whose weights took over factors, so that they are no integers in the file.
    `moved_back` has the results of kernels with a type that the model states behind kernels that move elements, and
    `padded` the types of operands of means whose padding is stored zeros.
    """

    constraints: Constraints
    target: Target
    weights: Weights
    twice: Container[QuantizeRegionOp] = ()
    passed: set[SSAValue] = field(default_factory=set[SSAValue])
    floats: list[QuantizeRegionOp] = field(default_factory=list[QuantizeRegionOp])
    means: list[QuantizeRegionOp] = field(default_factory=list[QuantizeRegionOp])
    loaded: dict[QuantizeRegionOp, UniformQuantizedType] = field(
        default_factory=dict[QuantizeRegionOp, UniformQuantizedType]
    )
    biased: dict[QuantizeRegionOp, tuple[UniformQuantizedType, UniformQuantizedType]] = field(
        default_factory=dict[QuantizeRegionOp, tuple[UniformQuantizedType, UniformQuantizedType]]
    )
    real_biased: list[QuantizeRegionOp] = field(default_factory=list[QuantizeRegionOp])
    scaled: list[QuantizeRegionOp] = field(default_factory=list[QuantizeRegionOp])
    moved_back: dict[QuantizeRegionOp, UniformQuantizedType] = field(
        default_factory=dict[QuantizeRegionOp, UniformQuantizedType]
    )
    padded: dict[QuantizeRegionOp, UniformQuantizedType] = field(
        default_factory=dict[QuantizeRegionOp, UniformQuantizedType]
    )

    @property
    def changes(self) -> bool:
        """Whether the runtime does more than to keep kernels float."""
        done = (self.moved_back, self.loaded, self.biased, self.means, self.real_biased, self.scaled, self.padded)
        return any(done)

    def visit(self, region: QuantizeRegionOp) -> None:
        """Decide whether the runtime has an integer kernel for a region; what comes before it is decided."""
        results = {value: self._of_result(value) or self._joined(region) for value in filter(is_float, region.outputs)}
        marks = {name for op in region.body.block.ops for name in op.attributes}
        marked = FILE_HAS_FLOATS in marks or _is_of_nodes(region) or self._mixes_signs(region) or region in self.twice
        if SCALED_AFTER in marks and self.target.profile != OPENVINO:
            self.scaled.append(region)
            marked = True
        typed = not any(map(self._is_also_read_unrounded, results)) if _moves(region) else all(results.values())
        if (data := self._loads_weights(region)) is not None and typed:
            self.loaded[region] = data
        if (types := self._rounds_bias(region)) is not None and typed:
            self.biased[region] = types
        if (stored := self._pads_stored_zeros(region)) is not None:
            self.padded[region] = stored
        read = all(self._is_read_quantized(region, index) for index in self._operands(region))
        if marked or not read or not typed:
            self.floats.append(region)
            return
        if self.target.profile == ONNXRUNTIME and has_whole_windows(region):
            self.means.append(region)
        if self._adds_real_bias(region):
            self.real_biased.append(region)
        self.passed.update(region.outputs if self._passes_type(region) else ())
        for value, found in results.items() if not _moves(region) else ():
            if found is not None and self._stated(value) is None:
                self.moved_back[region] = found

    def _mixes_signs(self, region: QuantizeRegionOp) -> bool:
        """Whether operands or result of a product are of i8 and others of u8, which onnxruntime computes in floats."""
        if self.target.profile != ONNXRUNTIME or region.logical_kernel.data not in SAME_SIGNS:
            return False
        kinds = [*map(self._of_moved, region.inputs), *map(self._of_result, region.outputs)]
        return len({kind.storage.type.signed for kind in kinds if kind is not None}) > 1

    def _pads_stored_zeros(self, region: QuantizeRegionOp) -> UniformQuantizedType | None:
        """The type of what a mean reads, if OpenVINO pads it with stored zeros; None for others."""
        if self.target.profile != OPENVINO or not region.inputs or not self._is_read_quantized(region, 0):
            return None
        data = self._of_moved(region.inputs[0])
        return data if pads_stored_zeros(region, data, self.weights) else None

    def _stated(self, value: SSAValue) -> UniformQuantizedType | None:
        known = self.constraints.get(value)
        return None if known is None else known.pinned

    def _is_also_read_unrounded(self, value: SSAValue) -> bool:
        """Whether the file quantizes a value, and an op reads it before that. The runtime does not move casts there."""
        return self._is_read_unrounded(value) and self._stated(value) is not None

    def _is_read_unrounded(self, value: SSAValue) -> bool:
        return any((use.operation, use.index) in self.constraints.unrounded for use in value.uses)

    def _loads_weights(self, region: QuantizeRegionOp) -> UniformQuantizedType | None:
        """The type of the data of a kernel whose float weights onnxruntime quantizes; None for any other kernel."""
        if self.target.profile != ONNXRUNTIME or not has_float_weights(region):
            return None
        data = self._of_moved(region.inputs[0]) if self._is_read_quantized(region, 0) else None
        return data if data is not None and data.is_per_layer and self._stated(region.inputs[WEIGHTS]) is None else None

    def _rounds_bias(self, region: QuantizeRegionOp) -> tuple[UniformQuantizedType, UniformQuantizedType] | None:
        """The types of data and weights of a kernel of floats whose bias onnxruntime rounds; None for others."""
        has_rows = region.logical_kernel.data in self.target.by_kernel
        if self.target.profile != ONNXRUNTIME or has_rows or region.logical_kernel.data != TRANSPOSED:
            return None
        data, weights = map(self._stated, region.inputs[:BIAS])
        if data is None or weights is None or not data.is_per_layer or not self._is_read_quantized(region, 0):
            return None
        is_float = len(region.inputs) > BIAS and self._stated(region.inputs[BIAS]) is None
        # The file has one scale per channel of a group, which is not the number of elements of the bias.
        in_groups = any(
            op.feature_group_count.value.data > 1 for op in region.body.block.ops if isinstance(op, ConvolutionOp)
        )
        fits = weights.is_per_layer or (weights.is_per_channel and not in_groups)
        return (data, weights) if is_float and fits else None

    def _adds_real_bias(self, region: QuantizeRegionOp) -> bool:
        """Whether an integer kernel adds a bias that the file does not store in steps of the products."""
        if len(region.inputs) <= BIAS or not self.target.adds_real(region.logical_kernel.data, BIAS):
            return False
        data, weights = self._of_moved(region.inputs[0]), self._stated(region.inputs[WEIGHTS])
        bias = self._stated(region.inputs[BIAS])
        if (
            data is None
            or not data.is_per_layer
            or weights is None
            or weights.is_sub_channel
            or weights.zero_points.any()
        ):
            return False
        kinds = data, weights, self._of_result(region.outputs[0])
        steps = np.float32(data.scale) * weights.scales.astype(np.float32)
        in_bytes = all(kind is not None and kind.storage.type.width == BYTE for kind in kinds)
        return in_bytes and (bias is None or not np.array_equal(bias.scales.astype(np.float32), steps))

    def _is_read_quantized(self, region: QuantizeRegionOp, index: int) -> bool:
        value = region.inputs[index]
        if region in self.loaded and index == WEIGHTS:
            return True
        return value in self.passed or (
            self._stated(value) is not None and (region, index) not in self.constraints.unrounded
        )

    def _passes_type(self, region: QuantizeRegionOp) -> bool:
        """Whether the results of a kernel have a type, unlike those of moves of a value with a scale per channel."""
        found = self._of_moved(region.inputs[0]) if _moves(region) else None
        return found is None or found.is_per_layer

    def _of_moved(self, value: SSAValue) -> UniformQuantizedType | None:
        """The type of a value, or of that whose elements it has."""
        while (found := self._stated(value)) is None:
            maker = value.owner
            if value not in self.passed or not isinstance(maker, QuantizeRegionOp) or not _moves(maker):
                return None
            value = maker.inputs[0]
        return found

    def _of_result(self, value: SSAValue) -> UniformQuantizedType | None:
        """The type of a value, or of what its only readers make by moving its elements; None if there is none.

        There is none if an op also reads one of them without it, or if the file rounds one to two types.
        """
        while not self._is_read_unrounded(value):
            if (found := self._stated(value)) is not None:
                return found
            readers = [use.operation for use in value.uses]
            if len(readers) != 1 or not isinstance(readers[0], QuantizeRegionOp) or not _moves_back(readers[0]):
                return None
            if readers[0] in self.twice:
                return None
            value = readers[0].outputs[0]
        return None

    def _joined(self, region: QuantizeRegionOp) -> UniformQuantizedType | None:
        """The type of all operands of a concatenation, which OpenVINO computes of integers; None if they differ."""
        if self.target.profile != OPENVINO or region.logical_kernel.data != JOINED:
            return None
        first, *others = map(self._of_moved, region.inputs)
        is_read = all(self._is_read_quantized(region, index) for index in range(len(region.inputs)))
        return first if is_read and all(other == first for other in others) else None

    def _operands(self, region: QuantizeRegionOp) -> Iterator[int]:
        """The operands of a kernel that need a type."""
        rows = self.target.by_kernel.get(region.logical_kernel.data, ())
        for index, value in enumerate(region.inputs):
            if is_float(value) and not any(row.input_rule(index).role in (Role.BIAS, Role.OTHER) for row in rows):
                yield index


def _is_of_nodes(region: QuantizeRegionOp) -> bool:
    """Whether a hard sigmoid is written as several nodes: a factor, an offset and a clamp between the casts."""
    steps = (AddOp, ClampOp, DivideOp, MultiplyOp)
    places = {location_text(op.location) for op in region.body.block.ops if isinstance(op, steps)}
    return region.logical_kernel.data == HARD_SIGMOID and len(places) > 1


def _moves(region: QuantizeRegionOp) -> bool:
    """Whether a kernel only moves or selects elements of one operand."""
    name = region.logical_kernel.data
    return len(region.inputs) == len(region.outputs) == 1 and name in PASSES_ELEMENTS and name not in ADDS_ELEMENTS


def _moves_back(region: QuantizeRegionOp) -> bool:
    """Whether the runtime also quantizes what such a kernel reads, if the file quantizes its result.

    It does not before a Flatten, which most reshapes of rank 2 are.
    """
    name, shape = region.logical_kernel.data, shape_of(region.outputs[0])
    return _moves(region) and (name in ("max_pool", "slice", "transpose") or (name == "reshape" and len(shape) != FLAT))


def is_quantized_by_types(program: Program) -> bool:
    """Whether a model states types of values, and no range without one."""
    ops = list(program.entry.ops)
    casts = [op for op in ops if isinstance(op, QuantizeCastOp) and not is_constant(op.input)]
    ranges = any(isinstance(op, StatisticsOp) for op in ops) or any(
        isinstance(element_of(cast.result), CalibratedQuantizedType) for cast in casts
    )
    return bool(casts) and not ranges


def keep_unquantized(program: Program, target: Target) -> Program:
    """A copy whose kernels between values without a type stay float; the program itself if there are none.

    Raises PropagationError as `propagate` does.
    """
    if not target.between_casts or not is_quantized_by_types(program):
        return program
    copy = program.clone()
    original: dict[Operation, Operation] = dict(zip(copy.entry.ops, program.entry.ops, strict=True))
    places = {op: place for place, op in enumerate(program.entry.ops)}
    twice = {op for op in copy.entry.ops if isinstance(op, QuantizeRegionOp) and any(map(has_two_types, op.outputs))}
    types = _Types(take_constraints(copy, target.scale_type, kernels=target.by_kernel), target, copy.weights, twice)
    for op in copy.entry.ops:
        if isinstance(op, QuantizeRegionOp) and op in original:
            types.visit(op)
    changed = with_float(program, [original[op] for op in types.floats], WHY)
    if types.changes and changed is program:
        changed = program.for_change()
    ops = list(changed.entry.ops)
    regions = {
        region: op
        for region, made in original.items()
        if isinstance(op := ops[places[made]], QuantizeRegionOp) and isinstance(region, QuantizeRegionOp)
    }
    _apply(types, changed, regions)
    if changed is not program and target.profile == ONNXRUNTIME:
        weigh_neighbours(changed, {regions[region] for region in types.floats})
    return changed


def _apply(types: _Types, program: Program, regions: Mapping[QuantizeRegionOp, QuantizeRegionOp]) -> None:
    """Change a program as the runtime does, in place. `regions` has its regions by those that were visited."""
    for region, data in types.loaded.items():
        quantize_weights(program, regions[region], data)
    for region, (data, weights) in types.biased.items():
        round_bias(program, regions[region], data, weights)
    for region in types.scaled:
        weights = regions[region].inputs[WEIGHTS].owner
        if isinstance(weights, Operation):
            weights.attributes.pop(PINNED, None)
    for region in types.real_biased:
        keep_real(regions[region], BIAS)
    state_shared_biases([regions[region] for region in types.real_biased])
    for region, kind in types.padded.items():
        pad_with_stored_zeros(program, regions[region], kind)
    for region in types.means:
        count_whole_windows(program, regions[region])
    for region, found in types.moved_back.items():
        insert_rounding(program, regions[region].outputs[0], found)
