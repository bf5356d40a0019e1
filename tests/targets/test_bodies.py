"""Every kernel's body is verified against its name: of each kernel, one body that fits, and the same body negated."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner

from zeropoint.cli import main
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.ir.regions import regions_of
from zeropoint.ir.text import parse_program
from zeropoint.targets.bodies import misfit
from zeropoint.targets.logical_kernels import FUSED, PASSES_ELEMENTS, WRITTEN

T, ROW = "tensor<2x4xf32>", "tensor<2xf32>"
NUMBERS = {"zero": "0.0", "half": "0.5", "one": "1.0", "three": "3.0", "six": "6.0", "four": "4.0", "less": "-1.0"}
CONSTANTS = "\n".join(f"%{name} = stablehlo.constant dense<{number}> : {T}" for name, number in NUMBERS.items())


def reduced(name: str, op: str, start: str, value: str = "%a", of: str = T) -> str:
    """A reduction of rows."""
    return f"""%{name}i = stablehlo.constant dense<{start}> : tensor<f32>
%{name} = stablehlo.reduce({value} init: %{name}i) applies stablehlo.{op} across dimensions = [1]
  : ({of}, tensor<f32>) -> {ROW}"""


def windows(op: str, start: str) -> str:
    return f"""%i = stablehlo.constant dense<{start}> : tensor<f32>
%w = "stablehlo.reduce_window"(%a, %i) <{{window_dimensions = array<i64: 1, 1>}}> ({{
^bb0(%p: tensor<f32>, %q: tensor<f32>):
  %m = stablehlo.{op} %p, %q : tensor<f32>
  stablehlo.return %m : tensor<f32>
}}) : ({T}, tensor<f32>) -> {T}"""


def position(op: str, start: str) -> str:
    return f"""{reduced("e", op, start)}
%eb = stablehlo.broadcast_in_dim %e, dims = [0] : ({ROW}) -> {T}
%t = stablehlo.compare EQ, %a, %eb : ({T}, {T}) -> tensor<2x4xi1>
%n = stablehlo.iota dim = 1 : tensor<2x4xi32>
%l = stablehlo.constant dense<3> : tensor<2x4xi32>
%s = stablehlo.select %t, %n, %l : tensor<2x4xi1>, tensor<2x4xi32>
%li = stablehlo.constant dense<3> : tensor<i32>
%r = stablehlo.reduce(%s init: %li) applies stablehlo.minimum across dimensions = [1]
  : (tensor<2x4xi32>, tensor<i32>) -> tensor<2xi32>"""


SHIFTED = f"""{reduced("g", "maximum", "0xFF800000")}
%gb = stablehlo.broadcast_in_dim %g, dims = [0] : ({ROW}) -> {T}
%d = stablehlo.subtract %a, %gb : {T}
%x = stablehlo.exponential %d : {T}
{reduced("s", "add", "0.0", "%x")}"""
WHOLE = f"%b = stablehlo.broadcast_in_dim %s, dims = [0] : ({ROW}) -> {T}"
CENTRED = f"""{reduced("s", "add", "0.0")}
%sb = stablehlo.broadcast_in_dim %s, dims = [0] : ({ROW}) -> {T}
%m = stablehlo.divide %sb, %four : {T}
%c = stablehlo.subtract %a, %m : {T}
%q = stablehlo.multiply %c, %c : {T}
{reduced("v", "add", "0.0", "%q")}
%vb = stablehlo.broadcast_in_dim %v, dims = [0] : ({ROW}) -> {T}
%n = stablehlo.rsqrt %vb : {T}
%r = stablehlo.multiply %c, %n : {T}"""
SIZED = f"""%q = stablehlo.multiply %a, %a : {T}
{reduced("v", "add", "0.0", "%q")}
%vb = stablehlo.broadcast_in_dim %v, dims = [0] : ({ROW}) -> {T}
%n = stablehlo.rsqrt %vb : {T}
%r = stablehlo.multiply %a, %n : {T}"""


def convolution(shape: str = "tensor<1x4x1x1xf32>", attributes: str = "feature_group_count = 1 : i64") -> str:
    return f"""%r = stablehlo.convolution(%a, %b) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {{}}
  {{batch_group_count = 1 : i64, {attributes}}} : ({shape}, tensor<4x4x1x1xf32>) -> {shape}"""


def clamped(low: str, high: str) -> str:
    return f"%r = stablehlo.clamp %{low}, %a, %{high} : {T}"


def unary(op: str) -> tuple[str, str, str]:
    return (f"%r = stablehlo.{op} %a : {T}", T, T)


def binary(op: str) -> tuple[str, str, str]:
    return (f"%r = stablehlo.{op} %a, %b : {T}", f"{T}, {T}", T)


def contraction(op: str) -> tuple[str, str, str]:
    return (op, f"{T}, tensor<4x4xf32>", T)


IMAGE = "tensor<1x4x1x1xf32>"
DOT = f"%r = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : ({T}, tensor<4x4xf32>) -> {T}"
RESIZE = f"""%n = stablehlo.constant dense<[[1.0, 1.0]]> : tensor<1x2xf32>
%d = stablehlo.dot_general %a, %n, contracting_dims = [2] x [0] {{zeropoint.resized = 2 : i64}}
  : ({IMAGE}, tensor<1x2xf32>) -> tensor<1x4x1x2xf32>
%r = stablehlo.transpose %d, dims = [0, 1, 3, 2] : (tensor<1x4x1x2xf32>) -> tensor<1x4x2x1xf32>"""
GATE = f"%g = stablehlo.logistic %a : {T}\n"
BODIES: Mapping[str, tuple[str, str, str]] = {
    # kernel: the ops, the types of the operands, the type of the result
    **{name: binary(name) for name in ("add", "divide", "maximum", "minimum", "multiply", "subtract")},
    **{name: unary(name) for name in ("abs", "log", "logistic", "rsqrt", "sqrt", "tanh")},
    "exp": unary("exponential"),
    "relu": (f"%r = stablehlo.maximum %a, %zero : {T}", T, T),
    "relu6": (clamped("zero", "six"), T, T),
    "relu_0_to_1": (clamped("zero", "one"), T, T),
    "relu_n1_to_1": (clamped("less", "one"), T, T),
    "silu": (f"{GATE}%r = stablehlo.multiply %a, %g : {T}", T, T),
    "elu": (
        f"""%l = stablehlo.minimum %a, %zero : {T}
%e = stablehlo.exponential_minus_one %l : {T}
%h = stablehlo.maximum %a, %zero : {T}
%r = stablehlo.add %e, %h : {T}""",
        T,
        T,
    ),
    "gelu": (
        f"""%c = stablehlo.constant dense<0.7978845608> : {T}
%k = stablehlo.constant dense<0.044715> : {T}
%x2 = stablehlo.multiply %a, %a : {T}
%x3 = stablehlo.multiply %x2, %a : {T}
%kx = stablehlo.multiply %x3, %k : {T}
%s = stablehlo.add %a, %kx : {T}
%cs = stablehlo.multiply %s, %c : {T}
%t = stablehlo.tanh %cs : {T}
%u = stablehlo.add %t, %one : {T}
%v = stablehlo.multiply %u, %half : {T}
%r = stablehlo.multiply %v, %a : {T}""",
        T,
        T,
    ),
    "hard_sigmoid": (
        f"""%d = stablehlo.divide %a, %six : {T}
%s = stablehlo.add %d, %half : {T}
%r = stablehlo.clamp %zero, %s, %one : {T}""",
        T,
        T,
    ),
    "hard_swish": (
        f"""%s = stablehlo.add %a, %three : {T}
%c = stablehlo.clamp %zero, %s, %six : {T}
%d = stablehlo.divide %c, %six : {T}
%r = stablehlo.multiply %d, %a : {T}""",
        T,
        T,
    ),
    "leaky_relu": (f"%m = stablehlo.multiply %a, %half : {T}\n%r = stablehlo.maximum %m, %a : {T}", T, T),
    "softplus": (
        f"%e = stablehlo.exponential %a : {T}\n%p = stablehlo.log_plus_one %e : {T}\n"
        f"%f = stablehlo.compare GT, %a, %six : ({T}, {T}) -> tensor<2x4xi1>\n"
        f"%n = stablehlo.negate %a : {T}\n%en = stablehlo.exponential %n : {T}\n"
        f"%pn = stablehlo.log_plus_one %en : {T}\n%l = stablehlo.add %pn, %a : {T}\n"
        f"%r = stablehlo.select %f, %l, %p : tensor<2x4xi1>, {T}",
        T,
        T,
    ),
    "compare": (f"%r = stablehlo.compare LT, %a, %b : ({T}, {T}) -> tensor<2x4xi1>", f"{T}, {T}", "tensor<2x4xi1>"),
    "prelu": (
        f"%t = stablehlo.compare GE, %a, %zero : ({T}, {T}) -> tensor<2x4xi1>\n%m = stablehlo.multiply %a, %b : {T}\n"
        f"%r = stablehlo.select %t, %a, %m : tensor<2x4xi1>, {T}",
        f"{T}, {T}",
        T,
    ),
    "batch_matmul": contraction(DOT),
    "fully_connected": contraction(DOT),
    "linear_resize": (RESIZE, IMAGE, "tensor<1x4x2x1xf32>"),
    "convolution": (convolution(), f"{IMAGE}, tensor<4x4x1x1xf32>", IMAGE),
    "transpose_convolution": (convolution(), f"{IMAGE}, tensor<4x4x1x1xf32>", IMAGE),
    "depthwise_convolution": (
        convolution(attributes="feature_group_count = 4 : i64").replace("tensor<4x4x1x1xf32>", "tensor<4x1x1x1xf32>"),
        f"{IMAGE}, tensor<4x1x1x1xf32>",
        IMAGE,
    ),
    "sum": (reduced("r", "add", "0.0"), T, ROW),
    "reduce_max": (reduced("r", "maximum", "0xFF800000"), T, ROW),
    "reduce_min": (reduced("r", "minimum", "0x7F800000"), T, ROW),
    "mean": (
        f"""{reduced("s", "add", "0.0")}
%n = stablehlo.constant dense<4.0> : {ROW}
%r = stablehlo.divide %s, %n : {ROW}""",
        T,
        ROW,
    ),
    "max_pool": (windows("maximum", "0xFF800000").replace("%w", "%r"), T, T),
    "average_pool": (f"{windows('add', '0.0')}\n%r = stablehlo.multiply %w, %one : {T}", T, T),
    "arg_max": (position("maximum", "0xFF800000"), T, "tensor<2xi32>"),
    "arg_min": (position("minimum", "0x7F800000"), T, "tensor<2xi32>"),
    "softmax": (
        f"{SHIFTED}\n{WHOLE}\n%r = stablehlo.divide %x, %b : {T}",
        T,
        T,
    ),
    "log_softmax": (
        f"{SHIFTED}\n%l = stablehlo.log %s : {ROW}\n%b = stablehlo.broadcast_in_dim %l, dims = [0] : ({ROW}) -> {T}\n"
        f"%r = stablehlo.subtract %d, %b : {T}",
        T,
        T,
    ),
    "layer_norm": (CENTRED, T, T),
    "rms_norm": (SIZED, T, T),
    "broadcast": (f"%r = stablehlo.broadcast_in_dim %a, dims = [0] : ({ROW}) -> {T}", ROW, T),
    "concatenate": (f"%r = stablehlo.concatenate %a, %b, dim = 0 : ({ROW}, {ROW}) -> tensor<4xf32>",
                    f"{ROW}, {ROW}", "tensor<4xf32>"),
    "gather": (
        f"""%r = "stablehlo.gather"(%a, %b) <{{dimension_numbers = #stablehlo.gather<offset_dims = [1],
  collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false,
  slice_sizes = array<i64: 1, 4>}}> : ({T}, tensor<2x1xi32>) -> {T}""",
        f"{T}, tensor<2x1xi32>",
        T,
    ),
    "pad": (
        f"""%i = stablehlo.constant dense<0.0> : tensor<f32>
%r = stablehlo.pad %a, %i, low = [1], high = [1], interior = [0] : ({ROW}, tensor<f32>) -> tensor<4xf32>""",
        ROW,
        "tensor<4xf32>",
    ),
    "reshape": (f"%r = stablehlo.reshape %a : ({T}) -> tensor<8xf32>", T, "tensor<8xf32>"),
    "squared_difference": (
        f"%d = stablehlo.subtract %a, %b : {T}\n%r = stablehlo.multiply %d, %d : {T}",
        f"{T}, {T}",
        T,
    ),
    "reverse": (f"%r = stablehlo.reverse %a, dims = [0] : {T}", T, T),
    "select": (f"%r = stablehlo.select %a, %b, %c : tensor<2x4xi1>, {T}", f"tensor<2x4xi1>, {T}, {T}", T),
    "slice": (f"%r = stablehlo.slice %a [0:1] : ({ROW}) -> tensor<1xf32>", ROW, "tensor<1xf32>"),
    "transpose": (f"%r = stablehlo.transpose %a, dims = [1, 0] : ({T}) -> tensor<4x2xf32>", T, "tensor<4x2xf32>"),
    "rescale": ("", T, T),
}  # fmt: skip


def text(kernel: str, ops: str, operands: str, result: str, returned: str = "%r") -> str:
    types = operands.split(", ")
    given = [(f"%x{index}", "%" + "abc"[index], kind) for index, kind in enumerate(types)]
    ports = ", ".join(f"{inner}: {kind} = {outer}" for outer, inner, kind in given)
    return f"""func.func @main({", ".join(f"{outer}: {kind}" for outer, _, kind in given)}) -> {result} {{
%y = quant.region "{kernel}"({ports}) -> {result} {{
{CONSTANTS}
{ops}
quant.return {returned} : {result}
}}
return %y : {result}
}}"""


def region(program: Program) -> QuantizeRegionOp:
    return regions_of(program)[0]


@pytest.mark.parametrize("kernel", sorted({*FUSED, "rescale"} - {"elementwise_unary"}))
def test_a_body_fits_its_kernel_and_not_if_its_result_is_computed_on(kernel: str) -> None:
    ops, operands, result = BODIES[kernel]
    last = "%r" if ops else "%a"
    fits = parse_program(text(kernel, ops, operands, result, last))
    assert misfit(region(fits), fits.weights) is None
    more = "negate" if "f32" in result else "not"
    changed = parse_program(text(kernel, f"{ops}\n%z = stablehlo.{more} {last} : {result}", operands, result, "%z"))
    reason = misfit(region(changed), changed.weights)
    assert str(reason).startswith("found ")


@pytest.mark.parametrize("kernel", sorted(PASSES_ELEMENTS & WRITTEN))
def test_a_kernel_of_a_text_that_moves_elements_computes_none(kernel: str) -> None:
    moves = parse_program(text(kernel, *BODIES["reshape"]))
    assert misfit(region(moves), moves.weights) is None
    computes = parse_program(text(kernel, *BODIES["tanh"]))
    assert misfit(region(computes), computes.weights) == (
        "found stablehlo.tanh in the region, which computes elements, expected ops that move them"
    )


OTHERS: Mapping[str, tuple[str, str, str]] = {
    # kernel, its body, what is found
    "a maximum from 0": ("max_pool", windows("maximum", "0.0").replace("%w", "%r"), "by stablehlo.maximum from 0 "),
    "a sum from 1": ("sum", reduced("r", "add", "1.0"), "by stablehlo.add from 1 "),
    "a sum that is a mean": ("mean", reduced("r", "add", "0.0"), "a sum divided 0 times"),
    "a mean that is a sum": ("sum", BODIES["mean"][0], "a sum divided 1 times"),
    "a function before a sum": (
        "sum",
        f"%n = stablehlo.abs %a : {T}\n" + reduced("r", "add", "0.0", "%n"),
        "found stablehlo.abs",
    ),
    "another bound": ("relu6", clamped("zero", "one"), "that gives 0 of -1 and 1 of 1, expected relu6"),
    "two moves": (
        "reshape",
        f"%n = stablehlo.reverse %a, dims = [0] : {T}\n%r = stablehlo.reshape %n : ({T}) -> {T}",
        "found stablehlo.reverse",
    ),
    "softmax by another sum": (
        "softmax",
        BODIES["softmax"][0].replace("%x init", "%a init"),
        "expected a sum of stablehlo.exponential",
    ),
    "softmax plus one": (
        "softmax",
        f"{SHIFTED}\n{WHOLE}\n%o = stablehlo.add %b, %one : {T}\n"
        f"%r = stablehlo.divide %x, %o : {T}",
        "found stablehlo.add",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_a_body_that_is_nearly_that_of_its_kernel_is_refused(name: str) -> None:
    kernel, ops, found = OTHERS[name]
    result = ROW if kernel in ("mean", "sum") else T
    program = parse_program(text(kernel, ops, T, result))
    reason = misfit(region(program), program.weights)
    assert found in str(reason)


def test_a_resize_by_other_weights_is_refused() -> None:
    ops, operand, result = BODIES["linear_resize"]
    program = parse_program(text("linear_resize", ops.replace("[[1.0, 1.0]]", "[[1.0, 0.5]]"), operand, result))
    reason = misfit(region(program), program.weights)
    assert reason == "found matrices in the region that are not those of a linear resize"


@pytest.mark.parametrize("element", ["f16", "bf16", "f64"])
@pytest.mark.parametrize("kernel", ["gelu", "hard_swish", "silu", "tanh"])
def test_functions_are_known_in_all_floats(kernel: str, element: str) -> None:
    program = parse_program(text(kernel, *BODIES[kernel]).replace("f32", element))
    assert misfit(region(program), program.weights) is None


Q = "!quant.uniform<i8:f32, 0.05>"
NEGATED = f"""module attributes {{zeropoint.target = "litert"}} {{
func.func @main(%x: {T}) -> {T} {{
%y = quant.region "abs"(%a: {T} = %x as {Q}) -> {T} as {Q} {{
%r = stablehlo.negate %a : {T}
quant.return %r : {T}
}}
return %y : {T}
}}
}}"""
STATED = NEGATED.replace(f" as {Q}", "").replace(
    "%y = quant.region",
    f'%s = "quant.stats"(%x) {{layerStats = dense<[-1.0, 1.0]> : tensor<2xf32>}} : ({T}) -> {T}\n%t = quant.region',
).replace("= %x)", "= %s)").replace(
    "return %y", f'%y = "quant.stats"(%t) {{layerStats = dense<[-1.0, 1.0]> : tensor<2xf32>}} : ({T}) -> {T}\nreturn %y'
)  # fmt: skip
REFUSAL = ": found a function in the region that gives 1 of -1 and -1 of 1, expected abs; name the kernel that"


@pytest.mark.parametrize(("passes", "given"), [("propagate{target=litert}", STATED), ("materialize", NEGATED)])
def test_negate_in_a_region_of_abs_is_refused(tmp_path: Path, passes: str, given: str) -> None:
    file = tmp_path / "m.mlir"
    file.write_text(given)
    ran = CliRunner().invoke(main, ["opt", str(file), "-p", passes])
    assert ran.exit_code == 2
    assert REFUSAL in ran.stderr


def test_no_file_is_written_of_a_region_that_does_not_fit(tmp_path: Path) -> None:
    file = tmp_path / "m.mlir"
    file.write_text(NEGATED)
    ran = CliRunner().invoke(main, ["export", str(file), "-o", str(tmp_path / "m.tflite")])
    assert ran.exit_code == 2
    assert REFUSAL in ran.stderr
    assert not (tmp_path / "m.tflite").exists()
