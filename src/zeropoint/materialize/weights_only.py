"""Weights-only kernels of a program: float kernels whose weights a recipe stores in 8 bits or fewer.

```mlir
%1 = "quant.region"(%x, %w) ({ dot_general }) {zeropoint.demands = [{name = "activations", value = "float"}, ...]}
```
becomes
```mlir
%s = quant.scast (constant integers)
%r = quant.dcast %s
%1 = "quant.region"(%x, %r) ({ dot_general })
```
the form that `materialize` lowers and that is exported to ONNX. For LiteRT, the region states the type of its operand,
because the layout of weights may change:
```mlir
%1 = "quant.region"(%x, %w as !quant.uniform<i8:f32:1, {...}>) ({ dot_general })
```
"""

from __future__ import annotations

from xdsl.dialects.builtin import ArrayAttr

from zeropoint.ir.annotations import DEMANDS, FLOAT_ACTIVATIONS, facts_of
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.ir.regions import regions_of
from zeropoint.materialize.stored_tables import store_table
from zeropoint.materialize.stored_weights import store_weights, type_of_weights
from zeropoint.solve import drop_inside


def weights_only_kernels(program: Program) -> list[QuantizeRegionOp]:
    """The float kernels whose weights a recipe demands to be stored."""
    regions = regions_of(program)
    demands = {region: {fact.name: fact.value for fact in facts_of(region, DEMANDS)} for region in regions}
    return [region for region in regions if FLOAT_ACTIVATIONS.items() <= demands[region].items()]


def with_stored_weights(program: Program) -> Program:
    """A copy in which the weights of such kernels are stored, and dequantized before the kernel."""
    if not weights_only_kernels(program):
        return program
    program = program.clone()
    for region in weights_only_kernels(program):
        drop_inside(region)
        if not store_table(region, program.weights):
            store_weights(region, program.weights)
    return program


def with_stated_weights(program: Program) -> Program:
    """A copy in which such kernels state the type that their weights are stored in. Tables are stored."""
    if not weights_only_kernels(program):
        return program
    program = program.clone()
    for region in weights_only_kernels(program):
        drop_inside(region)
        if store_table(region, program.weights):
            continue
        found = type_of_weights(region, program.weights)
        if found is not None and not isinstance(found, str):
            index, kind, _ = found
            specs = list(region.input_specs.data)
            specs[index] = kind
            region.attributes["input_specs"] = ArrayAttr(specs)
    return program
