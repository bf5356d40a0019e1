"""What the tests of native code share: instruction sets that run here, and comparison with the interpreter."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

import numpy as np

from codegen.test_instruction_sets import runs_here
from zeropoint.codegen.llvm.isa import INSTRUCTION_SETS, InstructionSet
from zeropoint.codegen.native import NativeProgram
from zeropoint.interp import Interpreter
from zeropoint.ir.program import Program
from zeropoint.ir.tensors import Array

HERE = [row for name, row in INSTRUCTION_SETS.items() if not name.startswith("neon") and runs_here(name)]
"""The instruction sets of this processor."""
CASES = int(os.environ.get("ZEROPOINT_FUZZ_CASES", "0"))
"""How many cases the property tests run; 0 is as many as fit a quick test."""


def assert_native_is_exact(
    program: Program,
    samples: Iterable[dict[str, Array]],
    isa: InstructionSet,
    threads: Sequence[int] = (1,),
    *,
    tolerance: float | None = None,
) -> None:
    """Every output of native code equals the interpreter's: every bit, or floats within a relative tolerance."""
    samples = list(samples)
    expected = [Interpreter(program)(sample) for sample in samples]
    for count in threads:
        native = NativeProgram(program, isa=isa, threads=count)
        for sample, outputs in zip(samples, expected, strict=True):
            found = native(sample)
            assert list(found) == list(outputs)
            for name, array in outputs.items():
                assert found[name].dtype == array.dtype
                message = f"{name}, {isa.name}, {count} threads"
                if tolerance is None:
                    np.testing.assert_array_equal(found[name], array, err_msg=message)
                else:
                    size = np.abs(array[np.isfinite(array)]).max(initial=0.0)
                    np.testing.assert_allclose(
                        found[name], array, rtol=tolerance, atol=tolerance * size, err_msg=message
                    )
        native.close()
