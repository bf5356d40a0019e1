"""Give unranked inputs and outputs of a StableHLO program their shapes.

```mlir
func.func @main(%x: tensor<*xf32>) -> tensor<*xi8>
  %q = quant.qcast %x : tensor<*xf32> to tensor<*x!quant.uniform<i8:f32, 0.5>>
  %s = quant.scast %q : tensor<*x!quant.uniform<i8:f32, 0.5>> to tensor<*xi8>
```
becomes, for an input of shape 2x3,
```mlir
func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xi8>
  %u = tensor.cast %x : tensor<2x3xf32> to tensor<*xf32>
  %q = quant.qcast %u : tensor<*xf32> to tensor<*x!quant.uniform<i8:f32, 0.5>>
  %s = quant.scast %q : tensor<*x!quant.uniform<i8:f32, 0.5>> to tensor<*xi8>
  %r = tensor.cast %s : tensor<*xi8> to tensor<2x3xi8>
```
The shape of an output is known if only casts, ops that keep the shape, and reshapes to the shape of another value lead
from the inputs to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from xdsl.dialects.builtin import FunctionType, TensorType, UnrankedTensorType
from xdsl.dialects.tensor import CastOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import Rewriter

from zeropoint.frontend.errors import ModelError
from zeropoint.ir.locations import describe, text_position
from zeropoint.ir.program import Program, port_names
from zeropoint.ir.tensors import shape_of

KEEP_SHAPE = frozenset(
    {
        "quant.coupled_ref",
        "quant.dcast",
        "quant.qcast",
        "quant.scast",
        "quant.stats",
        "quant.stats_ref",
        "tensor.cast",
    }
)
"""Ops whose only result has the shape of their first operand."""
RESHAPE, SHAPE_OF = "tensor.reshape", "shape.shape_of"


class UnrankedInputs(ModelError):
    """The program in the file or text `source` has inputs of unknown rank. `names` has their names."""

    def __init__(self, names: Sequence[str], types: Sequence[Attribute], source: str = ""):
        self.names, self.types = tuple(names), tuple(types)
        listed = ", ".join(f"input '{name}': found {found}" for name, found in zip(names, types, strict=True))
        flags = " ".join(f"--shape {name}=2x3" for name in names)
        super().__init__(
            f"{source and f'{source}: '}{listed}, expected a ranked tensor; give the shape, for example: {flags} "
            f"(in Python shapes={{'{names[0]}': (2, 3)}})"
        )


def is_unranked(value: SSAValue) -> bool:
    """Whether a value is a tensor without a rank."""
    return isinstance(value.type, UnrankedTensorType)


def _ranked(value: SSAValue, shape: Sequence[int]) -> TensorType[Attribute]:
    """The type of an unranked value with a shape."""
    return TensorType(cast("UnrankedTensorType[Attribute]", value.type).element_type, shape)


def with_ranks(program: Program, shapes: Mapping[str, tuple[int, ...]]) -> Program:
    """The program, changed in place, with `shapes` for its unranked inputs, by name.

    Raises UnrankedInputs for inputs without a shape, ModelError for an output whose shape does not follow.
    """
    block, main = program.entry, program.main
    names = port_names(main.arg_attrs, len(block.args), "arg")
    unranked = {name: argument for name, argument in zip(names, block.args, strict=True) if is_unranked(argument)}
    missing = [name for name in unranked if name not in shapes]
    if missing:
        error = UnrankedInputs(missing, [unranked[name].type for name in missing])
        error.position = text_position(main)
        raise error
    for name, argument in unranked.items():
        _give_shape(argument, shapes[name], block)
    returned = block.last_op
    assert returned is not None
    for index, value in enumerate(list(returned.operands)):
        if is_unranked(value):
            ranked = CastOp(value, _ranked(value, _shape(value)))
            block.insert_op_before(ranked, returned)
            returned.operands[index] = ranked.results[0]
    main.function_type = FunctionType.from_lists(
        [argument.type for argument in block.args], [value.type for value in returned.operands]
    )
    return program


def _give_shape(argument: SSAValue, shape: Sequence[int], block: Block) -> None:
    """Make an argument ranked. Its users read it through a cast."""
    unranked = cast("TensorType[Attribute]", argument.type)  # CastOp's annotation lacks unranked tensors
    ranked = Rewriter.replace_value_with_new_type(argument, _ranked(argument, shape))
    back = CastOp(ranked, unranked)
    first = block.first_op
    assert first is not None
    block.insert_op_before(back, first)
    ranked.replace_uses_with_if(back.results[0], lambda use: use.operation is not back)


def _shape(value: SSAValue) -> tuple[int, ...]:
    """The shape of a value. Raises ModelError, with the op, if it does not follow from the shapes of the inputs."""
    while is_unranked(value):
        op = value.owner
        if isinstance(op, Operation) and op.name in KEEP_SHAPE:
            value = op.operands[0]
        elif isinstance(op, Operation) and op.name == RESHAPE and _sizes_of(op) is not None:
            value = _sizes_of(op) or value
        else:
            found = describe(op) if isinstance(op, Operation) else "argument"
            error = ModelError(
                f"{found}: found a result of {value.type} at an output, expected one whose shape follows: of a cast, "
                f"or of a reshape to the shape of another value; cast it to a ranked type (tensor.cast)"
            )
            error.position = text_position(op) if isinstance(op, Operation) else None
            raise error
    return shape_of(value)


def _sizes_of(reshape: Operation) -> SSAValue | None:
    """The value to whose shape a reshape reshapes its operand; None if that is not known."""
    made = reshape.operands[1].owner
    return made.operands[0] if isinstance(made, Operation) and made.name == SHAPE_OF else None
