"""Rewrite onnxruntime's operators on packed constants that are no product of blocks: tables and codes of 4 bits.

Source: onnxruntime's contributed operators (`com.microsoft`), "GatherBlockQuantized" and "MatMulBnb4"; the codes are
those of bitsandbytes (QLoRA, arXiv:2305.14314, appendix E, for NF4).
"""

from __future__ import annotations

from collections.abc import Mapping

import ml_dtypes
import numpy as np
from onnx import NodeProto, helper

from zeropoint.frontend.errors import ModelError
from zeropoint.frontend.onnx.integer_rewriting import IntegerRewriting, attributes_of, input_at
from zeropoint.frontend.onnx.nbits import unpacked
from zeropoint.ir.tensors import Array

_HALF = (0.0, 0.005208333333, 0.66666667, 1.0, 0.33333333, 0.5, 0.16666667, 0.25)
FP4, NF4 = 0, 1
CODES: Mapping[int, Array] = {
    FP4: np.array([*_HALF, *(-number for number in _HALF)], np.float32),
    NF4: np.array(
        [
            *(-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635),
            *(-0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725),
            *(0.24611230194568634, 0.33791524171829224, 0.44070982933998108, 0.5626170039176941),
            *(0.7229568362236023, 1.0),
        ],
        np.float32,
    ),
}
"""The numbers of the 16 codes, by `quant_type`."""
PACKED_BITS = (4, 8)
LEAST_BLOCK = 16


def coded_weights(node: NodeProto, run: IntegerRewriting) -> bool:
    """Rewrite MatMulBnb4 to `MatMul` with float weights, because its codes are no integers with a scale.

    Blocks are runs of the flattened weights [N, K]. The first code of a byte is in its high bits. Returns False if the
    weights are computed.
    """
    codes, scales = (run.array(input_at(node.input, index)) for index in (1, 2))
    if codes is None or scales is None:
        return False
    given = attributes_of(node)
    rows, columns, block, kind = (int(given.get(name, 0)) for name in ("K", "N", "block_size", "quant_type"))
    if kind not in CODES or min(rows, columns, block) < 1:
        raise ModelError(
            f"found MatMulBnb4 with K {rows}, N {columns}, blocks of {block} and quant_type {kind}, expected positive "
            f"sizes, and 0 (FP4) or 1 (NF4)"
        )
    if not given.get("transB", 1):
        raise ModelError("found MatMulBnb4 with transB 0, expected 1, the form that onnxruntime computes")
    sizes = {"weights": (codes.size, -(-rows * columns // 2)), "scales": (scales.size, -(-rows * columns // block))}
    _check_sizes("MatMulBnb4", sizes)
    halves = unpacked(codes.reshape(-1), 4).reshape(-1, 2)[:, ::-1].reshape(-1)[: rows * columns]
    real = CODES[kind][halves] * np.repeat(scales.reshape(-1).astype(np.float32), block)[: rows * columns]
    name = run.constant(f"{node.input[1]}_real", np.ascontiguousarray(real.reshape(columns, rows).T))
    run.nodes.append(helper.make_node("MatMul", [node.input[0], name], node.output, node.name or node.output[0]))
    return True


def gathered_blocks(node: NodeProto, run: IntegerRewriting) -> bool:
    """Rewrite GatherBlockQuantized to a `DequantizeLinear` of blocks and a `Gather`. False if its table is computed."""
    stored, scales, points = (run.array(input_at(node.input, index)) for index in (0, 2, 3))
    if stored is None or scales is None or (points is None and input_at(node.input, 3)):
        return False
    given = attributes_of(node)
    bits, block = int(given.get("bits", 4)), int(given.get("block_size", 128))
    if bits not in PACKED_BITS or block < LEAST_BLOCK or block & (block - 1):
        raise ModelError(
            f"found GatherBlockQuantized with {bits} bits and blocks of {block}, expected 4 or 8 bits, and blocks of "
            f"{LEAST_BLOCK} elements or more, a power of 2"
        )
    if stored.dtype == np.uint8:
        # Bytes have a zero point in the middle unless one is given. Those of 4 bits are packed along the last axis.
        stored = _nibbles(stored, bits)
        given_points = None if points is None else _nibbles(points, bits)[..., : scales.shape[-1]]
        points = np.full(scales.shape, 1 << bits >> 1, stored.dtype) if given_points is None else given_points
    axis = _axis(given, "quantize_axis", 1, stored.ndim)
    blocks = [-(-size // block) if index == axis else size for index, size in enumerate(stored.shape)]
    for what, array in (("scales", scales), ("zero points", points)):
        if array is not None and list(array.shape) != blocks:
            raise ModelError(f"found {what} {list(array.shape)} of GatherBlockQuantized, expected {blocks}")
    name, real = node.input[0], run.unique(f"{node.input[0]}_real")
    arrays = {"stored": stored, "scale": scales.astype(np.float32), "zero_point": points}
    parts = [run.constant(f"{name}_{part}", array) for part, array in arrays.items() if array is not None]
    run.nodes.append(helper.make_node("DequantizeLinear", parts, [real], real, axis=axis, block_size=block))
    gather_axis = _axis(given, "gather_axis", 0, stored.ndim)
    inputs = [real, node.input[1]]
    run.nodes.append(helper.make_node("Gather", inputs, node.output, node.name or node.output[0], axis=gather_axis))
    return True


def _nibbles(array: Array, bits: int) -> Array:
    return array if bits == 8 else unpacked(array, bits).astype(ml_dtypes.uint4)


def _axis(given: Mapping[str, object], name: str, default: int, rank: int) -> int:
    axis = int(str(given.get(name, default)))
    if not -rank <= axis < rank:
        raise ModelError(f"found {name} {axis} of GatherBlockQuantized, expected {-rank} to {rank - 1}")
    return axis % rank


def _check_sizes(what: str, sizes: Mapping[str, tuple[int, int]]) -> None:
    for name, (found, expected) in sizes.items():
        if found != expected:
            raise ModelError(f"found {found} numbers for the {name} of {what}, expected {expected}")
