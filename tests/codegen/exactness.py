"""What the tests of native code share: instruction sets that run here, and comparison with the interpreter."""

from __future__ import annotations

import contextlib
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from codegen.emulation import EVERYWHERE
from codegen.machines import runs_here
from zeropoint.codegen.llvm.isa import INSTRUCTION_SETS, InstructionSet
from zeropoint.codegen.llvm.machine import host
from zeropoint.codegen.lowering import steps_of
from zeropoint.codegen.modules import ModuleSource
from zeropoint.codegen.objects import objects_of
from zeropoint.codegen.runtime import native
from zeropoint.codegen.runtime.native import NativeProgram
from zeropoint.interp import Interpreter
from zeropoint.ir.program import Program
from zeropoint.ir.tensors import Array
from zeropoint.progress import Progress

HERE = [row for name, row in INSTRUCTION_SETS.items() if not name.startswith("neon") and runs_here(name)]
"""The instruction sets of this processor."""
EVEX = replace(
    INSTRUCTION_SETS["avx-vnni"],
    name="avx-vnni as avx512-vnni encodes it",
    cpu="haswell",
    features="+avx512f,+avx512bw,+avx512vl,+avx512vnni",
)
"""The same LLVM text as AVX-VNNI's, for processors that have its instructions in the other encoding only."""
BOTH_VNNI = [
    *HERE,
    pytest.param(HERE[0].unoptimized, id=f"{HERE[0].name}, brief"),
    pytest.param(HERE[0].unallocated, id=f"{HERE[0].name}, small tiles"),
    pytest.param(
        EVEX, marks=pytest.mark.skipif(not runs_here("avx512-vnni"), reason="this processor has no avx512-vnni")
    ),
]
"""The instruction sets of this processor, the short code of the best one, with large and small tiles, and AVX-VNNI's
kernels in the encoding of AVX-512."""


KERNEL_CASES = int(os.environ.get("ZEROPOINT_KERNEL_CASES", "2"))
"""How many programs of every kind run guarded on every instruction set."""


EVERY = 5
"""One of this many tests has the code of its kernels optimized; all of `test_native_exactness.py`."""


def is_optimized() -> bool:
    """Whether this test has it, by its name: the same tests in every run, some in every file."""
    name = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]  # without the phase
    return "test_native_exactness.py" in name or zlib.crc32(name.encode()) % EVERY == 0


def kernels_of_steps(program: Program, isa: InstructionSet | None = None) -> list[str]:
    """The classes of the kernels of a program's steps, in order; nothing is compiled."""
    return [type(step.kernel).__name__ for step in steps_of(program, host() if isa is None else isa).steps]


def assert_same_bits(found: Array, expected: Array, message: str = "") -> None:
    """Both arrays have the same bits, signs of zeros included, and NaN in the same places."""
    np.testing.assert_array_equal(found, expected, err_msg=message)
    if expected.dtype.kind not in "iub":
        word = np.dtype(f"u{expected.dtype.itemsize}")
        differ = (found.view(word) != expected.view(word)) & (expected == expected)
        assert not differ.any(), f"{message}: found -0 for 0, or 0 for -0, in {np.count_nonzero(differ)} places"


def compiled(program: Program, isa: InstructionSet | None = None) -> NativeProgram:
    """The program as native code, optimized in the tests of `is_optimized`."""
    with contextlib.nullcontext() if is_optimized() else unoptimized():
        return NativeProgram(program, isa=isa)


def assert_native_is_exact(
    program: Program,
    samples: Iterable[dict[str, Array]],
    isa: InstructionSet,
    threads: Sequence[int] = (1,),
    *,
    guarded: bool | None = None,
) -> None:
    """Every output of native code equals the interpreter's, every bit of what is no NaN.

    A NaN's sign and payload are no part of the semantics. `guarded` code checks what it touches. Code for the best
    instruction set of this processor is optimized as users' code is, in the tests of `is_optimized`. Otherwise LLVM's
    optimizer is left out, which takes most of the time: our own part, the text of the kernels, is the same. In the
    portable kernels of other tests, the dot product is a function, because it takes LLVM as long as all the rest.
    """
    optimized = is_optimized()
    row = EVERYWHERE["portable"] if isa.name == "portable" and not optimized else isa
    with contextlib.nullcontext() if isa is HERE[0] and optimized else unoptimized():
        _assert_native_is_exact(program, list(samples), row, threads, guarded)


@contextlib.contextmanager
def unoptimized() -> Iterator[None]:
    """Programs are compiled as the debug build is, without its checks."""

    def without(
        sources: Mapping[str, ModuleSource], isa: InstructionSet, *, cache: Path | None, form: str, progress: Progress
    ) -> dict[str, bytes]:
        del form  # "object", or "debug" already
        return objects_of(sources, isa, cache=cache, form="debug", progress=progress)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "objects_of", without)
        yield


_last: tuple[Program, list[dict[str, Array]], list[dict[str, Array]]] | None = None
"""A program, its inputs and its outputs."""


def _expected(program: Program, samples: list[dict[str, Array]]) -> list[dict[str, Array]]:
    """The interpreter's outputs. Those of the last program are kept for the next instruction set."""
    global _last
    if _last is None or _last[0] is not program or not _are_same(_last[1], samples):
        _last = program, samples, list(Interpreter(program).run_samples(samples))
    return _last[2]


def _are_same(given: list[dict[str, Array]], others: list[dict[str, Array]]) -> bool:
    return len(given) == len(others) and all(
        list(one) == list(other) and all(one[name] is other[name] for name in one)
        for one, other in zip(given, others, strict=True)
    )


def _assert_native_is_exact(
    program: Program, samples: list[dict[str, Array]], isa: InstructionSet, threads: Sequence[int], guarded: bool | None
) -> None:
    expected = _expected(program, samples)
    graph = steps_of(program, isa)
    for count in threads:
        runnable = NativeProgram(program, isa=isa, threads=count, guarded=guarded, graph=graph)
        for sample, outputs in zip(samples, expected, strict=True):
            found = runnable(sample)
            assert list(found) == list(outputs)
            for name, array in outputs.items():
                assert found[name].dtype == array.dtype
                assert_same_bits(found[name], array, f"{name}, {isa.name}, {count} threads")
        runnable.close()
