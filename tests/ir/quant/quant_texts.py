"""Hypothesis strategies for texts of quantized types and of programs of casts: valid ones, and ones with a fault."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

INTEGERS = st.sampled_from(["i8", "u8", "i4", "u4", "i16", "u16", "i32", "u32", "i1", "u1", "si8", "ui8", "si4", "ui3"])
FLOAT_STORAGE = st.sampled_from(["f8E5M2", "f8E4M3FN", "f4E2M1FN"])
EXPRESSED = st.sampled_from(["f32", "f16", "bf16", "f64", "tf32", "f80", "f128", "f8E5M2", "f8E8M0FNU", "f4E2M1FN"])
BAD_STORAGE = st.sampled_from(
    ["i0", "u0", "i33", "u33", "si33", "index", "f32", "u", "u8x", "ix", "int8", "tensor<1xi8>"]
)
BAD_EXPRESSED = st.sampled_from(["i8", "f33", "index", "tensor<1xf32>", "none"])
TOKENS = [
    "<",
    ">",
    ":",
    ",",
    "{",
    "}",
    "-",
    "1",
    "0x10",
    "1.0",
    "-1.0",
    "i8",
    "f32",
    "abc",
    "99999999999999999999",
    "0.0",
]


def real(value: float) -> str:
    """A literal with a point, as MLIR wants it."""
    digits, _, exponent = f"{value!r}".partition("e")
    return f"{digits if '.' in digits else digits + '.0'}{'e' + exponent if exponent else ''}"


scales = st.one_of(
    st.sampled_from(["1.0", "0.5", "2.0", "0.998", "0.1", "1.5e-3", "3.0E+1", "0x3FE0000000000000"]),
    st.floats(1e-4, 6.0).map(real),
    st.sampled_from(["0.0", "-1.0", "1.0e39", "1.0e-46", "6.6e4", "1.0e400"]),
)
points = st.one_of(
    st.just(""), st.integers(-1, 1).map(lambda z: f":{z}"), st.sampled_from([":0", ":127", ":3", ":300"])
)
bounds = st.one_of(
    st.just(""),
    st.tuples(st.integers(-9, 9), st.integers(-9, 16)).map(lambda pair: f"<{pair[0]}:{pair[1]}>"),
    st.sampled_from(["<-128:127>", "<0:255>", "<-127:127>", "<1>", "<0:1"]),
)


def _often(common: st.SearchStrategy[str], rare: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.integers(0, 9).flatmap(lambda roll: rare if roll == 0 else common)


storages = st.tuples(_often(_often(INTEGERS, FLOAT_STORAGE), BAD_STORAGE), bounds).map("".join)
expressed = _often(EXPRESSED, BAD_EXPRESSED)
scale_points = st.tuples(scales, points).map("".join)


@st.composite
def nested(draw, depth: int) -> str:
    if depth == 0:
        return draw(scale_points)
    return "{" + ", ".join(draw(st.lists(nested(depth - 1), min_size=1, max_size=3))) + "}"


axis_blocks = st.lists(
    st.tuples(st.integers(-1, 3), st.integers(-1, 4)).map(lambda pair: f"{pair[0]}:{pair[1]}"), max_size=3
).map(lambda pairs: "{" + ", ".join(pairs) + "}")


@st.composite
def uniform(draw) -> str:
    head = f"!quant.uniform<{draw(storages)}:{draw(expressed)}"
    kind = draw(st.integers(0, 2))
    if kind == 0:
        return f"{head}, {draw(scale_points)}>"
    if kind == 1:
        return f"{head}:{draw(st.integers(-1, 3))}, {draw(nested(1))}>"
    return f"{head}:{draw(axis_blocks)}, {draw(nested(draw(st.integers(1, 3))))}>"


@st.composite
def quantile(draw) -> str:
    values = ",".join(draw(st.lists(scales, max_size=4)))
    limits = draw(st.sampled_from(["", ", <0:1>", ", <-1:1>", ", <5:3>", ", <0:3>"]))
    storage = draw(st.sampled_from(["ui1", "i1", "si8", "u4", "i8", "f8E4M3FN", "f32", "index"]))
    return f"!quant.quantile<{storage}:{draw(expressed)}, {{{values}}}{limits}>"


any_type = st.tuples(storages, st.one_of(st.just(""), expressed.map(lambda t: f":{t}"))).map(
    lambda parts: f"!quant.any<{''.join(parts)}>"
)
calibrated = st.tuples(expressed, scales, scales).map(
    lambda parts: f"!quant.calibrated<{parts[0]}<-{parts[1]}:{parts[2]}>>"
)
types = st.one_of(uniform(), uniform(), uniform(), any_type, calibrated, quantile())


@st.composite
def mutated(draw) -> str:
    """A type's text with a stretch cut out, doubled, or replaced by a token."""
    text = draw(types)
    body = text.index("<") + 1
    start = draw(st.integers(body, len(text)))
    stop = min(start + draw(st.integers(0, 3)), len(text))
    return text[:start] + draw(st.sampled_from(["", text[start:stop] * 2, *TOKENS])) + text[stop:]


# Programs: types that are right by themselves, in containers that may not fit them.
shapes = st.lists(st.sampled_from(["?", "0", "1", "2", "3", "4", "6"]), max_size=3)


def container(shape: list[str] | None, element: str) -> str:
    if shape is None:
        return element
    return f"tensor<{''.join(f'{size}x' for size in shape)}{element}>"


good_scale_points = st.tuples(st.sampled_from(["1.0", "0.5", "0.25"]), st.sampled_from(["", ":1", ":-1", ":3"])).map(
    "".join
)
good_expressed = st.sampled_from(["f32", "f32", "f32", "f16", "f64", "bf16"])


@st.composite
def good_uniform(draw, storage=None) -> str:
    storage = draw(st.sampled_from(["i8", "i8<-127:127>", "i4", "i16", "si8", "i32"])) if storage is None else storage
    head = f"!quant.uniform<{storage}:{draw(good_expressed)}"
    kind = draw(st.integers(0, 2))
    if kind == 0:
        return f"{head}, {draw(good_scale_points)}>"
    if kind == 1:
        count = draw(st.integers(1, 4))
        entries = ", ".join(draw(good_scale_points) for _ in range(count))
        return f"{head}:{draw(st.integers(0, 2))}, {{{entries}}}>"
    axes = draw(st.lists(st.integers(0, 2), unique=True, max_size=2))
    blocks = ", ".join(f"{axis}:{draw(st.integers(1, 4))}" for axis in axes)
    rank = draw(st.integers(1, 3))
    counts = [draw(st.integers(1, 3)) for _ in range(rank)]
    return f"{head}:{{{blocks}}}, {draw(block_scales(counts))}>"


@st.composite
def block_scales(draw, counts: list[int]) -> str:
    if not counts:
        return draw(good_scale_points)
    return "{" + ", ".join(draw(block_scales(counts[1:])) for _ in range(counts[0])) + "}"


elements = st.one_of(
    good_uniform(),
    good_uniform(),
    st.sampled_from(["f32", "i8", "f16", "i16", "si8", "index", "!quant.any<i8:f32>", "!quant.any<i8>"]),
    st.just("!quant.calibrated<f32<-1.0:1.0>>"),
)
containers = st.one_of(st.none(), st.just(["*"]), shapes)


@st.composite
def programs(draw) -> str:
    """One cast, its operand and its result chosen apart or together."""
    op = draw(st.sampled_from(["qcast", "dcast", "scast"]))
    shape = draw(containers)
    other = shape if draw(st.integers(0, 4)) else draw(containers)
    quantized = draw(elements)
    plain = draw(st.sampled_from({"scast": ["i8", "i16", "f32"]}.get(op, ["f32", "f32", "f16", "i8"])))
    given, result = (plain, quantized) if op == "qcast" or draw(st.booleans()) else (quantized, plain)
    given, result = container(shape, given), container(other, result)
    form = draw(st.sampled_from(["pretty"] * 3 + ["generic"] * 2 + ["two operands", "two results"]))
    return cast_program(op, given, result) if form == "pretty" else generic_program(op, form, given, result)


def cast_program(op: str, given: str, result: str) -> str:
    cast = f"%0 = quant.{op} %arg0 : {given} to {result}"
    return f"func.func @f(%arg0: {given}) -> {result} {{\n  {cast}\n  return %0 : {result}\n}}"


def generic_program(op: str, form: str, given: str, result: str) -> str:
    operands = ["%arg0"] * (1 + (form == "two operands"))
    results = [result] * (1 + (form == "two results"))
    types = f"({', '.join([given] * len(operands))}) -> ({', '.join(results)})"
    cast = f'%0:{len(results)} = "quant.{op}"({", ".join(operands)}) {{a = 1 : i32}} : {types}'
    return f"func.func @f(%arg0: {given}) -> {result} {{\n  {cast}\n  return %0#0 : {result}\n}}"


@dataclass(frozen=True)
class Cast:
    """One qcast or dcast, in a function of its own: `container` is "scalar", "ranked" or "unranked"."""

    op: str
    container: str
    shown: list[str]
    sizes: tuple[int, ...]
    expressed: str
    quantized: str

    def _held(self, element: str) -> str:
        shapes = {"scalar": None, "ranked": self.shown, "unranked": ["*"]}
        return container(shapes[self.container], element)

    @property
    def text(self) -> str:
        """The cast alone, quantized types in the header."""
        ends = [self._held(self.expressed), self._held(self.quantized)]
        return cast_program(self.op, *(ends if self.op == "qcast" else ends[::-1]))

    def runnable(self, stored: str) -> str:
        """@f from a ranked tensor of floats to one of `stored` integers, or back, with the cast in the middle."""
        quantizes = self.op == "qcast"
        given, made = (self.expressed, stored) if quantizes else (stored, self.expressed)
        tensor = [f"{size}" for size in self.sizes]
        outer = [
            container(tensor if self.container == "unranked" else self.shown, element) for element in (given, made)
        ]
        real, integer, quantized = (self._held(element) for element in (self.expressed, stored, self.quantized))
        inner = [real, integer] if quantizes else [integer, real]
        casts = (
            [f"quant.qcast %a : {real} to {quantized}", f"quant.scast %b : {quantized} to {integer}"]
            if quantizes
            else [f"quant.scast %a : {integer} to {quantized}", f"quant.dcast %b : {quantized} to {real}"]
        )
        into, out_of = {
            "scalar": (f"tensor.extract %x[] : {outer[0]}", f"tensor.from_elements %c : {outer[1]}"),
            "ranked": (f"tensor.cast %x : {outer[0]} to {outer[0]}", f"tensor.cast %c : {outer[1]} to {outer[1]}"),
            "unranked": (f"tensor.cast %x : {outer[0]} to {inner[0]}", f"tensor.cast %c : {inner[1]} to {outer[1]}"),
        }[self.container]
        steps = [f"%a = {into}", f"%b = {casts[0]}", f"%c = {casts[1]}", f"%r = {out_of}", f"return %r : {outer[1]}"]
        body = "".join(f"  {step}\n" for step in steps)
        return f"func.func @f(%x: {outer[0]}) -> {outer[1]} {{\n{body}}}"


LOWERED_STORAGES = {  # zero points at both ends of what the storage holds
    "i8": [-128, -1, 1, 127],
    "u8": [1, 128, 255],
    "i4": [-8, 7],
    "u4": [15],
    "u8<1:200>": [1, 200, 255],
    "i8<-127:127>": [-127, 3],
    "i16": [-32768, 300, 32767],
    "u16": [65535],
    "i32": [-5, 2147483647],
    "u32": [4294967295],
}


@st.composite
def lowerable(draw) -> Cast:
    """Casts of scalars, of ranked, dynamic and unranked tensors, of every granularity that they may have."""
    # At most 64 scales: more of them are constants behind a handle, which C++ MLIR does not see.
    sizes = [draw(st.sampled_from([1, 2, 4])) for _ in range(draw(st.sampled_from([0, 1, 1, 2, 2, 3])))]
    rank = len(sizes)
    storage = draw(st.sampled_from(list(LOWERED_STORAGES)))
    float_type = draw(st.sampled_from(["f32", "f32", "f64", "f16", "bf16"]))
    head = f"!quant.uniform<{storage}:{float_type}"
    points = ["", *(f":{point}" for point in LOWERED_STORAGES[storage])]
    steps = st.one_of(st.sampled_from(["1.0", "0.5", "0.1", "0.037"]), st.floats(1e-3, 50.0).map(real))
    entry = st.tuples(steps, st.sampled_from(points)).map("".join)
    kind = draw(st.sampled_from(["layer", "channel", "block"] if rank else ["layer"]))
    if kind == "layer":
        quantized = f"{head}, {draw(entry)}>"
    elif kind == "channel":
        axis = draw(st.integers(0, rank - 1))
        quantized = f"{head}:{axis}, {{{', '.join(draw(entry) for _ in range(sizes[axis]))}}}>"
    else:
        blocks = {
            a: draw(st.sampled_from([d for d in (1, 2, 3) if sizes[a] % d == 0]))
            for a in range(rank)
            if draw(st.booleans())
        }
        counts = [sizes[axis] // blocks[axis] if axis in blocks else 1 for axis in range(rank)]
        listed = ", ".join(f"{axis}:{size}" for axis, size in blocks.items())
        quantized = f"{head}:{{{listed}}}, {draw(_entries(entry, counts))}>"
    shown = [draw(st.sampled_from([str(size), str(size), "?"])) for size in sizes]
    held = ["ranked"] if kind == "block" else ["ranked", "ranked", "unranked"]
    held += ["scalar"] * (not rank)
    return Cast(
        draw(st.sampled_from(["qcast", "dcast"])),
        draw(st.sampled_from(held)),
        shown,
        tuple(sizes),
        float_type,
        quantized,
    )


@st.composite
def _entries(draw, entry: st.SearchStrategy[str], counts: list[int]) -> str:
    if not counts:
        return draw(entry)
    return "{" + ", ".join(draw(_entries(entry, counts[1:])) for _ in range(counts[0])) + "}"
