"""Programs that ask for statistics, as native code: what they ask for are outputs that the caller does not see.

```mlir
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "quant.region"(%x) ({ tanh }) ...
  %1 = "quant.stats_ref"(%0) {statsKey = "tanh"} : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
```
becomes
```mlir
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = stablehlo.tanh %x : tensor<4xf32>
  return %0, %0 : tensor<4xf32>, tensor<4xf32>
}
```
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from xdsl.dialects.builtin import FunctionType
from xdsl.dialects.func import ReturnOp
from xdsl.ir import SSAValue
from xdsl.rewriter import Rewriter

from zeropoint.codegen.runtime.native import NativeProgram
from zeropoint.ir.inlining import inline_region
from zeropoint.ir.program import Program, name_attributes
from zeropoint.ir.quant import QuantizeRegionOp, StatisticsRefOp
from zeropoint.ir.tensors import Array

Observe = Callable[[str, Array], None]


def asks(program: Program) -> bool:
    """Whether a program asks for statistics."""
    return any(isinstance(op, StatisticsRefOp) for op in program.entry.ops)


def observed(program: Program) -> tuple[Program, list[str]]:
    """The program with what it asks for as further outputs, and the keys of those."""
    names = [port.name for port in program.outputs]
    program = program.clone()
    block = program.entry
    for op in list(block.ops):
        if isinstance(op, QuantizeRegionOp):
            inline_region(op)
    keys: list[str] = []
    values: list[SSAValue] = []
    for op in [op for op in block.ops if isinstance(op, StatisticsRefOp)]:
        keys.append(op.stats_key.data)
        values.append(op.arg)
        op.res.replace_all_uses_with(op.arg)
        Rewriter.erase_op(op)
    terminator = block.last_op
    assert isinstance(terminator, ReturnOp)
    results = [*terminator.operands, *values]
    Rewriter.erase_op(terminator)
    block.add_op(ReturnOp(*results))
    function = program.main
    function.function_type = FunctionType.from_lists([a.type for a in block.args], [value.type for value in results])
    function.properties["res_attrs"] = name_attributes(
        [*names, *(f"zeropoint.statistics{n}" for n in range(len(keys)))]
    )
    return program, keys


class ObservedProgram:
    """A native program that reports what it is asked for.

    Raises CodegenError where an op has no native form.
    """

    def __init__(self, program: Program, *, threads: int = 1):
        changed, self._keys = observed(program)
        self._outputs = [port.name for port in program.outputs]
        self._native = NativeProgram(changed, threads=threads)

    @property
    def operations(self) -> int:
        """Multiplications and additions of the contractions of a run."""
        return self._native.operations

    def __call__(self, inputs: Mapping[str, Array], *, observe: Observe | None = None) -> dict[str, Array]:
        """The outputs by name; `observe(key, array)` is called for everything that is asked for, in order.

        Raises InputError where names, shapes or dtypes do not fit.
        """
        results = list(self._native(inputs).values())
        if observe is not None:
            for key, array in zip(self._keys, results[len(self._outputs) :], strict=True):
                observe(key, array)
        return dict(zip(self._outputs, results, strict=False))
