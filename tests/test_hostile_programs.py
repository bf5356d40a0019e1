"""Program texts that trip what comes behind the parser: every command refuses them in a line, or takes them."""

from __future__ import annotations

import contextlib
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from zeropoint.cli import main

PORT = 'tensor<4xf32> {zeropoint.name = "x"}'
NESTED = 200
PROGRAMS = {
    "calls itself": f"""func.func @main(%x: {PORT}) -> tensor<4xf32> {{
      %0 = func.call @main(%x) : (tensor<4xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32>
    }}""",
    "call in a circle": f"""func.func @main(%x: {PORT}) -> tensor<4xf32> {{
      %0 = func.call @a(%x) : (tensor<4xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32>
    }}
    func.func private @a(%x: tensor<4xf32>) -> tensor<4xf32> {{
      %0 = func.call @b(%x) : (tensor<4xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32>
    }}
    func.func private @b(%x: tensor<4xf32>) -> tensor<4xf32> {{
      %0 = func.call @a(%x) : (tensor<4xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32>
    }}""",
    "composite of itself": f"""func.func @main(%x: {PORT}) -> tensor<4xf32> {{
      %0 = stablehlo.composite "a.b" %x {{decomposition = @main}} : (tensor<4xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32>
    }}""",
    "calls that double": "".join(
        f"""func.func {"private " * (n > 0)}@{"f" * n or "main"}(%x: tensor<4xf32>) -> tensor<4xf32> {{
          %0 = func.call @{"f" * (n + 1)}(%x) : (tensor<4xf32>) -> tensor<4xf32>
          %1 = func.call @{"f" * (n + 1)}(%0) : (tensor<4xf32>) -> tensor<4xf32>
          return %1 : tensor<4xf32>
        }}
        """
        for n in range(40)
    )
    + f"func.func private @{'f' * 40}(%x: tensor<4xf32>) -> tensor<4xf32> {{ return %x : tensor<4xf32> }}",
    "several blocks": f"""func.func @main(%x: {PORT}) -> tensor<4xf32> {{
      "cf.br"()[^bb1] : () -> ()
    ^bb1:
      return %x : tensor<4xf32>
    }}""",
    "several blocks in a region": f"""func.func @main(%x: {PORT}) -> tensor<4xf32> {{
      %0 = "quant.region"(%x) ({{
      ^bb0(%a: tensor<4xf32>):
        "quant.return"(%a) : (tensor<4xf32>) -> ()
      ^bb1(%b: tensor<4xf32>):
        "quant.return"(%b) : (tensor<4xf32>) -> ()
      }}) {{logical_kernel = "tanh", input_specs = [f32], output_specs = [f32]}} : (tensor<4xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32>
    }}""",
    "no block": "func.func private @main(tensor<4xf32>) -> tensor<4xf32>",
    "no terminator": f"func.func @main(%x: {PORT}) {{ }}",
    "unranked": """func.func @main(%x: tensor<*xf32> {zeropoint.name = "x"}) -> tensor<*xf32> {
      %0 = stablehlo.tanh %x : tensor<*xf32>
      return %0 : tensor<*xf32>
    }""",
    "no tensor": """func.func @main(%x: f32 {zeropoint.name = "x"}) -> f32 {
      return %x : f32
    }""",
    "dynamic": """func.func @main(%x: tensor<?xf32> {zeropoint.name = "x"}) -> tensor<?xf32> {
      %0 = stablehlo.tanh %x : tensor<?xf32>
      return %0 : tensor<?xf32>
    }""",
    "a resource without data": f"""func.func @main(%x: {PORT}) -> tensor<4xf32> {{
      %0 = stablehlo.constant dense_resource<nothing> : tensor<4xf32>
      %1 = stablehlo.add %x, %0 : tensor<4xf32>
      return %1 : tensor<4xf32>
    }}""",
    "an integer too large": f"""func.func @main(%x: {PORT}) -> tensor<4xf32> {{
      %0 = stablehlo.constant dense<300> : tensor<4xi8>
      return %x : tensor<4xf32>
    }}""",
    "an attribute too large": f"""func.func @main(%x: {PORT}) -> tensor<4xf32> {{
      %0 = stablehlo.slice %x [0:99999999999999999999:1] : (tensor<4xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32>
    }}""",
    "statistics of integers": f"""func.func @main(%x: {PORT}) -> tensor<4xf32> {{
      %0 = "quant.stats"(%x) {{layerStats = dense<[-1, 1]> : tensor<2xi32>}} : (tensor<4xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32>
    }}""",
    "statistics of an integer tensor": """func.func @main(%x: tensor<4xi32> {zeropoint.name = "x"}) -> tensor<4xi32> {
      %0 = "quant.stats"(%x) {layerStats = dense<[-1.0, 1.0]> : tensor<2xf32>} : (tensor<4xi32>) -> tensor<4xi32>
      return %0 : tensor<4xi32>
    }""",
    "statistics of NaN": f"""func.func @main(%x: {PORT}) -> tensor<4xf32> {{
      %0 = "quant.stats"(%x) {{layerStats = dense<[0x7FC00000, 1.0]> : tensor<2xf32>}}
        : (tensor<4xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32>
    }}""",
    "a region of nothing": f"""func.func @main(%x: {PORT}) -> tensor<4xf32> {{
      %0 = "quant.region"(%x) ({{
      ^bb0(%a: tensor<4xf32>):
        "quant.return"(%a) : (tensor<4xf32>) -> ()
      }}) {{logical_kernel = "conv2d"}} : (tensor<4xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32>
    }}""",
    "a region of an unknown kernel": f"""func.func @main(%x: {PORT}) -> tensor<4xf32> {{
      %0 = "quant.region"(%x) ({{
      ^bb0(%a: tensor<4xf32>):
        "quant.return"(%a) : (tensor<4xf32>) -> ()
      }}) {{logical_kernel = "nothing", input_specs = [f32], output_specs = [f32]}} : (tensor<4xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32>
    }}""",
    "an op that reads its own result": f"""func.func @main(%x: {PORT}) -> tensor<4xf32> {{
      %0 = stablehlo.add %0, %x : tensor<4xf32>
      return %x : tensor<4xf32>
    }}""",
    "a circle of ops": f"""func.func @main(%x: {PORT}) -> tensor<4xf32> {{
      %0 = stablehlo.add %1, %x : tensor<4xf32>
      %1 = stablehlo.add %0, %x : tensor<4xf32>
      return %1 : tensor<4xf32>
    }}""",
    "no elements": """func.func @main(%x: tensor<0x4xf32> {zeropoint.name = "x"}) -> tensor<0x4xf32> {
      %0 = stablehlo.tanh %x : tensor<0x4xf32>
      return %0 : tensor<0x4xf32>
    }""",
    "deep types": f"func.func @main(%x: {'tuple<' * 5000}f32{'>' * 5000}) {{ return }}",
    "deep regions": "func.func @main() {" + 'scf.if "x" {' * 3000 + "}" * 3000 + "return }",
    "deep attributes": f"module attributes {{a = {'[' * 5000}{']' * 5000}}} {{}}",
    "deep ifs": f"""func.func @main(%x: {PORT}) -> tensor<4xf32> {{
      %p = stablehlo.constant dense<true> : tensor<i1>
      {'''%r = "stablehlo.if"(%p) ({''' * NESTED}
        "stablehlo.return"(%x) : (tensor<4xf32>) -> ()
      {
        '''}, { "stablehlo.return"(%x) : (tensor<4xf32>) -> () }) : (tensor<i1>) -> tensor<4xf32>
           "stablehlo.return"(%r) : (tensor<4xf32>) -> ()'''
        * (NESTED - 1)
    }
      }}, {{ "stablehlo.return"(%x) : (tensor<4xf32>) -> () }}) : (tensor<i1>) -> tensor<4xf32>
      return %r : tensor<4xf32>
    }}""",
    "too many dimensions": f"""func.func @main(%x: {PORT}) -> tensor<4xf32> {{
      %0 = stablehlo.constant dense<1.0> : tensor<{"1x" * 65}f32>
      %1 = stablehlo.reshape %0 : (tensor<{"1x" * 65}f32>) -> tensor<f32>
      %2 = stablehlo.broadcast_in_dim %1, dims = [] : (tensor<f32>) -> tensor<4xf32>
      %3 = stablehlo.add %x, %2 : tensor<4xf32>
      return %3 : tensor<4xf32>
    }}""",
    "processes that start themselves": f"""func.func @main(%x: {PORT}) -> tensor<4xf32> {{
      %0 = "interpreter.run_parallel"(%x) <{{programs = [[@main]]}}> : (tensor<4xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32>
    }}""",
    "no main": "func.func @a() { return }\nfunc.func @b() { return }",
    "call of no body": f"""func.func @main(%x: {PORT}) -> tensor<4xf32> {{
      %0 = func.call @a(%x) : (tensor<4xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32>
    }}
    func.func private @a(tensor<4xf32>) -> tensor<4xf32>""",
    "giant iota": """func.func @main() -> tensor<1000000x1000000xi32> {
      %0 = stablehlo.iota dim = 0 : tensor<1000000x1000000xi32>
      return %0 : tensor<1000000x1000000xi32>
    }""",
    "two of one name": "func.func @main() { return }\nfunc.func @main() { return }",
    "empty": "",
    "a string in it": f'func.func @main(%x: {PORT}) -> tensor<4xf32> {{ %0 = "no.op"(%x) : (tensor<4xf32>) -> ()',
    "no text": "\0\x01\x02",
}
COMMANDS = {
    "opt": ["opt", "m.mlir", "-p", "simplify,fuse,instrument"],
    "propagate": ["opt", "m.mlir", "-p", "inline-calls,propagate{target=cpu},materialize,lower"],
    "explain": ["explain", "m.mlir"],
    "native": ["explain", "m.mlir", "--native"],
    "ranges": ["explain", "m.mlir", "--ranges"],
    "run": ["run", "m.mlir", "--input", "d.npz", "-o", "o.npz"],
    "machine code": ["run", "m.mlir", "--input", "d.npz", "-o", "o.npz", "--engine", "native"],
    "text": ["run", "m.mlir", "--args", "[dense<1.0> : tensor<4xf32>]"],
    "compile": ["compile", "m.mlir", "-o", "m.o"],
    "quantize": ["quantize", "m.mlir", "--data", "d.npz", "-o", "q.mlir"],
    "export": ["export", "m.mlir", "-o", "m.tflite"],
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_command_takes_the_program_or_refuses_it_in_a_line(
    program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("m.mlir").write_text(PROGRAMS[program])
    np.savez("d.npz", x=np.ones((2, 4), np.float32))
    for name, arguments in COMMANDS.items():
        result = CliRunner().invoke(main, [*arguments, "--max-trips", "1000"])
        said = [line for line in result.stderr.splitlines() if line]
        assert result.exit_code in (0, 1, 2), (name, result.stderr, result.exception)
        assert result.exception is None or isinstance(result.exception, SystemExit), name
        if result.exit_code == 2:
            assert len(said) == 1, (name, result.stderr)
            assert len(said[0]) < 2000, name


def test_a_giant_iota_is_refused_by_size_before_it_is_made(tmp_path: Path) -> None:
    (tmp_path / "m.mlir").write_text(PROGRAMS["giant iota"])
    said = CliRunner().invoke(main, ["compile", str(tmp_path / "m.mlir"), "-o", str(tmp_path / "m.o")]).stderr
    assert "3.638 TiB, expected up to" in said


FRAMES = 500
"""Calls inside of each other that a test of long chains allows. Python allows 1,000, but such chains take seconds."""


@contextlib.contextmanager
def few_frames() -> Iterator[None]:
    """A context in which a function that calls itself for each op of a chain fails."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + FRAMES)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def test_a_chain_of_sums_of_inputs_is_as_long_as_it_likes(tmp_path: Path) -> None:
    count = FRAMES + 100
    inputs = ", ".join(f'%x{n}: tensor<1xf32> {{zeropoint.name = "x{n}"}}' for n in range(count))
    sums = [f"%s{n} = stablehlo.add %{f's{n - 1}' if n > 1 else 'x0'}, %x{n} : tensor<1xf32>" for n in range(1, count)]
    body = "\n".join([*sums, f"return %s{count - 1} : tensor<1xf32>"])
    (tmp_path / "m.mlir").write_text(f"func.func @main({inputs}) -> tensor<1xf32> {{\n{body}\n}}")
    with few_frames():
        result = CliRunner().invoke(main, ["explain", str(tmp_path / "m.mlir")])
    assert (result.exit_code, result.stderr) == (0, "")


def assert_quantized(text: str, shape: tuple[int, ...], folder: Path) -> None:
    """Without an error, on one sample of this shape."""
    model, data = folder / "m.mlir", folder / "d.npz"
    model.write_text(text)
    np.savez(data, x=np.ones(shape, np.float32))
    arguments = ["quantize", str(model), "--data", str(data), "--effort", "none", "-o", str(folder / "q.mlir")]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.stderr


def test_values_that_branch_and_join_again_many_times_are_quantized_in_linear_time(tmp_path: Path) -> None:
    square, joined, value = "tensor<4x4xf32>", "tensor<4x8xf32>", "%x"
    body: list[str] = []
    for n in range(40):
        body += [
            f"%a{n} = stablehlo.transpose {value}, dims = [1, 0] : ({square}) -> {square}",
            f"%b{n} = stablehlo.concatenate %a{n}, {value}, dim = 1 : ({square}, {square}) -> {joined}",
            f"%c{n} = stablehlo.slice %b{n} [0:4, 2:6] : ({joined}) -> {square}",
        ]
        value = f"%c{n}"
    text = "\n".join([*body, f"%e = stablehlo.exponential {value} : {square}", f"return %e : {square}"])
    text = f'func.func @main(%x: {square} {{zeropoint.name = "x"}}) -> {square} {{\n{text}\n}}'
    assert_quantized(text, (1, 4, 4), tmp_path)


def test_a_chain_of_reshapes_is_quantized_however_long_it_is(tmp_path: Path) -> None:
    shapes = ["tensor<8x1xf32>", "tensor<2x4xf32>"]
    body = [
        f"%r{n + 1} = stablehlo.reshape %r{n} : ({shapes[n % 2]}) -> {shapes[(n + 1) % 2]}"
        if n % 3
        else f"%r{n + 1}a = stablehlo.reshape %r{n} : ({shapes[n % 2]}) -> {shapes[(n + 1) % 2]}\n"
        f'%r{n + 1} = "quant.stats"(%r{n + 1}a) {{layerStats = dense<[-1.0, 1.0]> : tensor<2xf32>}} : '
        f"({shapes[(n + 1) % 2]}) -> {shapes[(n + 1) % 2]}"
        for n in range(FRAMES + 100)
    ]
    text = "\n".join([*body, f"%e = stablehlo.tanh %r{FRAMES + 100} : {shapes[0]}", f"return %e : {shapes[0]}"])
    text = f'func.func @main(%r0: {shapes[0]} {{zeropoint.name = "x"}}) -> {shapes[0]} {{\n{text}\n}}'
    with few_frames():
        assert_quantized(text, (1, 8, 1), tmp_path)


def test_a_chain_of_functions_that_call_the_next_is_refused_before_it_is_followed(tmp_path: Path) -> None:
    one = "tensor<4xf32>"
    text = "".join(
        f"func.func private @f{n}(%x: {one}) -> {one} {{\n"
        f"%0 = func.call @f{n + 1}(%x) : ({one}) -> {one}\nreturn %0 : {one}\n}}\n"
        for n in range(600)
    )
    text += f"func.func private @f600(%x: {one}) -> {one} {{\nreturn %x : {one}\n}}\n"
    text += f'func.func @main(%x: {one} {{zeropoint.name = "x"}}) -> {one} {{\n'
    text += f"%0 = func.call @f0(%x) : ({one}) -> {one}\nreturn %0 : {one}\n}}\n"
    (tmp_path / "m.mlir").write_text(text)
    np.savez(tmp_path / "d.npz", x=np.ones((1, 4), np.float32))
    model, data, written = (str(tmp_path / name) for name in ("m.mlir", "d.npz", "q.mlir"))
    for arguments in (
        ["run", model, "--input", data, "--output", data + ".npz"],
        ["quantize", model, "--data", data, "-o", written],
    ):
        result = CliRunner().invoke(main, arguments)
        assert result.exit_code == 2, result.stderr
        assert "with calls that are nested 602 deep, expected up to 200" in result.stderr


def test_memory_of_native_code_past_the_limit_is_refused_with_the_op(tmp_path: Path) -> None:
    text = """func.func @main(%x: tensor<4xf32> {zeropoint.name = "x"}) -> tensor<1xf32> {
      %z = stablehlo.constant dense<0.0> : tensor<f32>
      %p = stablehlo.pad %x, %z, low = [0], high = [1099511627776], interior = [0]
        : (tensor<4xf32>, tensor<f32>) -> tensor<1099511627780xf32> loc("wide")
      %s = stablehlo.slice %p [1:2] : (tensor<1099511627780xf32>) -> tensor<1xf32>
      return %s : tensor<1xf32>
    }"""
    (tmp_path / "m.mlir").write_text(text)
    result = CliRunner().invoke(main, ["compile", str(tmp_path / "m.mlir"), "-o", str(tmp_path / "m.o")])
    assert (result.exit_code, (tmp_path / "m.o").exists()) == (2, False)
    assert "stablehlo.pad 'wide': found memory of shape [1099511627780] and 4 TiB, expected up to" in result.stderr
