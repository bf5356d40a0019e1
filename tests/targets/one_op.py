"""Float programs of one op, with casts that pin the types of a row: for targets that our own programs run on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import TensorType, f32
from xdsl.ir import SSAValue
from xdsl.rewriter import Rewriter

from networks import Network, channels_last
from targets.qdq_case import loaded, propagated
from zeropoint.check_target.models import Built, Case, ModelPort, built, row_id, signatures
from zeropoint.ir.program import Program
from zeropoint.ir.quant import (
    DequantizeCastOp,
    QuantizeCastOp,
    QuantizeRegionOp,
    StorageCastOp,
    UniformQuantizedType,
)
from zeropoint.ir.stablehlo import AddOp, ConvolutionOp
from zeropoint.ir.tensors import Array, element_of, shape_of, with_element
from zeropoint.targets import KernelRow, Role, target

IMAGE = (2, 3, 12, 11)
CASES: dict[str, tuple[Case, ...]] = {
    "convolution": (Case("Conv", (IMAGE,), weight=(2, 3, 3, 3), bias=True, scale=0.06),),
    "depthwise_convolution": (
        Case("Conv", (IMAGE,), weight=(3, 1, 3, 3), bias=True, attributes={"group": 3}, scale=0.04),
    ),
    "transpose_convolution": (
        Case("ConvTranspose", (IMAGE,), weight=(3, 2, 3, 3), channels=1, bias=True, attributes={"strides": [2, 2]}),
    ),
    "fully_connected": (Case("Gemm", ((70, 9),), weight=(9, 6), channels=1, bias=True, scale=0.04),),
    "batch_matmul": (Case("MatMul", ((3, 8, 9), (3, 9, 10))),),
    "multiply": (Case("Mul", (IMAGE, IMAGE)),),
    "add": (Case("Add", (IMAGE, IMAGE)),),
    "subtract": (Case("Sub", (IMAGE, IMAGE)),),
    "maximum": (Case("Max", (IMAGE, IMAGE)),),
    "minimum": (Case("Min", (IMAGE, IMAGE)),),
    "prelu": (Case("PRelu", (IMAGE,), constant=(3, 1, 1)),),
    "divide": (Case("Div", (IMAGE, IMAGE)),),
    "elementwise_unary": (Case("Exp", (IMAGE,)), Case("Elu", (IMAGE,))),
    "gelu": (Case("Gelu", (IMAGE,)),),
    "softmax": (Case("Softmax", ((6, 5, 90),), attributes={"axis": -1}, scale=1 / 256),),
    "layer_norm": (
        Case(
            "LayerNormalization",
            ((6, 5, 96),),
            others=(np.linspace(-1, 2, 96, dtype=np.float32), np.linspace(-3, 3, 96, dtype=np.float32)),
            attributes={"axis": -1, "epsilon": 1e-5},
        ),
    ),
    "gather": (Case("Gather", (IMAGE,), others=([2, 0, 0, 1],), attributes={"axis": 1}),),
    "logistic": (Case("Sigmoid", (IMAGE,), scale=1 / 256),),
    "tanh": (Case("Tanh", (IMAGE,), scale=1 / 128),),
    "average_pool": (Case("AveragePool", (IMAGE,), attributes={"kernel_shape": [2, 4]}),),
    "mean": (Case("ReduceMean", ((9, 8, 4, 4),), others=([2, 3],), scale=0.02),),
    "sum": (Case("ReduceSum", ((9, 8, 4, 4),), others=([2, 3],), scale=0.8),),
    "reduce_max": (Case("ReduceMax", (IMAGE,), others=([2],)),),
    "reduce_min": (Case("ReduceMin", (IMAGE,), others=([2],)),),
    "max_pool": (Case("MaxPool", (IMAGE,), attributes={"kernel_shape": [2, 2]}),),
    "select": (Case("Where", (IMAGE, IMAGE), condition=True),),
    "reshape": (Case("Reshape", (IMAGE,), others=([6, -1],)),),
    "transpose": (Case("Transpose", (IMAGE,), attributes={"perm": [0, 2, 3, 1]}),),
    "slice": (Case("Slice", (IMAGE,), others=([1, 2], [9, 10], [2, 3])),),
    "pad": (Case("Pad", (IMAGE,), others=([0, 0, 1, 1, 0, 0, 1, 1],)),),
    "concatenate": (Case("Concat", (IMAGE, IMAGE), attributes={"axis": 1}),),
    "broadcast": (Case("Expand", ((2, 3, 12, 1),), others=([2, 3, 12, 4],)),),
    # A slice with a negative step is a reverse.
    "reverse": (Case("Slice", (IMAGE,), others=([-1], [-100], [2], [-1])),),
}


def kernels(name: str) -> dict[str, tuple[Case, ...]]:
    """The cases for the kernels that a target has."""
    return {kernel: found for kernel, found in CASES.items() if kernel in target(name).by_kernel}


def variants(name: str, cases: Mapping[str, tuple[Case, ...]] = CASES) -> list[Any]:
    """A row and a case with its parameters, for each storage."""
    return [
        pytest.param(row, built(row, case, storages), id="-".join([row_id(row), case.op, str(storages[-1])]))
        for row in target(name).rows
        for case in cases.get(row.kernel, ())
        for storages in signatures(row)
    ]


def channels_last_convolution(made: Built) -> Program:
    """The float program of a convolution, NHWC and HWIO, with the casts that pin its types."""
    x, weight, bias = (port for port in made.operands if isinstance(port, ModelPort))
    assert weight.value is not None
    assert bias.value is not None
    transposed = made.case.op == "ConvTranspose"
    groups = made.case.attributes.get("group", 1)
    batch, channels, *sizes = x.shape
    net = Network([(batch, *sizes, channels)])
    real = pinned(net, net.values[0], x)
    scale = np.asarray(weight.scale).reshape([-1 if d == made.case.channels else 1 for d in range(4)])
    kernel = np.transpose((weight.value - weight.zero_point) * scale, (2, 3, 0, 1) if transposed else (2, 3, 1, 0))
    made_sizes = [(size - 1) * 2 + 3 if transposed else size - 2 for size in sizes]
    op = ConvolutionOp(
        real,
        narrow_weights(net, kernel, weight) if weight.storage.type.width < 8 else net.constant(kernel),
        TensorType(f32, [batch, *made_sizes, kernel.shape[-1]]),
        channels_last(2),
        padding=[(2, 2)] * 2 if transposed else None,
        lhs_dilation=[2, 2] if transposed else None,
        feature_group_count=groups,
    )
    product = net.insert(op)
    added = net.insert(AddOp(product, net.along(bias.value * bias.scale, product, 3)))
    return net.finish([pinned(net, added, made.results[0])])


def narrow_weights(net: Network, kernel: Array, port: ModelPort) -> SSAValue:
    """Weights HWIO with casts to the port's type, which the target would not choose by itself."""
    scales, zeros = np.atleast_1d(port.scale).tolist(), np.atleast_1d(port.zero_point)
    points = np.broadcast_to(zeros, len(scales)).tolist()
    kind = UniformQuantizedType.per_channel(port.storage, 3, scales, points)
    value = net.constant(kernel)
    stored = net.insert(QuantizeCastOp(value, TensorType(kind, shape_of(value))))
    return net.insert(DequantizeCastOp(stored, value.type))


def pinned(net: Network, value: SSAValue, port: ModelPort) -> SSAValue:
    """The value after casts to the port's type and back."""
    kind = UniformQuantizedType.per_layer(port.storage, port.scale, port.zero_point)
    stored = net.insert(QuantizeCastOp(value, TensorType(kind, shape_of(value))))
    return net.insert(DequantizeCastOp(stored, value.type))


def float_program(made: Built, folder: Path) -> tuple[Program, dict[str, Array]]:
    """The program and its inputs; a convolution in NHWC, with weights of fewer than 8 bits pinned."""
    if not made.case.op.startswith("Conv"):
        return in_storage(loaded(made.proto, folder), made), made.inputs
    return channels_last_convolution(made), {"x0": np.moveaxis(made.inputs["x0"], 1, -1)}


def in_storage(program: Program, made: Built) -> Program:
    """The program with the ports' storage in its casts: a model in ONNX has whole integer types only."""
    ports = {
        parameters(port.scale, port.zero_point): port
        for port in (*made.operands, *made.results)
        if isinstance(port, ModelPort)
    }
    for op in list(program.entry.ops):
        kind = element_of(op.results[0]) if isinstance(op, QuantizeCastOp | StorageCastOp) else None
        if isinstance(kind, UniformQuantizedType) and not kind.is_sub_channel:
            port = ports.get(parameters(kind.scales, kind.zero_points))
            if port is not None and port.storage.type == kind.storage.type:
                wanted = UniformQuantizedType(replace(kind.data, storage=port.storage))
                Rewriter.replace_value_with_new_type(op.results[0], with_element(op.results[0], wanted))
    return program


def parameters(scales: Any, zero_points: Any) -> tuple[tuple[float, ...], tuple[int, ...]]:
    """Scales and zero points, one of each for all channels."""
    scale, point = np.broadcast_arrays(np.atleast_1d(scales), np.atleast_1d(zero_points))
    return tuple(scale.tolist()), tuple(point.tolist())


def check_weights(program: Program, row: KernelRow) -> None:
    """Assert that the weights have the row's width."""
    for op in program.entry.ops if row.input_rule(1).role is Role.WEIGHT else ():
        if isinstance(op, QuantizeRegionOp) and op.logical_kernel.data == row.kernel:
            kind = op.input_specs.data[1]
            assert isinstance(kind, UniformQuantizedType)
            assert kind.storage.type == row.inputs[1].storage.type


def result_type(program: Program, kernel: str) -> object:
    """The type that the region of a kernel gives its result."""
    ops = [op for op in program.entry.ops if isinstance(op, QuantizeRegionOp)]
    found = [op for op in ops if op.logical_kernel is not None and op.logical_kernel.data == kernel]
    assert found, f"no region is a {kernel}: {[str(op.logical_kernel) for op in ops]}"
    return found[-1].output_specs.data[0]


def regions_of(name: str, row: KernelRow, before: Program, made: Built) -> Program:
    """What our stages make of the program for a target: a region of the row's kernel, with the row's types."""
    found = propagated(name, before)
    check_weights(found, row)
    kind = result_type(found, row.kernel)
    assert isinstance(kind, UniformQuantizedType)
    assert (kind.storage, kind.scale, kind.zero_point) == (
        row.output.resolve(made.results[0].storage),
        made.results[0].scale,
        made.results[0].zero_point,
    )
    return found
