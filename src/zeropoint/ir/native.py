"""The `native` dialect: native kernels, the ops that each computes, and the memory of its operands and results.

After `group`, kernels take and return tensors:

    %1 = "native.kernel"(%0) <{kind = "contraction"}> ({
    ^bb0(%x: tensor<1x8x4x4xi8>):
      ...
      "native.yield"(%r) : (tensor<1x8x4x4xi8>) -> ()
    }) : (tensor<1x8x4x4xi8>) -> tensor<1x8x4x4xi8>

After `layout` they take memrefs, and write the last ones. The body is the same: it computes on tensors with the
elements of the memrefs. Memory spaces are "arena", "carried", "input", "output" and "weights". The i8 elements in the
arena are stored with the offset of the instruction set (128 if its dot product takes unsigned 8-bit integers). Elements
in other spaces are stored without an offset.

The regions of `native.while` and `native.case` are isolated, and each is a program of its own: its arguments are
inputs, and the values that it yields are outputs. After `layout`, carried values and results are dense buffers, in
space "carried" or "output".
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import cast

import numpy as np
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    IntegerAttr,
    MemRefType,
    StringAttr,
    TensorType,
    i1,
    i32,
    i64,
)
from xdsl.ir import Attribute, Dialect, Operation, Region, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    lazy_traits_def,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_region_def,
    var_result_def,
)
from xdsl.traits import HasParent, IsolatedFromAbove, IsTerminator, Pure
from xdsl.utils.exceptions import VerifyException

from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.tensors import element_dtype, tensor_of

KINDS = (
    "contraction", "product", "bytes", "quantize", "dequantize", "rows", "nest", "fold", "sort",
    "update", "copy", "fill",
)  # fmt: skip
"""Kinds of kernels; `zeropoint.codegen.schedule` has one function for each."""


def memory_of(value: SSAValue | Attribute) -> MemRefType[Attribute]:
    """The memref type of a value. Raises TypeError if it has none."""
    found = value.type if isinstance(value, SSAValue) else value
    if not isinstance(found, MemRefType):
        raise TypeError(f"found {found}, expected a memref")
    return cast("MemRefType[Attribute]", found)


def _like(type_: Attribute) -> tuple[tuple[int, ...], object]:
    """A memref or tensor type as one that can be compared: its shape and the dtype of its elements."""
    if isinstance(type_, MemRefType):
        memory = memory_of(cast("Attribute", type_))
        return memory.get_shape(), element_dtype(memory.element_type)
    tensor = tensor_of(type_)
    return tensor.get_shape(), element_dtype(tensor.element_type)


@irdl_op_definition
class YieldOp(IRDLOperation):
    """Returns the values that a kernel, or a region of a loop or branch, computes."""

    name = "native.yield"
    values = var_operand_def()
    traits = lazy_traits_def(lambda: (IsTerminator(), Pure(), HasParent(KernelOp, NativeWhileOp, NativeCaseOp)))

    def __init__(self, values: Sequence[SSAValue]):
        super().__init__(operands=[values])


@irdl_op_definition
class KernelOp(IRDLOperation):
    """One kernel. On tensors it has results; on memrefs it writes `outputs`.

    `declined` gives the reasons why faster kernels did not match its ops. `row` is the dimension along which a kernel
    of kind "rows" computes.
    """

    name = "native.kernel"
    inputs = var_operand_def()
    outputs = var_operand_def()
    values = var_result_def()
    kind = prop_def(StringAttr)
    declined = opt_prop_def(ArrayAttr)
    row = opt_prop_def(IntegerAttr)
    body = region_def("single_block")
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(IsolatedFromAbove())

    def __init__(
        self,
        kind: str,
        inputs: Sequence[SSAValue],
        outputs: Sequence[SSAValue],
        result_types: Sequence[Attribute],
        body: Region,
        *,
        declined: Sequence[str] = (),
        row: int | None = None,
    ):
        properties: dict[str, Attribute] = {"kind": StringAttr(kind)}
        if declined:
            properties["declined"] = ArrayAttr([StringAttr(reason) for reason in declined])
        if row is not None:
            properties["row"] = IntegerAttr(row, i64)
        properties["operandSegmentSizes"] = _segments(len(inputs), len(outputs))
        # IRDLOperation's constructor takes several times as long, and programs have many kernels.
        Operation.__init__(
            self, operands=[*inputs, *outputs], result_types=result_types, properties=properties, regions=[body]
        )

    @property
    def terminator(self) -> YieldOp:
        """The terminator of its body."""
        last = self.body.block.last_op
        assert isinstance(last, YieldOp)
        return last

    @property
    def reasons(self) -> list[str]:
        """The reasons why faster kernels did not match its ops."""
        return [] if self.declined is None else [cast("StringAttr", reason).data for reason in self.declined]

    def verify_(self) -> None:
        if self.kind.data not in KINDS:
            raise VerifyException(
                f"'native.kernel' op found kind '{self.kind.data}', expected one of {', '.join(KINDS)}"
            )
        if self.declined is not None and not all(isinstance(reason, StringAttr) for reason in self.declined):
            raise VerifyException(f"'native.kernel' op found reasons {self.declined}, expected strings")
        if self.outputs and self.values:
            raise VerifyException("'native.kernel' op found outputs and results, expected memrefs or tensors")
        block = self.body.block
        if not isinstance(block.last_op, YieldOp):
            raise VerifyException("'native.kernel' op has a body without 'native.yield' at its end")
        _check_alike("arguments", [a.type for a in block.args], "operands", [v.type for v in self.inputs])
        results = [value.type for value in (*self.outputs, *self.values)]
        _check_alike("yielded values", [v.type for v in block.last_op.values], "results", results)
        if self.kind.data == "copy" and (len(block.args) != 1 or list(block.last_op.values) != list(block.args)):
            raise VerifyException("'native.kernel' op of kind 'copy' has a body that computes, expected its argument")
        if self.outputs and not all(isinstance(value.type, MemRefType) for value in self.operands):
            raise VerifyException("'native.kernel' op found tensors beside outputs, expected memrefs")
        for value in self.outputs:
            space = memory_of(value).memory_space
            if space not in (StringAttr("arena"), StringAttr("carried"), StringAttr("output")):
                raise VerifyException(
                    f'\'native.kernel\' op writes to space {space}, expected "arena", "carried" or "output"'
                )


@lru_cache
def _segments(inputs: int, outputs: int) -> Attribute:
    return DenseArrayBase.from_list(i32, [inputs, outputs])


def _check_alike(inner: str, inside: Sequence[Attribute], outer: str, outside: Sequence[Attribute]) -> None:
    _check_types_alike("native.kernel", inner, inside, outer, outside)


def _check_types_alike(
    name: str, inner: str, inside: Sequence[Attribute], outer: str, outside: Sequence[Attribute]
) -> None:
    if len(inside) != len(outside) or any(_like(a) != _like(b) for a, b in zip(inside, outside, strict=True)):
        found, expected = (f"({', '.join(map(str, types))})" for types in (inside, outside))
        raise VerifyException(f"'{name}' op has {inner} {found}, expected those of its {outer} {expected}")


class ControlOp(IRDLOperation):
    """A loop or a branch, whose regions are programs of their own.

    `channels` has the channel dimension of the images in each region, -1 for a region without images. On tensors,
    `inputs` are the values that the regions read from outside; on memrefs, the op writes `outputs`.
    """

    inputs = var_operand_def()
    outputs = var_operand_def()
    values = var_result_def()
    channels = prop_def(DenseArrayBase.constr(i64))
    programs = var_region_def("single_block")
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(IsolatedFromAbove())

    def __init__(
        self,
        inputs: Sequence[SSAValue],
        outputs: Sequence[SSAValue],
        result_types: Sequence[Attribute],
        programs: Sequence[Region],
        channels: Sequence[int | None],
    ):
        noted = [-1 if channel is None else channel for channel in channels]
        super().__init__(
            operands=[inputs, outputs],
            result_types=[result_types],
            properties={"channels": DenseArrayBase.from_list(i64, noted)},
            regions=[list(programs)],
        )

    @property
    def results_in(self) -> list[SSAValue]:
        """The values that it computes: its results on tensors, its outputs on memrefs."""
        return [*self.outputs, *self.values]

    def check_region(
        self, name: str, region: Region, expected: Sequence[Attribute], yielded: Sequence[Attribute]
    ) -> None:
        """Check the types of a region's arguments and yielded values. Raises VerifyException."""
        last = region.block.last_op
        if not isinstance(last, YieldOp):
            raise VerifyException(f"'{self.name}' op has a {name} without 'native.yield' at its end")
        arguments = [argument.type for argument in region.block.args]
        _check_types_alike(self.name, f"arguments of its {name}", arguments, "operands", expected)
        values = [value.type for value in last.values]
        _check_types_alike(self.name, f"yielded values of its {name}", values, "results", yielded)

    def check_operands(self) -> None:
        """Check that operands are tensors, or all memrefs. Raises VerifyException."""
        if self.outputs and self.values:
            raise VerifyException(f"'{self.name}' op found outputs and results, expected memrefs or tensors")
        channels = array_values(self.channels)
        if len(channels) != len(self.programs) or not {*channels} <= {-1, 1, 3}:
            raise VerifyException(
                f"'{self.name}' op found channels {tuple(channels)}, expected -1, 1 or 3 for each region"
            )
        if self.outputs and not all(isinstance(value.type, MemRefType) for value in self.operands):
            raise VerifyException(f"'{self.name}' op found tensors beside outputs, expected memrefs")
        for value in self.outputs:
            space = memory_of(value).memory_space
            if space not in (StringAttr("carried"), StringAttr("output")):
                raise VerifyException(f'\'{self.name}\' op writes to space {space}, expected "carried" or "output"')


@irdl_op_definition
class NativeWhileOp(ControlOp):
    """A loop: while the first region yields true, the values that the second one yields replace the carried values.

    The arguments of both are the carried values, then the captured ones. On tensors, `inputs` are the first carried
    values and the captured ones. On memrefs, `outputs` hold the carried values before and after, `inputs` the captured.
    """

    name = "native.while"

    @property
    def captured(self) -> Sequence[SSAValue]:
        """The values that the regions read besides the carried ones."""
        return self.inputs[len(self.values) :]

    def verify_(self) -> None:
        self.check_operands()
        if len(self.programs) != 2:
            raise VerifyException(f"'native.while' op found {len(self.programs)} regions, expected condition and body")
        carried = [value.type for value in self.results_in]
        if self.values and [_like(v.type) for v in self.inputs[: len(carried)]] != [_like(type_) for type_ in carried]:
            raise VerifyException("'native.while' op found other operands than results, expected the carried values")
        expected = [*carried, *(value.type for value in self.captured)]
        self.check_region("condition", self.programs[0], expected, [TensorType(i1, [])])
        self.check_region("body", self.programs[1], expected, carried)


@irdl_op_definition
class NativeCaseOp(ControlOp):
    """A branch: its results are the values that one of the regions yields.

    The first of `inputs` selects a region. An i32 is the number of the region; if there is none, the last region runs.
    An i1 selects the first region if it is true, else the second. The other inputs are the arguments of every region.
    """

    name = "native.case"

    def verify_(self) -> None:
        self.check_operands()
        shape, dtype = _like(self.inputs[0].type) if self.inputs else ((), None)
        by = "i1" if dtype == np.bool_ else "i32" if dtype == np.int32 else None
        if shape or by is None:
            raise VerifyException("'native.case' op found no selector of type tensor<i1> or tensor<i32>, expected one")
        if not self.programs or (by == "i1" and len(self.programs) != 2):
            raise VerifyException(
                f"'native.case' op found {len(self.programs)} regions, expected two for an i1, or some"
            )
        expected = [value.type for value in self.inputs[1:]]
        for number, region in enumerate(self.programs):
            self.check_region(f"region {number}", region, expected, [value.type for value in self.results_in])


@irdl_op_definition
class BorderOp(IRDLOperation):
    """Fill the padding around an image with one stored value; `sides` is (top, left, bottom, right) in pixels."""

    name = "native.border"
    image = operand_def(MemRefType)
    sides = prop_def(DenseArrayBase.constr(i64))
    value = prop_def(IntegerAttr)

    def __init__(self, image: SSAValue, sides: Sequence[int], value: int):
        properties = {"sides": DenseArrayBase.from_list(i64, sides), "value": IntegerAttr(value, i64)}
        super().__init__(operands=[image], properties=properties)

    @property
    def widths(self) -> tuple[int, int, int, int]:
        """(top, left, bottom, right)."""
        top, left, bottom, right = array_values(self.sides)
        return top, left, bottom, right

    def verify_(self) -> None:
        sides = array_values(self.sides)
        if len(sides) != 4 or min(sides) < 0:
            raise VerifyException(
                f"'native.border' op found sides {tuple(sides)}, expected (top, left, bottom, right), none negative"
            )
        if memory_of(self.image).get_num_dims() != 4:
            raise VerifyException(f"'native.border' op found {self.image.type}, expected an image of rank 4")


OPS: list[type[Operation]] = [KernelOp, YieldOp, BorderOp, NativeWhileOp, NativeCaseOp]
Native = Dialect("native", OPS)
