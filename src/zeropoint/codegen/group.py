"""Group ops into kernels: `Program -> Program`, with ops in `native.kernel` regions.

    %acc = stablehlo.convolution(%x, %w) ...
    %sum = stablehlo.add %acc, %bias
    %y   = fxpmath.requantize %sum ...

becomes

    %y = "native.kernel"(%x) <{kind = "contraction"}> ({ the same ops, with their constants })

Specialized kernels are tried first, in program order (`PATTERNS`). Every other value is computed when a kernel needs
it, by rows or by one loop nest that covers as many preceding ops as possible. So unused values are never computed. Ops
that only move whole values (reshapes, padding, concatenation) stay outside of kernels. `layout` turns them into views
or copies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from xdsl.builder import Builder
from xdsl.dialects.builtin import StringAttr, TensorType
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Block, Operation, OpResult, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from zeropoint.codegen.controlled import CONTROLLED, grouped
from zeropoint.codegen.dot_forms import name_dot_forms
from zeropoint.codegen.graph import Space, View
from zeropoint.codegen.llvm.isa import INSTRUCTION_SETS
from zeropoint.codegen.llvm.machine import CodegenError
from zeropoint.codegen.patterns.boundary import match_bytes, match_express, match_quantize
from zeropoint.codegen.patterns.contraction import match_dequantize, match_floats, match_pool, match_requantize
from zeropoint.codegen.patterns.match import Declined, Found, Match, note
from zeropoint.codegen.patterns.nest import match_nest, members_of
from zeropoint.codegen.patterns.products import match_float_product, match_requantized_product
from zeropoint.codegen.patterns.regions import match_fold, match_scatter, match_single, match_slice_update, match_sort
from zeropoint.codegen.patterns.rows import match_rows
from zeropoint.codegen.schedule.expression import scalar_type
from zeropoint.codegen.schedule.reductions import EXPRESSIONS
from zeropoint.codegen.values import ISA, Values, channel_dimension, dense, note_channel_dimension
from zeropoint.codegen.views import reshaped, transposed
from zeropoint.expand import ExpansionError, expand, with_few_terms, with_one_row, with_pixel_products
from zeropoint.expand.emission import Emission
from zeropoint.expand.padding import padded
from zeropoint.ir import fxpmath as fxp
from zeropoint.ir import quant
from zeropoint.ir import stablehlo as hlo
from zeropoint.ir.cloning import without_ops
from zeropoint.ir.constants import constant_op
from zeropoint.ir.inline_calls import inline_functions
from zeropoint.ir.locations import describe
from zeropoint.ir.native import KernelOp
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.tensors import Array, element_dtype, element_of, shape_of
from zeropoint.ir.window_padding import padding_of, pads

DEEPEST = 128
"""Maximum length of a chain of ops that are not computed yet because no kernel has read them."""

KernelPattern = Callable[[Values, Any], Match | Declined]

PATTERNS: Mapping[type[Operation], tuple[KernelPattern, ...]] = {
    fxp.RequantizeOp: (match_requantized_product, match_requantize),
    fxp.TableOp: (match_bytes,),
    fxp.WeightedSumOp: (match_bytes,),
    hlo.ConvolutionOp: (match_floats,),
    hlo.DotGeneralOp: (match_float_product, match_floats),
    hlo.ReduceOp: (match_single, match_fold),
    hlo.ReduceWindowOp: (match_single, match_fold, match_pool),
    hlo.SortOp: (match_sort,),
    hlo.UniformDequantizeOp: (match_dequantize, match_express),
    hlo.UniformQuantizeOp: (match_quantize,),
}
"""The patterns of specialized kernels, which are tried first."""

FALLBACKS = ("fold", "rows", "nest")
"""Kinds of kernels for ops that no faster kernel computes. They record the reasons; a nest always has one."""

UPDATES: Mapping[type[Operation], KernelPattern] = {
    hlo.DynamicUpdateSliceOp: match_slice_update,
    hlo.ScatterOp: match_scatter,
}
"""The patterns of kernels that copy their first operand and overwrite parts of the copy."""

MOVED = (quant.StorageCastOp, hlo.ConcatenateOp, hlo.IotaOp, hlo.PadOp, hlo.ReshapeOp)
"""Ops that move whole values. They stay outside of kernels."""


def group(program: Program, *, isa: str, found: Found | None = None) -> Program:
    """A copy of an integer program with its ops in kernels, for the named instruction set.

    The matches of kernel bodies are added to `found`. Raises CodegenError, with the op's name and location, for an op
    without a kernel, and for a program that is grouped already.
    """
    if (noted := noted_isa(program)) is not None:
        raise CodegenError(f"found a program that is grouped for {noted}, expected one without kernels", program.main)
    inlined = inline_functions(program)
    try:
        channel = channel_dimension(inlined)
        expanded = with_one_row(with_pixel_products(expand(with_few_terms(inlined, channel)), channel))
    except ExpansionError as error:
        raise CodegenError(str(error), error.op) from error
    if expanded is program and any(map(pads, program.entry.ops)):
        expanded = program.clone()  # `_pad_apart` changes it in place
    made = _without_ops(expanded)
    note_channel_dimension(made, channel_dimension(expanded))
    made.module.attributes[ISA] = StringAttr(isa)
    _Grouping(made, expanded.entry, {} if found is None else found).run()
    if isa in INSTRUCTION_SETS:
        name_dot_forms(made, INSTRUCTION_SETS[isa])
    return made


def _without_ops(program: Program) -> Program:
    """A copy whose entry has the arguments, and only a return without operands."""
    module = program.module.clone_without_regions()
    module.body.add_block(Block())
    main = program.main
    for op in program.module.ops:
        module.body.block.add_op(copy := op.clone_without_regions() if op is main else op.clone())
        if op is main:
            block = without_ops(program.entry)
            block.add_op(ReturnOp())
            copy.regions[0].add_block(block)
    return Program(module, program.weights.copy())


def noted_isa(program: Program) -> str | None:
    """The name of the instruction set that a program was grouped for, or None."""
    found = program.module.attributes.get(ISA)
    return found.data if isinstance(found, StringAttr) else None


class _Grouping:
    """Appends kernels for the ops of the block `old` to the entry of `program`. `made` maps old values to new ones."""

    def __init__(self, program: Program, old: Block, found: Found):
        self.program = program
        self.old = old
        self.found = found
        self.block = program.entry
        self.made: dict[SSAValue, SSAValue] = dict(zip(old.args, self.block.args, strict=True))
        self.values = Values(program, old, self.made.__contains__)
        self._lying: dict[SSAValue, View] = {argument: dense(argument, Space.INPUT) for argument in old.args}
        self._declined: dict[Operation, list[tuple[str, bool]]] = {}
        self._depths: dict[Operation, int] = {}
        self._seen: dict[SSAValue, tuple[SSAValue, View]] = {}

    def run(self) -> None:
        *old, returning = self.old.ops
        for op in old:
            self._visit(op)
            self._bound_depth(op)
        for value in returning.operands:
            scalar_type(value)
        returned = [self.value(value) for value in returning.operands]
        *made, last = self.block.ops
        last.location, last.operands = returning.location, returned
        # In reverse, so that an op is erased before the ops that only it reads.
        for op in made[::-1]:
            if not any(result.first_use for result in op.results):
                Rewriter.erase_op(op)

    def _visit(self, op: Operation) -> None:
        """Compute an op that has a specialized kernel, or that is only a view of a computed value."""
        if self._is_nothing(op):
            return
        if isinstance(op, hlo.OptimizationBarrierOp):
            self._alias(op)
        elif isinstance(op, quant.StorageCastOp) and self.values.has(op.input):
            self._move(op, self._lying[op.input])
        elif isinstance(op, hlo.ReshapeOp) and self.values.has(op.operand):
            # If the strides of the value do not allow a view (None), the reshape is a copy.
            view = reshaped(self._lying[op.operand], shape_of(op.result))
            if view is not None:
                self._move(op, view)
        elif type(op) in PATTERNS and not any(map(self.values.has, op.results)):
            self._try(op)

    def _try(self, op: Operation) -> None:
        for pattern in PATTERNS[type(op)]:
            found = pattern(self.values, op)
            if isinstance(found, Match):
                return self._emit(found, op)
            if found.reason is not None:
                self._decline(op, pattern, found)
        return None

    def _decline(self, op: Operation, pattern: Callable[..., object], found: Declined) -> None:
        name = pattern.__name__.removeprefix("match_").replace("_", " ")
        self._declined.setdefault(op, []).append((f"{name}: {describe(op)}: {found.reason}", found.minor))

    def _alias(self, op: hlo.OptimizationBarrierOp) -> None:
        """Replace the results of a barrier by its operands. Kernels keep the order of ops, so no barrier is needed."""
        for value, result in zip(op.inputs, op.results_, strict=True):
            self.made[result] = self.value(value)
            self._lying[result] = self._lying[value]

    def _bound_depth(self, op: Operation) -> None:
        """Compute the value of an op now if the chain of ops before it that are not computed is too long."""
        waiting = [
            self._depths.get(operand.op, 0)
            for operand in op.operands
            if isinstance(operand, OpResult) and not self.values.has(operand)
        ]
        self._depths[op] = 1 + max(waiting, default=0)
        # Without a bound, each kernel of an unrolled loop would walk back to its start, which takes quadratic time.
        if self._depths[op] >= DEEPEST and len(op.results) == 1:
            self.value(op.results[0])

    # Values.

    def value(self, value: SSAValue) -> SSAValue:
        """The new value for an old one. It is computed now if no kernel has computed it yet.

        Raises CodegenError for an op without a native form.
        """
        if value not in self.made:
            assert isinstance(value, OpResult)
            self._compute(value, None)
        return self.made[value]

    def _compute(self, value: OpResult, target: View | None) -> None:
        """Compute a value. `target` is the expected layout."""
        op = value.op
        if isinstance(op, hlo.ConstantOp):
            # A constant is cloned at its first use, so that the program only has constants that a kernel reads.
            self._bind(value, self._insert(op.clone(), op).results[0], dense(value, Space.WEIGHTS))
        elif type(op) in MOVED:
            self._operands_of_move(op)
            self._move(op, target or self.values.destination(value))
        elif isinstance(op, hlo.DynamicUpdateSliceOp) and shape_of(op.update) == shape_of(op.result):
            # The start is clamped to 0, so the update overwrites every element.
            self._bind(value, self.value(op.update), self._lying[op.update])
        elif type(op) in UPDATES:
            found = UPDATES[type(op)](self.values, op)
            assert isinstance(found, Match)
            self._emit(found, op)
        elif type(op) in CONTROLLED:
            self._control(op)
        elif type(op) not in EXPRESSIONS or len(op.results) != 1:
            raise CodegenError(f"{describe(op)}: found no native form of it; run it with the interpreter", op)
        else:
            self._emit(self._nested(op, target or self.values.destination(value)), op)

    def _control(self, op: Operation) -> None:
        """Append a loop or branch. Its regions are grouped separately."""
        isa = noted_isa(self.program)
        assert isa is not None
        made = grouped(op, self.program, partial(group, isa=isa, found=self.found), self.value)
        self._insert(made, op)
        for value, new in zip(op.results, made.values, strict=True):
            self._bind(value, new, dense(value, Space.CARRIED))

    def _is_nothing(self, op: Operation) -> bool:
        """Replace empty results by constants. Returns whether all of the op's results are empty."""
        empty = [value for value in op.results if isinstance(value.type, TensorType) and 0 in shape_of(value)]
        for value in empty:
            scalar_type(value)
            self._bind(value, self._constant(np.zeros(shape_of(value)), value, op), dense(value, Space.WEIGHTS))
        return bool(empty) and len(empty) == len(op.results)

    def _constant(self, array: Array, like: SSAValue, op: Operation) -> SSAValue:
        """A constant with the element type of a value."""
        element = element_of(like)
        quantized = element if isinstance(element, quant.UniformQuantizedType) else None
        array = array.astype(element_dtype(element))
        return self._insert(constant_op(array, self.program.weights, quantized=quantized), op).results[0]

    def _nested(self, op: Operation, target: View) -> Match:
        """The rows or the loop nest that end with an op. In a nest, windows with padding get a separate `pad`."""
        found = match_rows(self.values, op, target)
        if isinstance(found, Match):
            return found
        if found.reason is not None:
            self._decline(op, match_rows, found)
        members = members_of(self.values, op)
        for window in filter(pads, members):
            self._pad_apart(window)
        return match_nest(self.values, op, members)

    def _pad_apart(self, op: Operation) -> None:
        """Give a window that reads padding a `pad` before it."""
        assert isinstance(op, hlo.ConvolutionOp | hlo.ReduceWindowOp)
        source = op.operands[0]
        number = self.values.splat(op.init_values[0]) if isinstance(op, hlo.ReduceWindowOp) else 0.0
        if number is None:
            raise CodegenError(f"{describe(op)}: found a computed padding value, expected a constant", op)
        emit = Emission(Builder(InsertPoint.before(op)), self.program.weights, op.location)
        constant = emit.constant(np.array(number, element_dtype(element_of(source))))
        op.operands[0] = made = padded(emit, source, constant, *padding_of(op))
        for n, new in enumerate((constant.owner, made.owner)):
            assert isinstance(new, Operation)
            # Numbers between those of the op and of the previous op, in the order constant, pad, op. Kernels sort their
            # ops by these numbers.
            self.values.order[new] = self.values.order[op] - (1 - n / 2) / 2
        op.padding = None
        if isinstance(op, hlo.ConvolutionOp):
            op.lhs_dilation = None
        else:
            op.base_dilations = None

    def _operands_of_move(self, op: Operation) -> None:
        if isinstance(op, hlo.PadOp) and self.values.splat(op.padding_value) is None:
            raise CodegenError(f"{describe(op)}: found a computed padding value, expected a constant", op)
        if isinstance(op, hlo.IotaOp):
            scalar_type(op.output)
        source = op.operands[0] if isinstance(op, hlo.ReshapeOp) else None
        # A loop nest that computes only the operand of a reshape writes it in the place of the result.
        alone = isinstance(source, OpResult) and type(source.op) in EXPRESSIONS and source.has_one_use()
        if isinstance(source, OpResult) and alone and not self.values.has(source):
            self._compute(source, reshaped(self.values.destination(op.results[0]), shape_of(source)))

    def _move(self, op: Operation, view: View) -> None:
        """Append an op unchanged, outside of kernels."""
        operands = [self._splat(op) if n and isinstance(op, hlo.PadOp) else self.value(operand)
                    for n, operand in enumerate(op.operands)]  # fmt: skip
        moved = self._insert(op.clone(dict(zip(op.operands, operands, strict=True))), op)
        self._bind(op.results[0], moved.results[0], view)

    def _splat(self, op: hlo.PadOp) -> SSAValue:
        number = self.values.splat(op.padding_value)
        assert number is not None
        return self._constant(np.array(number), op.padding_value, op)

    def _bind(self, value: SSAValue, made: SSAValue, view: View) -> None:
        self.made[value] = made
        self._lying[value] = view

    def _insert(self, op: Operation, like: Operation) -> Operation:
        op.location = like.location
        last = self.block.last_op
        assert last is not None
        self.block.insert_op_before(op, last)
        return op

    # Kernels.

    def _emit(self, match: Match, root: Operation) -> None:
        """Append the kernel of a match after the kernels of its operands."""
        if match.kind == "product":
            inputs = [self._seen_through(value)[0] for value in match.inputs]
        else:
            inputs = [self.value(value) for value in match.inputs]
        # A number of rows may have been needed for an input.
        first, *rest = match.results
        match = replace(match, results=(first, *(value for value in rest if value not in self.made)))
        ops = sorted(match.ops(), key=self.values.order.__getitem__)
        declined = self._reasons(ops, match.kind) if match.kind in FALLBACKS else []
        types = [value.type for value in match.results]
        kernel = KernelOp(match.kind, inputs, (), types, match.body(ops), declined=declined, row=match.row)
        self._insert(kernel, root)
        if match.found is not None:
            note(self.program, kernel.body.block, match.found, self.found)
        for value, made in zip(match.results, kernel.values, strict=True):
            dtype = element_dtype(element_of(value))
            # The micro-kernels of contractions store whole cache lines unless they store bytes. Other kernels only need
            # aligned vectors.
            lines = match.kind in ("contraction", "product") and dtype != np.int8
            self._bind(value, made, self.values.fresh(shape_of(value), dtype, 64 if lines else 16))
        if match.kind == "product":
            self._turn(match.results[0])

    def _reasons(self, ops: list[Operation], kind: str) -> list[str]:
        """The reasons why no faster kernel covers these ops."""
        every = [found for op in ops for found in self._declined.get(op, ())]
        always = [reason for reason, minor in every if not minor]
        # Patterns are tried from the most specialized on, so the first reason is the most informative.
        return always or [reason for reason, _ in every if kind == "nest"][:1]

    def _turn(self, value: SSAValue) -> None:
        """Keep a transpose that is the only user of a product outside of kernels, because the kernel transposes."""
        user = next(iter(value.uses)).operation if value.has_one_use() else None
        if not isinstance(user, hlo.TransposeOp) or shape_of(value)[-1] % 16 or self.values.is_image(user.result):
            return
        order = array_values(user.permutation)
        if order[-1] == len(order) - 1:
            self._move(user, self.values.fresh(shape_of(user.result), element_dtype(element_of(value))))

    def _seen_through(self, value: SSAValue) -> tuple[SSAValue, View]:
        """A value and its view. Transposes and reshapes that are only another view are looked through."""
        op = value.op if isinstance(value, OpResult) else None
        if self.values.has(value) or not isinstance(op, hlo.TransposeOp | hlo.ReshapeOp):
            return self.value(value), self._lying[value]
        if value not in self._seen:
            source, view = self._seen_through(op.operand)
            if isinstance(op, hlo.ReshapeOp):
                found = reshaped(view, shape_of(value))
            else:
                found = transposed(view, array_values(op.permutation))
            if found is None:
                return self.value(value), self._lying[value]
            self._seen[value] = self._insert(op.clone({op.operand: source}), op).results[0], found
        return self._seen[value]
