"""Ops of quantized graphs (PT2E, torchao) that PyTorch's ONNX exporter lacks, with the operations that it has."""

from __future__ import annotations

import importlib
from typing import Any


def integer_product(a: Any, b: Any) -> Any:
    """The product of matrices of 8-bit integers."""
    torch: Any = importlib.import_module("torch")
    return a.to(torch.int32) @ b.to(torch.int32)


def chosen_parameters(x: Any, least: int, most: int, eps: float, dtype: Any) -> Any:
    """The scale and the zero point that cover the range of a value, as dynamic quantization computes them."""
    del dtype
    torch: Any = importlib.import_module("torch")
    flat = x.reshape(-1)
    low, high = flat.amin(0).clamp(max=0), flat.amax(0).clamp(min=0)
    scale = ((high - low) / float(most - least)).clamp(min=eps)
    zero = (least - (low / scale).round()).clamp(least, most)
    return scale.to(torch.float64), zero.to(torch.int64)


def quantized(x: Any, scale: Any, zero: Any, least: int, most: int, dtype: Any) -> Any:
    """Integers by a scale and a zero point that are computed."""
    steps = (x * (1.0 / scale).to(x.dtype)).round() + zero.to(x.dtype)
    return steps.clamp(least, most).to(dtype)


def dequantized(x: Any, scale: Any, zero: Any, *_: Any, out_dtype: Any = None) -> Any:
    """Floats from integers by a scale and a zero point that are computed."""
    torch: Any = importlib.import_module("torch")
    kind = torch.float32 if out_dtype is None else out_dtype
    return (x.to(kind) - zero.to(kind)) * scale.to(kind)


def dequantized_tokens(x: Any, scale: Any, zero: Any, least: int, most: int, dtype: Any, out_dtype: Any) -> Any:
    """`dequantized` of rows that have scales and zero points of their own."""
    return dequantized(x, scale, zero, least, most, dtype, out_dtype=out_dtype)


_STORAGE = (("uint8", 2), ("int8", 3), ("uint16", 4), ("int16", 5))
"""The types of stored integers, narrow ones first, with ONNX's numbers for them."""


def is_narrowed(least: int, most: int, dtype: Any) -> bool:
    """Whether bounds exclude integers of a type."""
    torch: Any = importlib.import_module("torch")
    kind = torch.iinfo(dtype)
    return least > kind.min or most < kind.max


def clamped(x: Any, scale: float, zero: int, least: int, most: int, dtype: Any) -> Any:
    """Integers in bounds that exclude some of their type. PyTorch exports them without the bounds."""
    if not is_narrowed(least, most, dtype):
        return NotImplemented
    torch: Any = importlib.import_module("torch")
    kind = torch.iinfo(dtype)
    quantize = torch.ops.quantized_decomposed.quantize_per_tensor.default
    return quantize(x, scale, zero, kind.min, kind.max, dtype).clamp(least, most)


def fake_quantized(x: Any, scale: Any, zero: Any, least: int, most: int) -> Any:
    """A value that is rounded to the steps of a scale, in bounds that PyTorch's exporter does not take."""
    torch: Any = importlib.import_module("torch")
    if not isinstance(scale, torch.Tensor):
        scale, zero = torch.full((), scale), torch.full((), zero, dtype=torch.int32)
    return fake_quantized_channels(x, scale, zero, 0, least, most)


def fake_quantized_channels(x: Any, scale: Any, zero: Any, axis: int, least: int, most: int) -> Any:
    """`fake_quantized` with a scale and a zero point for each channel, or for all of them."""
    torch: Any = importlib.import_module("torch")
    kinds = [(getattr(torch, name), number) for name, number in _STORAGE]
    fitting = [
        kind for kind in kinds if torch.iinfo(kind[0]).min <= least and most <= torch.iinfo(kind[0]).max
    ]  # fmt: skip
    if (least, most) in ((0, 255), (-128, 127)) or not fitting:
        return NotImplemented
    dtype, number = fitting[0]
    write = torch.onnx.ops.symbolic
    zero = write("Cast", [zero], {"to": number}, dtype=dtype, shape=scale.shape)
    attributes = {"axis": axis} if scale.dim() else {}
    found = write("QuantizeLinear", [x, scale, zero], attributes, dtype=dtype, shape=x.shape)
    if is_narrowed(least, most, dtype):
        found = found.clamp(least, most)
    return write("DequantizeLinear", [found, scale, zero], attributes, dtype=torch.float32, shape=x.shape)


_KINDS = {(-8, 7): 22, (0, 15): 21}
"""ONNX's types INT4 and UINT4, by their bounds."""


def dequantized_groups(
    x: Any, scales: Any, zeros: Any, least: int, most: int, dtype: Any, group: int = 128, out_dtype: Any = None
) -> Any:
    """Weights [rows, columns] with a scale and a zero point for each group of columns: ONNX's form with blocks."""
    del dtype, out_dtype
    torch: Any = importlib.import_module("torch")
    bounded = x.clamp(least, most)
    zeros = torch.zeros(scales.shape, dtype=x.dtype) if zeros is None else zeros.to(x.dtype)
    zeros = zeros.reshape(-1) if group == x.shape[1] else zeros
    integers = [bounded, zeros]
    if kind := _KINDS.get((least, most)):
        cast = torch.onnx.ops.symbolic
        integers = [cast("Cast", [each], {"to": kind}, dtype=kind, shape=each.shape) for each in integers]
    inputs = [integers[0], scales.to(torch.float32), integers[1]]
    attributes = {"axis": 1, "block_size": group}
    if group == x.shape[1]:
        inputs, attributes = [inputs[0], inputs[1].reshape(-1), inputs[2]], {"axis": 0}
    return torch.onnx.ops.symbolic("DequantizeLinear", inputs, attributes, dtype=torch.float32, shape=x.shape)


def has_torchao_weights(model: Any) -> bool:
    """Whether a module or an `ExportedProgram` has weights of torchao, which the exporter writes as floats."""
    if hasattr(model, "graph_signature"):
        return any(str(node.target).startswith("torchao.") for node in model.graph.nodes)
    return any(type(each).__module__.startswith("torchao.") for each in model.parameters())


def dequantized_blocks(
    x: Any,
    block: Any,
    scales: Any,
    zeros: Any,
    dtype: Any,
    least: int | None = None,
    most: int | None = None,
    **settings: Any,
) -> Any:
    """Weights [rows, columns] with a scale and a zero point for each row, or for each group of its columns."""
    torch: Any = importlib.import_module("torch")
    if x.dim() != 2 or block[0] != 1 or dtype is None or dtype.is_floating_point:
        return NotImplemented
    if (zeros is not None and zeros.is_floating_point()) or settings.get("output_dtype") == torch.float64:
        return NotImplemented
    bounds = torch.iinfo(dtype)
    low, high = (int(bounds.min) if least is None else least), (int(bounds.max) if most is None else most)
    shape = (x.shape[0], x.shape[1] // block[1])
    zeros = None if zeros is None else zeros.reshape(shape)
    return dequantized_groups(x, scales.reshape(shape), zeros, low, high, dtype, block[1])


def chosen_parameters_of_tokens(x: Any, dtype: Any) -> Any:
    """The scale and the zero point of each row, as torchao's dynamic quantization computes them."""
    torch: Any = importlib.import_module("torch")
    bounds = torch.iinfo(dtype)
    low, high = x.amin(-1, keepdim=True).clamp(max=0), x.amax(-1, keepdim=True).clamp(min=0)
    scale = ((high - low) / float(bounds.max - bounds.min)).clamp(min=torch.finfo(torch.float32).eps)
    least, most = low / scale, high / scale
    is_low = (bounds.min + least) + (bounds.max + most) > 0
    zero = torch.where(is_low, bounds.min - least, bounds.max - most).clamp(bounds.min, bounds.max).round()
    return scale.to(torch.float64), zero.to(torch.int64)
