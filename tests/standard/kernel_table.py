"""One program a kernel, profile and width: do the interpreter, native code, C++ MLIR and IREE agree?

    PYTHONPATH=tests python tests/standard/kernel_table.py [--kernel NAME ...] [--profile NAME ...]

The programs are those that confirm the rows of target cpu (`zeropoint.check_target`), quantized under each profile of
integers. A column has the number of values that differ from the interpreter's, of the integer program; the standard
form is run by the interpreter, too. IREE's column is there where its packages are installed (extra `iree`).
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from oracle import mlir
from zeropoint.check_target.cases import CASES
from zeropoint.check_target.models import built, signatures
from zeropoint.codegen.runtime.native import NativeProgram
from zeropoint.errors import Error
from zeropoint.frontend.onnx import load_onnx_model
from zeropoint.interp import Interpreter
from zeropoint.ir.program import Program
from zeropoint.ir.tensors import Array
from zeropoint.ir.text import print_program
from zeropoint.pipeline import Options, quantize
from zeropoint.standard import lower_to_standard
from zeropoint.targets import target

PROFILES = ("fixed16", "fixed32", "fixed32-double", "tosa-double")


@dataclass(frozen=True)
class Entry:
    """A program of one kernel, and its inputs."""

    kernel: str
    profile: str
    width: int
    program: Program
    inputs: list[Array]

    @property
    def name(self) -> str:
        return f"{self.kernel} {self.profile} i{self.width}"


def entries(profiles: Sequence[str] = PROFILES, kernels: Sequence[str] = ()) -> Iterator[Entry]:
    """A program for each row of target cpu that has one of its own."""
    for profile in profiles:
        # A model cannot pin the 13 bits of rows for recurrences.
        for row in (row for row in target("cpu").rows if not row.recurrent):
            cases = [case for case in CASES.get(row.kernel, ()) if case.loaded]
            if kernels and row.kernel not in kernels:
                continue
            for case in cases[:1]:
                for storages in signatures(row):
                    made = built(row, case, storages, True, 0)
                    network = load_onnx_model(made.proto, {})
                    program = quantize(network, None, Options(target="cpu", profile=profile)).integer
                    arrays = [np.ascontiguousarray(made.inputs[port.name]) for port in program.inputs]
                    yield Entry(row.kernel, profile, storages[-1].type.width, program, arrays)


def run_native(entry: Entry, lowered: Program) -> list[Array]:
    del lowered
    native = NativeProgram(entry.program)
    feed = {port.name: array for port, array in zip(entry.program.inputs, entry.inputs, strict=True)}
    return list(native(feed).values())


def run_standard(entry: Entry, lowered: Program) -> list[Array]:
    return Interpreter(lowered).run_values(entry.inputs)


def run_upstream(entry: Entry, lowered: Program) -> list[Array]:
    return mlir.ORACLE.call(lowered, [entry.inputs])[0]


def run_iree(entry: Entry, lowered: Program) -> list[Array]:
    compiler: Any = importlib.import_module("iree.compiler")
    runtime: Any = importlib.import_module("iree.runtime")
    text = print_program(lowered, inline_weights=True)
    code = compiler.compile_str(text, input_type="none", target_backends=["llvm-cpu"])
    context = runtime.SystemContext(config=runtime.Config("local-sync"))
    context.add_vm_module(runtime.VmModule.copy_buffer(context.instance, code))
    found = context.modules.module["main"](*entry.inputs)
    return [each.to_host() for each in (found if isinstance(found, list | tuple) else [found])]


ENGINES: dict[str, Callable[[Entry, Program], list[Array]]] = {
    "standard": run_standard,
    "native": run_native,
    "C++ MLIR": run_upstream,
    "IREE": run_iree,
}


def compared(entry: Entry, engine: str, lowered: Program) -> str:
    """`0` where every value is the interpreter's, how many are not, or why there are none."""
    expected = Interpreter(entry.program).run_values(entry.inputs)
    try:
        found = ENGINES[engine](entry, lowered)
    except Error as error:
        return f"refused: {str(error).splitlines()[0][:60]}"
    pairs = zip(expected, found, strict=True)
    return str(sum(int((ours != theirs.reshape(ours.shape)).sum()) for ours, theirs in pairs))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernel", nargs="*", default=[])
    parser.add_argument("--profile", nargs="*", default=PROFILES)
    arguments = parser.parse_args()
    engines = [name for name in ENGINES if name != "IREE" or importlib.util.find_spec("iree") is not None]
    print(f"{'kernel':24}{'profile':16}{'width':>6}" + "".join(f"{name:>10}" for name in engines))
    wrong = total = 0
    for entry in entries(arguments.profile, arguments.kernel):
        lowered = lower_to_standard(entry.program)
        found = [compared(entry, engine, lowered) for engine in engines]
        total, wrong = total + 1, wrong + any(each != "0" for each in found)
        print(
            f"{entry.kernel:24}{entry.profile:16}{entry.width:6}" + "".join(f"{each:>10}" for each in found), flush=True
        )
    print(f"{total} programs, {total - wrong} equal in every engine")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
