"""Attention as onnxruntime's optimizer and exporters of language models write it, compared with onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from frontend.onnx.models import assert_same_as_onnxruntime, load, model, random, tensor
from zeropoint.frontend import ModelError
from zeropoint.interp import run

MICROSOFT = "com.microsoft"
Given = Mapping[str, np.ndarray | None]
I32 = np.int32


def node_of(
    op_type: str, inputs: Given, outputs: int | tuple[str, ...] = 1, constant: tuple[str, ...] = (), **attributes: Any
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """A model of one node, and arrays for its inputs. None leaves an input out; `constant` names constants."""
    results = tuple(f"y{i}" for i in range(outputs)) if isinstance(outputs, int) else outputs
    names = [name if array is not None else "" for name, array in inputs.items()]
    node = helper.make_node(op_type, names, results, name="node", domain=MICROSOFT, **attributes)
    given = {name: array for name, array in inputs.items() if array is not None}
    ports = [
        tensor(name, array.shape, helper.np_dtype_to_tensor_dtype(array.dtype))
        for name, array in given.items()
        if name not in constant
    ]
    counts = "mask_index"
    kinds = [TensorProto.INT32 if name == counts else TensorProto.FLOAT for name in results]
    ends = [tensor(name, None, kind) for name, kind in zip(results, kinds, strict=True) if name]
    fixed = {name: array for name, array in given.items() if name in constant}
    proto = model([node], ports, ends, fixed, 17, (MICROSOFT,))
    return proto, {name: array for name, array in given.items() if name not in constant}


def same(
    folder: Path,
    op_type: str,
    inputs: Given,
    outputs: int | tuple[str, ...] = 1,
    *,
    tolerance: float = 2e-5,
    **rest: Any,
) -> None:
    proto, given = node_of(op_type, inputs, outputs, **rest)
    assert_same_as_onnxruntime(proto, folder, given, tolerance)


def ints(*numbers: Any) -> np.ndarray:
    return np.array(numbers, I32)


PADDED = ints([1, 1, 1, 0, 0], [1, 1, 1, 1, 1])
SQUARE = np.array(random(2, 5, 5, seed=8) > -1, I32)
SQUARE[:, :, 0] = 1


def projection(batch: int = 2, sequence: int = 5, width: int = 6, hidden: int = 8, values: int = 8) -> dict[str, Any]:
    return {
        "x": random(batch, sequence, width),
        "w": random(width, 2 * hidden + values, seed=1),
        "b": random(2 * hidden + values, seed=2),
    }


X = projection()
LONGER = ints([0, 1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 1, 1])
PAST = random(2, 2, 2, 3, 4, seed=4)
BIAS = random(2, 2, 5, 5, seed=5)
ATTENTION: dict[str, tuple[Given, dict[str, Any]]] = {
    "plain": (X, {}),
    "without bias": ({**X, "b": None}, {}),
    "scale": (X, {"scale": 0.3}),
    "one token": (projection(sequence=1), {"unidirectional": 1}),
    "lengths": ({**X, "m": ints(3, 5)}, {}),
    "ends and starts": ({**X, "m": ints(5, 4, 2, 0)}, {}),
    "keys": ({**X, "m": PADDED}, {"mask_filter_value": -50.0}),
    "keys of each query": ({**X, "m": SQUARE}, {}),
    "unidirectional": (X, {"unidirectional": 1}),
    "unidirectional, keys": ({**X, "m": PADDED}, {"unidirectional": 1, "mask_filter_value": -3.0}),
    "unidirectional, keys of each query": ({**X, "m": SQUARE}, {"unidirectional": 1, "mask_filter_value": -3.0}),
    "past": ({**X, "m": None, "p": PAST}, {"outputs": 2}),
    "past, keys, unidirectional": ({**X, "m": LONGER, "p": PAST}, {"outputs": 2, "unidirectional": 1}),
    "past, lengths": ({**X, "m": ints(6, 8), "p": PAST}, {"outputs": 2, "unidirectional": 1}),
    "present without past": ({**X}, {"outputs": 2}),
    "bias of scores": ({**X, "m": None, "p": None, "a": BIAS}, {}),
    "bias of scores, one head": ({**X, "m": PADDED, "p": None, "a": BIAS[:1, :1]}, {"unidirectional": 1}),
    "values of another size": (projection(values=12), {"qkv_hidden_sizes": [8, 8, 12]}),
    "constant mask": ({**X, "m": PADDED}, {"constant": ("w", "b", "m")}),
}


@pytest.mark.parametrize("name", ATTENTION)
def test_attention_computes_what_onnxruntime_does(name: str, tmp_path: Path) -> None:
    inputs, rest = ATTENTION[name]
    same(tmp_path, "Attention", inputs, **{"num_heads": 2, **rest})


Q, K, V = random(2, 5, 8), random(2, 7, 8, seed=1), random(2, 7, 12, seed=2)
SAME = random(2, 5, 8, seed=3)
NONE: Given = {"b": None, "m": None, "a": None}
CACHE = {"pk": random(2, 2, 3, 4, seed=6), "pv": random(2, 2, 3, 4, seed=7)}
KEYS = ints([1, 1, 1, 1, 0, 0, 0], [1, 0, 1, 1, 1, 1, 1])
MULTI_HEAD: dict[str, tuple[Given, dict[str, Any]]] = {
    "cross": ({"q": Q, "k": K, "v": V}, {}),
    "biases": ({"q": Q, "k": K, "v": V, "b": random(28, seed=3)}, {"scale": 0.2}),
    "keys": ({"q": Q, "k": K, "v": V, "b": None, "m": KEYS}, {"mask_filter_value": -40.0}),
    "lengths": ({"q": Q, "k": K, "v": V, "b": None, "m": ints(3, 7)}, {}),
    "keys of each query": ({"q": Q, "k": SAME, "v": SAME, "b": None, "m": SQUARE}, {}),
    "bias of scores": ({"q": Q, "k": K, "v": V, "b": None, "m": None, "a": random(1, 2, 5, 7)}, {}),
    "unidirectional": ({"q": Q, "k": SAME, "v": SAME}, {"unidirectional": 1}),
    "unidirectional, more keys": ({"q": Q, "k": K, "v": V}, {"unidirectional": 1}),
    "unidirectional, more keys, some of them": (
        {"q": Q, "k": K, "v": V, "b": None, "m": KEYS},
        {"unidirectional": 1, "mask_filter_value": -3.0},
    ),
    "keys and values with heads": ({"q": Q, "k": random(2, 2, 7, 4), "v": random(2, 2, 7, 4, seed=9)}, {}),
    "past": ({"q": Q, "k": SAME, "v": SAME, **NONE, **CACHE}, {"outputs": 3, "unidirectional": 1}),
    "past, keys": ({"q": Q, "k": SAME, "v": SAME, "b": None, "m": LONGER, "a": None, **CACHE}, {"outputs": 3}),
    "past, bias": (
        {"q": Q, "k": SAME, "v": SAME, "b": random(24), "m": None, "a": random(2, 1, 5, 8), **CACHE},
        {"outputs": 3},
    ),
    "present": ({"q": Q, "k": K, "v": V}, {"outputs": 3}),
    "scores": ({"q": Q, "k": K, "v": V, "b": None, "m": KEYS}, {"outputs": ("y", "", "", "s")}),
}


@pytest.mark.parametrize("name", MULTI_HEAD)
def test_attention_of_heads_computes_what_onnxruntime_does(name: str, tmp_path: Path) -> None:
    inputs, rest = MULTI_HEAD[name]
    same(tmp_path, "MultiHeadAttention", inputs, **{"num_heads": 2, **rest})


def results(folder: Path, inputs: Given) -> np.ndarray:
    proto, given = node_of("MultiHeadAttention", inputs, num_heads=2)
    return run(load(proto, folder), given)["y0"]


def test_packed_inputs_equal_separate_ones(tmp_path: Path) -> None:
    """onnxruntime has kernels for these on GPUs only."""
    wanted = results(tmp_path, {"q": Q, "k": SAME, "v": 2 * SAME})
    q, k, v = (each.reshape(2, 5, 2, 1, 4) for each in (Q, SAME, 2 * SAME))
    assert np.array_equal(wanted, results(tmp_path, {"q": Q, "k": np.concatenate([k, v], 3)}))
    assert np.array_equal(wanted, results(tmp_path, {"q": np.concatenate([q, k, v], 3)}))


COS, SIN = np.cos(random(9, 4, seed=3)), np.sin(random(9, 4, seed=3))
POSITIONS = np.array([[0, 1, 2, 3, 4], [4, 5, 6, 7, 8]])
CACHES = {"c": COS, "s": SIN}
FIRST = np.array([3])
ROTARY: dict[str, tuple[Given, dict[str, Any]]] = {
    "features": ({"x": random(2, 5, 16), "p": POSITIONS, **CACHES}, {}),
    "features, interleaved": ({"x": random(2, 5, 16), "p": FIRST, **CACHES}, {"interleaved": 1}),
    "heads": ({"x": random(2, 3, 5, 8), "p": POSITIONS, **CACHES}, {}),
    "heads, first position": ({"x": random(2, 3, 5, 8), "p": FIRST, **CACHES}, {"constant": ("p", "c", "s")}),
    "a part of the features": (
        {"x": random(2, 5, 24), "p": POSITIONS, **CACHES},
        {"num_heads": 2, "rotary_embedding_dim": 8},
    ),
    "a part, interleaved": (
        {"x": random(2, 5, 24), "p": POSITIONS, **CACHES},
        {"num_heads": 2, "rotary_embedding_dim": 8, "interleaved": 1, "constant": ("p",)},
    ),
    "one token": ({"x": random(1, 1, 16), "p": np.array([[3]]), **CACHES}, {}),
}


@pytest.mark.parametrize("name", ROTARY)
def test_rotary_positions_are_those_of_onnxruntime(name: str, tmp_path: Path) -> None:
    inputs, rest = ROTARY[name]
    same(tmp_path, "RotaryEmbedding", inputs, **rest)


WORDS, KINDS = ints([0, 3, 5, 8], [1, 1, 2, 3]), ints([0, 0, 1, 1], [0, 1, 1, 1])
TABLES = {"w": random(9, 6), "t": random(7, 6, seed=1), "s": random(2, 6, seed=2)}
NORM = {"g": random(6, seed=3), "b": random(6, seed=4)}
EMBEDDINGS: dict[str, tuple[Given, dict[str, Any]]] = {
    "plain": ({"i": WORDS, "k": KINDS, **TABLES, **NORM}, {}),
    "epsilon": ({"i": WORDS, "k": KINDS, **TABLES, **NORM}, {"epsilon": 0.1}),
    "without segments": ({"i": WORDS, "k": None, **TABLES, "s": None, **NORM}, {}),
    "mask": (
        {"i": WORDS, "k": KINDS, **TABLES, **NORM, "m": ints([1, 1, 0, 0], [1, 1, 1, 1])},
        {"outputs": ("y", "mask_index"), "mask_index_type": 1},
    ),
    "sum": ({"i": WORDS, "k": KINDS, **TABLES, **NORM}, {"outputs": ("y", "mask_index", "sum")}),
    "positions": ({"i": WORDS, "k": KINDS, **TABLES, **NORM, "m": None, "p": ints([2, 3, 4, 6], [0, 0, 1, 1])}, {}),
    "positions of all": (
        {"i": WORDS, "k": KINDS, **TABLES, **NORM, "m": None, "p": ints([2, 3, 4, 6])},
        {"outputs": ("y", "", "sum"), "mask_index_type": 0},
    ),
}


@pytest.mark.parametrize("name", EMBEDDINGS)
def test_embeddings_are_those_of_onnxruntime(name: str, tmp_path: Path) -> None:
    inputs, rest = EMBEDDINGS[name]
    same(tmp_path, "EmbedLayerNormalization", inputs, **{"outputs": ("y", "mask_index"), **rest})


def grouped(
    sequence: int,
    last: Any,
    total: int,
    past: int | None = None,
    *,
    batch: int = 2,
    packed: bool = False,
    size: int = 16,
    **more: np.ndarray | None,
) -> Given:
    """The inputs of a GroupQueryAttention with 4 heads of queries and 2 of keys and values."""
    parts = {"q": random(batch, sequence, 4 * size)}
    parts |= {name: random(batch, sequence, 2 * size, seed=i) for i, name in ((1, "k"), (2, "v"))}
    if packed:
        parts = {"q": np.concatenate(list(parts.values()), 2), "k": None, "v": None}
    buffers = {
        name: None if past is None else random(batch, 2, past, size, seed=i) for i, name in ((3, "pk"), (4, "pv"))
    }
    given = {**parts, **buffers, "l": np.array(last, I32), "t": ints(total)}
    names = ("c", "s", "p", "a", "h")
    while more and not set(names[-1:]) & set(more):
        names = names[:-1]
    return given | ({name: more.get(name) for name in names} if more else {})


WIDE = {"c": np.cos(random(16, 8, seed=3)), "s": np.sin(random(16, 8, seed=3))}
HALF = {"c": np.cos(random(16, 8, seed=3)), "s": np.sin(random(16, 8, seed=3))}
GROUPS: dict[str, tuple[Given, dict[str, Any]]] = {
    "prompt": (grouped(5, [4, 4], 5), {}),
    "prompt, packed": (grouped(5, [4, 4], 5, packed=True), {}),
    "prompt, empty past": (grouped(5, [4, 4], 5, 0), {}),
    "prompt in a buffer": (grouped(5, [4, 4], 5, 9), {}),
    "prompt, rotary": (grouped(5, [4, 4], 5, **WIDE), {"do_rotary": 1}),
    "prompt, rotary, packed": (grouped(5, [4, 4], 5, packed=True, **WIDE), {"do_rotary": 1, "rotary_interleaved": 1}),
    "token": (grouped(1, [6, 6], 7, 6), {}),
    "token, rotary": (grouped(1, [6, 6], 7, 6, **WIDE), {"do_rotary": 1}),
    "token of other lengths": (grouped(1, [4, 6], 7, 6), {}),
    "token of other lengths, rotary, packed": (grouped(1, [4, 6], 7, 6, packed=True, **WIDE), {"do_rotary": 1}),
    "token in a buffer": (grouped(1, [4, 6], 7, 10, **WIDE), {"do_rotary": 1}),
    "rotary of a part": (grouped(1, [4, 6], 7, 10, size=32, **HALF), {"do_rotary": 1}),
    "tokens": (grouped(3, [7], 8, 5, batch=1), {}),
    "tokens, rotary": (grouped(3, [7], 8, 5, batch=1, **WIDE), {"do_rotary": 1, "rotary_interleaved": 1}),
    "tokens, window": (grouped(3, [7], 8, 5, batch=1), {"local_window_size": 3}),
    "prompt, window": (grouped(5, [4, 4], 5), {"local_window_size": 2}),
    "softcap": (grouped(5, [4, 4], 5), {"softcap": 1.5}),
    "scale": (grouped(5, [4, 4], 5), {"scale": 0.7}),
    "smooth": (grouped(5, [4, 4], 5), {"smooth_softmax": 1}),
    "sink": (grouped(5, [4, 4], 5, h=random(4)), {}),
    "bias": (grouped(5, [4, 4], 5, a=random(2, 4, 5, 5)), {}),
    "bias of all, softcap": (grouped(3, [7], 8, 5, batch=1, a=random(1, 1, 3, 8)), {"softcap": 1.5}),
    "positions": (grouped(3, [7], 8, 5, batch=1, **WIDE, p=np.array([[2, 4, 6]])), {"do_rotary": 1}),
    "positions of a prompt": (grouped(5, [4, 4], 5, **WIDE, p=POSITIONS), {"do_rotary": 1}),
    "not causal": (grouped(5, [4, 4], 5), {"causal": 0}),
    "not causal, tokens": (grouped(3, [7], 8, 5, batch=1), {"causal": 0}),
}


@pytest.mark.parametrize("computed", [False, True])
@pytest.mark.parametrize("name", GROUPS)
def test_attention_of_groups_computes_what_onnxruntime_does(name: str, computed: bool, tmp_path: Path) -> None:
    inputs, rest = GROUPS[name]
    constant = ("t",) if computed else ("t", "l")
    rest = {"num_heads": 4, "kv_num_heads": 2, "outputs": 3, **rest}
    same(tmp_path, "GroupQueryAttention", inputs, constant=constant, **rest)


def integers(data: np.ndarray, kind: type[np.generic], scale: Any, zero: Any) -> np.ndarray:
    bounds = np.iinfo(kind)  # pyright: ignore[reportArgumentType] (an integer type)
    return np.clip(np.rint(data / scale) + zero, bounds.min, bounds.max).astype(kind)


COLUMNS = random(24, low=0.01, high=0.02)
QUANTIZED = {"bias": X["b"], "xs": np.array(0.02, np.float32), "ws": np.array(0.015, np.float32)}
INTEGERS = {"x": integers(X["x"], np.uint8, 0.02, 120), "w": integers(X["w"], np.int8, 0.015, 0)}
POINTS = {"xz": np.array(120, np.uint8), "wz": np.array(0, np.int8)}
QUANTIZED_ATTENTION: dict[str, tuple[Given, dict[str, Any]]] = {
    "plain": ({**INTEGERS, **QUANTIZED, "m": None, **POINTS}, {}),
    "mask, unidirectional": ({**INTEGERS, **QUANTIZED, "m": PADDED, **POINTS}, {"unidirectional": 1}),
    "past": ({**INTEGERS, **QUANTIZED, "m": None, **POINTS, "p": PAST}, {"outputs": 2}),
    "a scale for each column": (
        {**INTEGERS, **QUANTIZED, "ws": COLUMNS, "m": None, **POINTS, "wz": np.zeros(24, np.int8)},
        {},
    ),
    "u8 weights": (
        {
            **INTEGERS,
            "w": integers(X["w"], np.uint8, 0.015, 128),
            **QUANTIZED,
            "m": None,
            **POINTS,
            "wz": np.array(128, np.uint8),
        },
        {},
    ),
}


@pytest.mark.parametrize("name", QUANTIZED_ATTENTION)
def test_attention_of_integers_computes_what_onnxruntime_does(name: str, tmp_path: Path) -> None:
    inputs, rest = QUANTIZED_ATTENTION[name]
    constant = ("w", "bias", "xs", "ws", "xz", "wz")
    same(tmp_path, "QAttention", inputs, **{"num_heads": 2, "constant": constant, **rest})


@pytest.mark.parametrize("left_out", [(), ("k", "s")])
def test_embeddings_of_integers_are_those_of_onnxruntime(left_out: tuple[str, ...], tmp_path: Path) -> None:
    arrays = {**TABLES, **NORM}
    tables = {name: integers(array, np.uint8, 0.02, 120 + i) for i, (name, array) in enumerate(arrays.items())}
    scales = {f"{name}s": np.array(0.02 + i / 999, np.float32) for i, name in enumerate(arrays)}
    points = {f"{name}z": np.array(120 + i, np.uint8) for i, name in enumerate(arrays)}
    mask = {"m": ints([1, 1, 0, 0], [1, 1, 1, 1])}
    given: Given = {"i": WORDS, "k": KINDS, **tables, **mask, **scales, **points}
    given = {name: None if name in left_out or name[:1] in left_out[1:] else array for name, array in given.items()}
    constant = (*tables, *scales, *points)
    same(tmp_path, "QEmbedLayerNormalization", given, ("y", "mask_index"), constant=constant)


def test_attention_with_a_computed_scale_is_loaded(tmp_path: Path) -> None:
    """onnxruntime's dynamic quantization writes this."""
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "xs", "xz"], name="dynamic"),
        helper.make_node(
            "QAttention", ["q", "w", "b", "xs", "ws", "m", "xz", "wz"], ["y"], "node", domain=MICROSOFT, num_heads=2
        ),
    ]
    constants = {"w": INTEGERS["w"], "b": X["b"], "ws": QUANTIZED["ws"], "wz": POINTS["wz"]}
    ports = [tensor("x", (2, 5, 6)), tensor("m", (2, 5), TensorProto.INT32)]
    proto = model(nodes, ports, [tensor("y", None)], constants, 17, (MICROSOFT,))
    assert_same_as_onnxruntime(proto, tmp_path, {"x": X["x"], "m": PADDED}, 2e-5)


REFUSED: dict[str, tuple[str, Given, dict[str, Any], str]] = {
    "rotary": ("Attention", X, {"do_rotary": 1}, r"found do_rotary 1, expected 0; .*apply RotaryEmbedding"),
    "buffer": ("Attention", X, {"past_present_share_buffer": 1}, r"found past_present_share_buffer 1, expected 0; "),
    "mask": (
        "Attention",
        {**X, "m": np.ones((2, 1, 8, 8), I32)},
        {},
        r"found a mask of shape \[2, 1, 8, 8\], expected ",
    ),
    "heads": ("Attention", X, {"num_heads": 3}, r"found weights of 24 columns for 3 heads"),
    "no value": ("MultiHeadAttention", {"q": Q, "k": SAME}, {}, r"found no 'value', expected one beside 'key'"),
    "computed length": (
        "GroupQueryAttention",
        grouped(1, [6, 6], 7, 6),
        {"num_heads": 4, "kv_num_heads": 2},
        r"found a computed 'total_sequence_length', expected a constant; make constants of .*: t",
    ),
    "cache of integers": (
        "GroupQueryAttention",
        grouped(1, [6, 6], 7, 6),
        {"num_heads": 4, "kv_num_heads": 2, "k_quant_type": "PER_TENSOR"},
        r"found k_quant_type 'PER_TENSOR', expected 'NONE'; export the model with a cache of floats",
    ),
    "packed batches": (
        "RotaryEmbedding",
        {"x": random(2, 5, 16), "p": POSITIONS, **CACHES},
        {"num_heads": 0, "is_packed_batching": 1},
        r"found is_packed_batching 1, expected 0; export the model with padded batches",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_says_what_to_do(name: str, tmp_path: Path) -> None:
    op_type, inputs, rest, message = REFUSED[name]
    proto, _ = node_of(op_type, inputs, **{"num_heads": 2, **rest})
    with pytest.raises(ModelError, match=rf"'node' \(com.microsoft::{op_type}\): {message}"):
        load(proto, tmp_path)


def test_lengths_that_a_decoder_computes_from_its_mask(tmp_path: Path) -> None:
    """Exporters of language models write this: the shape of the mask is the length, its sums are those of batches."""
    nodes = [
        helper.make_node("ReduceSum", ["mask", "axis"], ["sum"], keepdims=0),
        helper.make_node("Sub", ["sum", "one"], ["last"]),
        helper.make_node("Cast", ["last"], ["l"], to=TensorProto.INT32),
        helper.make_node("Shape", ["mask"], ["shape"]),
        helper.make_node("Gather", ["shape", "place"], ["length"], axis=0),
        helper.make_node("Cast", ["length"], ["t"], to=TensorProto.INT32),
        helper.make_node(
            "GroupQueryAttention",
            ["q", "k", "v", "pk", "pv", "l", "t", "c", "s"],
            ["y", "key", "value"],
            "node",
            domain=MICROSOFT,
            num_heads=4,
            kv_num_heads=2,
            do_rotary=1,
        ),
    ]
    given = {name: array for name, array in grouped(1, [4, 6], 7, 6).items() if name in ("q", "k", "v", "pk", "pv")}
    mask = np.array([[1, 1, 1, 1, 1, 0, 0], [1] * 7])
    constants = {"axis": np.array([1]), "one": np.array([1]), "place": np.array(1), **WIDE}
    ports = [
        tensor(name, array.shape, helper.np_dtype_to_tensor_dtype(array.dtype))
        for name, array in {**given, "mask": mask}.items()
        if array is not None
    ]
    proto = model(nodes, ports, [tensor(name, None) for name in ("y", "key", "value")], constants, 17, (MICROSOFT,))
    assert_same_as_onnxruntime(proto, tmp_path, {**given, "mask": mask}, 2e-5)
