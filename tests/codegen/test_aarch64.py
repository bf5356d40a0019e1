"""Kernels of every kind on AArch64, under qemu: what the interpreter computes, from C, several programs in one."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

from codegen import contractions
from codegen.c_programs import WARNINGS
from codegen.exactness import assert_same_bits
from codegen.loop_programs import INTEGERS, inputs_for, main
from codegen.machines import ARM, CROSS
from codegen.row_programs import layer_norm
from property_cases import some
from zeropoint.codegen.aot.ahead_of_time import library
from zeropoint.codegen.aot.header import Argument, arguments_of
from zeropoint.codegen.kernels.batched import Batched
from zeropoint.codegen.kernels.loops import Nest
from zeropoint.codegen.kernels.rows import Rows
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.lowering import steps_of
from zeropoint.interp import Interpreter
from zeropoint.ir.program import Program
from zeropoint.ir.tensors import Array, element_dtype, element_of, shape_of

MISSING = [tool for tool in ("qemu-aarch64", CROSS) if shutil.which(tool) is None]
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"{' and '.join(MISSING)} not installed")

Sample = Mapping[str, Array]


def _function(name: str, arguments: Sequence[Argument]) -> str:
    """A C function that reads the inputs of a run, runs, and writes its outputs."""
    prefix = name.upper()

    def moved(argument: Argument) -> str:
        how = "fwrite({0}, 1, {1}, stdout)" if argument.output else "fread({0}, 1, {1}, stdin)"
        size = f"{prefix}_{argument.name.upper()}_SIZE"
        return f"    if ({how.format(argument.name, size)} != {size}) return 2;"

    declared = [f"    static {a.type} {a.name}[{prefix}_{a.name.upper()}_ELEMENTS + 1];" for a in arguments]
    names = ", ".join(argument.name for argument in arguments)
    return "\n".join([
        f"static int call_{name}(void) {{",
        f"    static _Alignas({prefix}_ALIGNMENT) unsigned char memory[{prefix}_ARENA_SIZE + 1];",
        *declared,
        *(moved(argument) for argument in arguments if not argument.output),
        f"    if ({name}_run(memory, {names})) return 1;",
        *(moved(argument) for argument in arguments if argument.output),
        "    return 0;\n}\n",
    ])  # fmt: skip


def under_qemu(programs: Sequence[tuple[Program, Sample]], isa: InstructionSet, folder: Path) -> list[dict[str, Array]]:
    """The outputs of every program."""
    includes, functions, calls, objects, given = list[str](), list[str](), list[str](), list[Path](), list[bytes]()
    for number, (program, sample) in enumerate(programs):
        name = f"p{number}"
        made = library(program, name, isa)
        (folder / f"{name}.h").write_text(made.header)
        (folder / f"{name}.o").write_bytes(made.object)
        objects.append(folder / f"{name}.o")
        includes.append(f'#include "{name}.h"\n')
        functions.append(_function(name, arguments_of(program)))
        calls.append(f'    if (call_{name}()) return fprintf(stderr, "{name}"), 1;\n')
        given += [np.ascontiguousarray(sample[port.name]).tobytes() for port in program.inputs]
    text = ["#include <stdio.h>\n", *includes, *functions, "int main(void) {\n", *calls, "    return 0;\n}\n"]
    (folder / "main.c").write_text("".join(text))
    command = [CROSS, *WARNINGS, "-static", f"-I{folder}", folder / "main.c", *objects, "-o", folder / "main"]
    subprocess.run(command, check=True)
    run = ["qemu-aarch64", "-cpu", "max", folder / "main"]
    done = subprocess.run(run, input=b"".join(given), capture_output=True)
    assert done.returncode == 0, done.stderr
    rest = done.stdout
    results: list[dict[str, Array]] = []
    for program, _ in programs:
        found: dict[str, Array] = {}
        for port in program.outputs:
            shape, dtype = shape_of(port.type), element_dtype(element_of(port.type))
            size = int(np.prod(shape)) * dtype.itemsize
            found[port.name] = np.frombuffer(rest[:size], dtype).reshape(shape)
            rest = rest[size:]
        results.append(found)
    assert not rest
    return results


ROWS = pytest.mark.parametrize("name", ["neon-i8mm", "neon-dotprod"])


@ROWS
def test_integers_of_loop_nests_are_the_interpreters(name: str, tmp_path: Path) -> None:
    # Half of them each: instruction sets differ in the sign of activation bytes only.
    chosen = list(INTEGERS.items())[list(ARM).index(name) :: 2]
    programs = [(program, inputs_for(program)) for _, program in chosen]
    kernels = {type(step.kernel) for program, _ in programs for step in steps_of(program, ARM[name]).steps}
    assert Nest in kernels
    found = under_qemu(programs, ARM[name], tmp_path)
    for (title, _), (program, sample), outputs in zip(chosen, programs, found, strict=True):
        for port, expected in Interpreter(program)(sample).items():
            np.testing.assert_array_equal(outputs[port], expected, err_msg=title)


@ROWS
def test_products_of_two_activations_are_the_interpreters(name: str, tmp_path: Path) -> None:
    programs: list[tuple[Program, Sample]] = []

    @some(4)
    @given(case=contractions.batches())
    def collect(case: contractions.Case) -> None:
        programs.append((case.program, case.samples[len(programs) % 4]))

    collect()
    kernels = {type(step.kernel) for program, _ in programs for step in steps_of(program, ARM[name]).steps}
    assert Batched in kernels
    for (program, sample), outputs in zip(programs, under_qemu(programs, ARM[name], tmp_path), strict=True):
        np.testing.assert_array_equal(outputs["y0"], Interpreter(program)(sample)["y0"])


def test_floats_are_the_interpreters(tmp_path: Path) -> None:
    product = main(
        "%a: tensor<2x3x9x17xf32>, %b: tensor<2x3x17x70xf32>", "tensor<2x3x9x70xf32>",
        "%n = stablehlo.negate %a : tensor<2x3x9x17xf32>",
        "%p = stablehlo.dot_general %n, %b, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2]"
        " : (tensor<2x3x9x17xf32>, tensor<2x3x17x70xf32>) -> tensor<2x3x9x70xf32>",
        "%y = stablehlo.negate %p : tensor<2x3x9x70xf32>",
    )  # fmt: skip
    chain = main(
        "%x: tensor<3x37xf32>", "tensor<3x37xf32>",
        "%i = stablehlo.constant dense<0.0> : tensor<f32>",
        "%e = stablehlo.exponential %x : tensor<3x37xf32>",
        "%s = stablehlo.reduce(%e init: %i) applies stablehlo.add across dimensions = [1]"
        " : (tensor<3x37xf32>, tensor<f32>) -> tensor<3xf32>",
        "%t = stablehlo.broadcast_in_dim %s, dims = [0] : (tensor<3xf32>) -> tensor<3x37xf32>",
        "%q = stablehlo.divide %e, %t : tensor<3x37xf32>",
        "%y = stablehlo.tanh %q : tensor<3x37xf32>",
    )  # fmt: skip
    chosen = (product, chain, layer_norm(3, 70))
    assert [type(step.kernel) for step in steps_of(chosen[2], ARM["neon-i8mm"]).steps] == [Rows]
    programs = [(program, inputs_for(program)) for program in chosen]
    for (program, sample), outputs in zip(programs, under_qemu(programs, ARM["neon-i8mm"], tmp_path), strict=True):
        ((port, expected),) = Interpreter(program)(sample).items()
        assert_same_bits(outputs[port], expected)
