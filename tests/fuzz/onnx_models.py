"""ONNX models, and a mutator that edits their protocol buffers: numbers, names, shapes, attributes, nodes, bytes."""

from __future__ import annotations

import functools
import random
from collections.abc import Iterator
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from onnx import ModelProto, parser

from fuzz.damage import damaged

_NETWORK = """<ir_version: 8, opset_import: ["" : 17]>
network (float[1, 3, 8, 8] x) => (float[1, N] y)
<float[4, 3, 3, 3] w = {W}, float[4] b = {0.1, 0.2, 0.3, 0.4}, float[4] one = {1, 1, 1, 1}, int64[2] flat = {1, -1},
 float[4] scales = {1, 1, 2, 2}, int64[8] pads = {0, 0, 1, 1, 0, 0, 1, 1}, int64[1] two = {2}> {
  c = Conv <pads = [1, 1, 1, 1], strides = [2, 2]> (x, w, b)
  n = BatchNormalization (c, one, b, b, one)
  r = Relu (n)
  p = MaxPool <kernel_shape = [2, 2], strides = [1, 1], ceil_mode = 1> (r)
  a = AveragePool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (r)
  u = Resize <mode = "linear"> (p, , scales)
  q = Pad (a, pads)
  j = Concat <axis = 1> (q, u)
  m = ReduceMean <axes = [2, 3], keepdims = 1> (j)
  t = Transpose <perm = [0, 2, 3, 1]> (m)
  s0, s1 = Split <axis = 3> (t)
  s = Mul (s0, s1)
  f = Reshape (s, flat)
  y = Softmax <axis = 1> (f)
}"""
_SHAPES = """<ir_version: 9, opset_import: ["" : 18]>
shapes (float[2, 6] x) => (float[A, B] y, int64[C] i)
<int64[1] zero = {0}, int64[1] one = {1}, int64[2] repeats = {1, 2}, int64 start = {0}, int64 delta = {1},
 int64[1] depth = {4}, float[2] values = {0, 1}, int64[3] wide = {1, 2, 6}, int64[1] rest = {-1}> {
  n = Shape (x)
  h = Gather (n, zero)
  e = ConstantOfShape (n)
  r = Range (start, delta, delta)
  v = Concat <axis = 0> (h, rest)
  o = Reshape (x, v)
  t = Tile (o, repeats)
  k = Expand (x, wide)
  d = Squeeze (k, zero)
  g = OneHot (r, depth, values)
  l = EyeLike (x)
  z = Slice (t, zero, depth, one)
  c = CumSum (z, one)
  w, i0 = TopK (c, one)
  i = Flatten <axis = 0> (n)
  j = Trilu (x)
  a = Add (d, e)
  b = Add (a, l)
  y = Add (b, j)
}"""
_FUNCTIONS = """<ir_version: 9, opset_import: ["" : 17, "local" : 1]>
functions (float[2, 4] x) => (float[2, 4] y)
<int64 trips = {3}, bool yes = {1}> {
  a = local.twice (x)
  b = local.more <k: int = 1> (a)
  y = Loop (trips, yes, b) <body = body (int64 i, bool go, float[2, 4] carried) => (bool again, float[2, 4] next) {
      again = Identity (go)
      next = Sigmoid (carried)
  }>
}
<opset_import: ["" : 17], domain: "local">
twice (x) => (y) {
  y = Add (x, x)
}
<opset_import: ["" : 17, "local" : 1], domain: "local">
more <k> (x) => (y) {
  z = local.twice (x)
  y = Softmax <axis: int = @k> (z)
}"""
_GATES = """<ir_version: 9, opset_import: ["" : 17]>
gates (float[1, 3, 4] x) => (float[1, 3, 5] y, float[1, 3, 4] l)
<float[1, 8, 4] w = {W}, float[1, 8, 2] r = {R}, float[4, 5] k = {K}, float[5] b = {1, 2, 3, 4, 5},
 float[4] g = {1, 1, 1, 1}, float[4, 2] i = {1, 2, 3, 4, 5, 6, 7, 8}, float s = {0.1}, uint8 z = {3}, bool on = {1}> {
  m = MatMul (x, k)
  d = Add (m, b)
  q = QuantizeLinear (d, s, z)
  e = DequantizeLinear (q, s, z)
  n = Einsum <equation = "abc,cd->bd"> (x, i)
  y = If (on) <
    then_branch = yes () => (float[1, 3, 5] yes_y) { yes_y = HardSwish (e) },
    else_branch = no () => (float[1, 3, 5] no_y) { no_y = Identity (e) }
  >
  l = LayerNormalization <axis = -1> (x, g, g)
  h, hh, hc = LSTM <hidden_size = 2> (x, w, r)
}"""

_LARGE = (2**31, 2**40, 2**62, 2**63 - 1)
_INTEGERS = (0, -1, -2, 1, 2, 3, 7, 100, 100_000, 2**31 - 1, -(2**31), *_LARGE, -(2**63))
_FLOATS = (0.0, -1.0, 0.5, 1e-30, 1e30, float("inf"), float("-inf"), float("nan"))
_NAMES = ("", "x", "y", "nothing", "a\0b", "é", "../x", "x" * 5000)


def _filled(number: float, count: int) -> str:
    return "{" + ", ".join(str(number + index % 3) for index in range(count)) + "}"


@functools.cache
def models() -> tuple[ModelProto, ...]:
    """Small models of many operators: a network, shape arithmetic, functions, loops and gates."""
    texts = (
        _NETWORK.replace("{W}", _filled(0.25, 108)),
        _SHAPES,
        _FUNCTIONS,
        _GATES.replace("{W}", _filled(0.5, 32)).replace("{R}", _filled(0.5, 16)).replace("{K}", _filled(-1, 20)),
    )
    return tuple(parser.parse_model(text) for text in texts)


def _messages(message: Message) -> Iterator[Message]:
    """A message and all inside of it."""
    yield message
    for field, value in message.ListFields():
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            for inner in value if field.is_repeated else (value,):
                yield from _messages(inner)


def _new(field: FieldDescriptor, was: Any, choose: random.Random) -> Any:
    """Another value of a field."""
    match field.cpp_type:
        case FieldDescriptor.CPPTYPE_ENUM:
            return choose.choice([value.number for value in field.enum_type.values])
        case FieldDescriptor.CPPTYPE_INT32:
            return choose.choice([number for number in _INTEGERS if abs(number) < 2**31] + [was + 1])
        case FieldDescriptor.CPPTYPE_INT64:
            return choose.choice(_INTEGERS)
        case FieldDescriptor.CPPTYPE_UINT64:
            return choose.choice((0, 1, 2**63, 2**64 - 1))
        case FieldDescriptor.CPPTYPE_FLOAT | FieldDescriptor.CPPTYPE_DOUBLE:
            return choose.choice(_FLOATS)
        case _ if field.type == FieldDescriptor.TYPE_BYTES:
            return damaged(was, choose) if was else bytes([choose.randrange(256)]) * choose.randrange(9)
        case _:
            return choose.choice(_NAMES)


def _edit(message: Any, choose: random.Random) -> None:
    """One change in one field of a message."""
    fields = message.ListFields()
    kinds = message.DESCRIPTOR.fields
    field = choose.choice([each for each, _ in fields]) if fields and choose.random() < 0.8 else choose.choice(kinds)
    if field.is_repeated:
        _edit_list(getattr(message, field.name), field, choose)
    elif field.type == FieldDescriptor.TYPE_MESSAGE or choose.random() < 0.15:
        message.ClearField(field.name)
    else:
        setattr(message, field.name, _new(field, getattr(message, field.name), choose))


def _edit_list(values: Any, field: FieldDescriptor, choose: random.Random) -> None:
    """An entry less, one twice, two exchanged, or one with another value."""
    at = choose.randrange(len(values)) if values else 0
    match choose.randrange(4):
        case 0 if values:
            del values[at]
        case 1 if values:
            values.append(values[at])
        case 2 if len(values) > 1 and field.type == FieldDescriptor.TYPE_MESSAGE:
            values[at].CopyFrom(choose.choice(values))
        case _ if field.type == FieldDescriptor.TYPE_MESSAGE:
            values.add()
        case _ if values:
            values[at] = _new(field, values[at], choose)
        case _:
            values.append(_new(field, b"" if field.type == FieldDescriptor.TYPE_BYTES else 0, choose))


def _rewire(model: ModelProto, choose: random.Random) -> None:
    """A node reads another tensor, or is another operator."""
    nodes = [found for found in _messages(model) if found.DESCRIPTOR.name == "NodeProto"]
    if not nodes:
        return
    node: Any = choose.choice(nodes)
    names = [name for each in nodes for name in (*each.input, *each.output)]  # pyright: ignore (onnx's generated classes have no types)
    if node.input and choose.random() < 0.7:
        node.input[choose.randrange(len(node.input))] = choose.choice(names)
    else:
        node.op_type = choose.choice(nodes).op_type  # pyright: ignore (onnx's generated classes have no types)


def mutated_model(model: ModelProto, choose: random.Random) -> bytes:
    """A model's bytes after a few edits of its fields, and sometimes of the bytes."""
    found = ModelProto()
    found.CopyFrom(model)
    for _ in range(choose.choice((1, 1, 2, 3, 8))):
        if choose.random() < 0.2:
            _rewire(found, choose)
        else:
            _edit(choose.choice(list(_messages(found))), choose)
    data = found.SerializePartialToString()
    return damaged(data, choose) if choose.random() < 0.1 else data
