"""Logarithms of sigmoids as ONNX operators.

onnxruntime's and OpenVINO's Sigmoid is 0 below about -17, where the function is 4e-8, so that its logarithm would be
-inf. Softplus is exact to f32 there: log(sigmoid(x)) = -log(1 + exp(-x)). Below -88, the program's sigmoid is 0 in f32,
too: the program has -inf, and the file about x.
"""

from __future__ import annotations

from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue

from zeropoint.export.onnx.emission import OnnxEmission, Tensor
from zeropoint.ir.quant import QuantizeRegionOp, UniformQuantizedType
from zeropoint.ir.stablehlo import BroadcastInDimOp, LogisticOp, LogOp
from zeropoint.ir.tensors import element_of, shape_of


def log_of_sigmoid(op: Operation, emit: OnnxEmission) -> bool:
    """Emit the logarithm of a sigmoid that is computed in floats; False for any other op."""
    if not isinstance(op, LogOp):
        return False
    sigmoid = _origin(op.operands[0])
    if not isinstance(sigmoid, LogisticOp) or isinstance(sigmoid.operands[0].owner, BroadcastInDimOp):
        return False
    value = sigmoid.operands[0]
    kind, shape, name = element_of(value), shape_of(value), emit.name(op.results[0])
    tensor: Tensor = emit.operand(value, kind)
    for operator, part in (("Neg", f"{name}/negated"), ("Softplus", f"{name}/softplus"), ("Neg", name)):
        tensor = emit.apply(operator, [tensor], kind, shape, part)
    emit.put(op.results[0], tensor)
    return True


def _origin(value: SSAValue) -> Operation | None:
    """The op that computes a value, inside of float regions, too; None for an input and for a quantized value."""
    while True:
        owner = value.owner
        if isinstance(value, BlockArgument):
            region = value.block.parent_op()
            if not isinstance(region, QuantizeRegionOp) or _is_quantized(region.input_specs.data[value.index]):
                return None
            value = region.inputs[value.index]
        elif isinstance(owner, QuantizeRegionOp):
            assert isinstance(value, OpResult) and owner.body.block.last_op is not None
            if _is_quantized(owner.output_specs.data[value.index]):
                return None
            value = owner.body.block.last_op.operands[value.index]
        else:
            assert isinstance(owner, Operation)
            return owner


def _is_quantized(spec: object) -> bool:
    return isinstance(spec, UniformQuantizedType)
