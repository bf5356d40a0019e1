"""Write the float operators that onnxruntime's optimizer fuses as functions of standard operators, to be inlined.

A function is written for each node, because optional inputs and attributes decide what it contains. Forms that have
none here stay as they are, and the importer refuses them.

Source: onnxruntime's contributed operators (`com.microsoft`): their schemas.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from onnx import ModelProto, NodeProto, helper, parser

from zeropoint.frontend.onnx.bodies import nodes_of

DOMAIN = "zeropoint.fused"
_AXES_ARE_INPUTS = 18
"""The opset from which on ReduceMean has its axes as an input."""


@dataclass(frozen=True)
class _Node:
    """A node's attributes, and which of its inputs are given. Input 0 is named `i0`, output 0 `o0`."""

    attributes: Mapping[str, Any]
    inputs: Sequence[str]
    outputs: int
    opset: int

    def has(self, index: int) -> bool:
        return index < len(self.inputs) and bool(self.inputs[index])

    def number(self, name: str, default: float) -> float:
        return float(self.attributes.get(name, default))

    def of(self, op: str, dropped: Sequence[str]) -> str:
        """A standard operator with the node's attributes except for those that only the fused operator has."""
        kept = {name: value for name, value in self.attributes.items() if name not in dropped}
        written = ", ".join(f"{name} = {_written(value)}" for name, value in kept.items())
        return f"{op} <{written}>" if written else op


def _written(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(str, cast('list[object]', value)))}]"
    return f'"{value.decode()}"' if isinstance(value, bytes) else repr(value)


def _number(name: str, value: float) -> str:
    return f"{name} = Constant <value_float = {float(value)!r}> ()"


def _added(node: _Node, first: str, index: int, result: str) -> str:
    """`result` is `first` plus an optional input."""
    return f"{result} = Add ({first}, i{index})" if node.has(index) else f"{result} = Identity ({first})"


_GELU = [
    _number("half", 0.5),
    _number("one", 1.0),
    _number("root", 0.5**0.5),
    *("r = Mul (x, root)", "e = Erf (r)", "f = Add (e, one)", "h = Mul (x, half)", "o0 = Mul (h, f)"),
]


def _gelu(node: _Node) -> list[str]:
    return [_added(node, "i0", 1, "x"), *_GELU]


def _fast_gelu(node: _Node) -> list[str]:
    """x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))."""
    return [
        _added(node, "i0", 1, "x"),
        *(_number("half", 0.5), _number("one", 1.0), _number("c", 0.044715), _number("s", 0.7978845608028654)),
        *("a = Mul (x, x)", "b = Mul (a, x)", "d = Mul (c, b)", "e = Add (x, d)", "f = Mul (s, e)", "t = Tanh (f)"),
        *("g = Add (t, one)", "h = Mul (x, half)", "o0 = Mul (h, g)"),
    ]


def _quick_gelu(node: _Node) -> list[str]:
    return [_number("a", node.number("alpha", 1.702)), "b = Mul (a, i0)", "c = Sigmoid (b)", "o0 = Mul (i0, c)"]


_PARAMETERS: Mapping[str, Sequence[str]] = {
    "Elu": ("alpha",),
    "HardSigmoid": ("alpha", "beta"),
    "LeakyRelu": ("alpha",),
    "ThresholdedRelu": ("alpha",),
}
"""Functions with parameters, which a fused operator has in this order."""


def _activated(node: _Node, value: str, parameters: Sequence[float]) -> list[str] | None:
    """`o0` is the function in the attribute `activation` of a value; None if it is not known."""
    name = bytes(node.attributes.get("activation", b"")).decode()
    names = _PARAMETERS.get(name, ())
    if name in ("Relu", "Sigmoid", "Softplus", "Softsign", "Tanh", ""):
        return [f"o0 = {name or 'Identity'} ({value})"]
    if name == "Clip" and len(parameters) == 2:
        low, high = parameters
        return [_number("low", low), _number("high", high), f"a = Max ({value}, low)", "o0 = Min (a, high)"]
    if not names or len(parameters) < len(names):
        return None
    written = ", ".join(f"{each} = {float(value)!r}" for each, value in zip(names, parameters, strict=False))
    return [f"o0 = {name} <{written}> ({value})"]


def _convolution(node: _Node) -> list[str] | None:
    """A Conv, an optional sum with a fourth input, and a function."""
    end = _activated(node, "b", list(node.attributes.get("activation_params", [])))
    conv = node.of("Conv", ("activation", "activation_params"))
    bias = ", i2" if node.has(2) else ""
    return None if end is None else [f"a = {conv} (i0, i1{bias})", _added(node, "a", 3, "b"), *end]


def _gemm(node: _Node) -> list[str] | None:
    given = [node.attributes[name] for name in ("activation_alpha", "activation_beta") if name in node.attributes]
    end = _activated(node, "a", given)
    gemm = node.of("Gemm", ("activation", "activation_alpha", "activation_beta", "activation_gamma"))
    bias = ", i2" if node.has(2) else ""
    return None if end is None else [f"a = {gemm} (i0, i1{bias})", *end]


def _matrix_product(node: _Node) -> list[str]:
    """alpha * A B. Each may be transposed, and may have its rows in the first dimension, before the batches."""

    def factor(index: int, name: str) -> str:
        given = "i...j" if node.attributes.get(f"transBatch{name}") else "...ij"
        wanted = "...ji" if node.attributes.get(f"trans{name}") else "...ij"
        if given == wanted:
            return f"m{index} = Identity (i{index})"
        return f'm{index} = Einsum <equation = "{given}->{wanted}"> (i{index})'

    product = ("p = MatMul (m0, m1)", "o0 = Mul (p, alpha)")
    return [factor(0, "A"), factor(1, "B"), _number("alpha", node.number("alpha", 1.0)), *product]


def _mean(node: _Node, value: str, result: str) -> list[str]:
    if node.opset < _AXES_ARE_INPUTS:
        return [f"{result} = ReduceMean <axes = [-1], keepdims = 1> ({value})"]
    return [f"{result}_axes = Constant <value_ints = [-1]> ()", f"{result} = ReduceMean ({value}, {result}_axes)"]


def _norm(node: _Node, *, centred: bool, scale: int, bias: int, epsilon: float) -> list[str]:
    """The norm of `x` along its last dimension, by input `scale`, and input `bias` if it is given.

    `epsilon` is the default of the attribute.
    """
    centring = [*_mean(node, "x", "m"), "d = Sub (x, m)"] if centred else ["d = Identity (x)"]
    return [
        *centring,
        *(_number("two", 2.0), "s = Pow (d, two)", *_mean(node, "s", "v")),
        *(_number("e", node.number("epsilon", epsilon)), "w = Add (v, e)", "r = Sqrt (w)"),
        *("n = Div (d, r)", f"g = Mul (n, i{scale})", _added(node, "g", bias, "o0")),
    ]


def _simplified_norm(node: _Node) -> list[str] | None:
    if node.attributes.get("axis", -1) != -1 or node.outputs > 1:
        return None
    return ["x = Identity (i0)", *_norm(node, centred=False, scale=1, bias=9, epsilon=1e-5)]


def _skip_norm(centred: bool) -> Callable[[_Node], list[str] | None]:
    def written(node: _Node) -> list[str] | None:
        """The norm of x + skip + bias. Output 3 is this sum; outputs 1 and 2 are of training."""
        beta, bias = (3, 4) if centred else (9, 3)
        total = [_added(node, "i0", 1, "y"), _added(node, "y", bias, "x")]
        summed = ["o3 = Identity (x)"] if node.outputs > 3 else []
        return [*total, *summed, *_norm(node, centred=centred, scale=2, bias=beta, epsilon=1e-12)]

    return written


FORMS: Mapping[tuple[str, str], Callable[[_Node], list[str] | None]] = {
    ("com.microsoft", "BiasGelu"): _gelu,
    ("com.microsoft", "FastGelu"): _fast_gelu,
    ("com.microsoft", "FusedConv"): _convolution,
    ("com.microsoft", "FusedGemm"): _gemm,
    ("com.microsoft", "FusedMatMul"): _matrix_product,
    ("com.microsoft", "Gelu"): _gelu,
    ("com.microsoft", "QuickGelu"): _quick_gelu,
    ("com.microsoft", "SkipLayerNormalization"): _skip_norm(centred=True),
    ("com.microsoft", "SkipSimplifiedLayerNormalization"): _skip_norm(centred=False),
    # onnxruntime registers this operator in ONNX's domain.
    ("", "SimplifiedLayerNormalization"): _simplified_norm,
}


def with_fused_operators(model: ModelProto, opset: int) -> ModelProto:
    """The model, changed in place, with a local function for every fused operator that has a form here."""
    count = 0
    for node in nodes_of(model.graph):
        form = FORMS.get((node.domain, node.op_type))
        lines = None if form is None else form(_read(node, opset))
        if lines is not None:
            count += 1
            _call(node, f"{node.op_type}{count}", lines, model, opset)
    if count:
        model.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    return model


def _read(node: NodeProto, opset: int) -> _Node:
    given = {each.name: helper.get_attribute_value(each) for each in node.attribute}
    used = max((i + 1 for i, name in enumerate(node.output) if name), default=0)
    return _Node(given, list(node.input), used, opset)


def _call(node: NodeProto, name: str, lines: Sequence[str], model: ModelProto, opset: int) -> None:
    """Make the node a call of a new function with these lines."""
    inputs = [(f"i{i}", each) for i, each in enumerate(node.input) if each]
    outputs = [(f"o{i}", each) for i, each in enumerate(node.output) if each]
    parameters, results = (", ".join(inner for inner, _ in pairs) for pairs in (inputs, outputs))
    head = f'<domain: "{DOMAIN}", opset_import: ["" : {opset}]> {name} ({parameters}) => ({results})'
    function = parser.parse_function(f"{head} {{ {' '.join(lines)} }}")
    for each in function.node:
        each.name = node.name or outputs[0][1]
    model.functions.append(function)
    node.domain, node.op_type = DOMAIN, name
    del node.input[:], node.output[:], node.attribute[:]
    node.input.extend(outer for _, outer in inputs)
    node.output.extend(outer for _, outer in outputs)
