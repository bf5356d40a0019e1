"""Programs between guard pages, each with its buffers against either. A fault ends the process: for a child to run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from hypothesis import HealthCheck, given, settings

from codegen.classifier import classifier, image
from codegen.contractions import Case as Kernel
from codegen.contractions import batches, convolutions, products
from codegen.guarded_program import GuardedProgram
from codegen.loop_programs import INTEGERS, inputs_for
from networks import quantized
from random_networks import Case, cases
from zeropoint.codegen.graph import Step
from zeropoint.codegen.llvm.isa import INSTRUCTION_SETS, InstructionSet
from zeropoint.codegen.llvm.machine import host
from zeropoint.interp import Interpreter
from zeropoint.ir.program import Program
from zeropoint.ir.tensors import Array
from zeropoint.lower import integer_program


def check(program: Program, samples: Sequence[Mapping[str, Array]], isa: InstructionSet, note: Path) -> None:
    """The same results with buffers against the page before and the one behind, on memory of ones and of zeros."""
    expected = [Interpreter(program)(sample) for sample in samples]
    for high, fill in ((True, 0xFF), (False, 0)):

        def entering(step: Step, high: bool = high) -> None:
            note.write_text(f"{isa.name}, {'end' if high else 'start'} guarded, {step.name}: {step.kernel}")

        guarded = GuardedProgram(program, isa=isa, high=high, fill=fill, entering=entering)
        for sample, wanted in zip(samples, expected, strict=True):
            for name, array in guarded(sample).items():
                np.testing.assert_array_equal(array, wanted[name])


def check_all(note: Path, count: int) -> None:
    """Check fixed programs, and so many random networks. The step that runs is always named in the file `note`."""
    samples = [image(0), image(1, 100.0)]
    for isa in dict.fromkeys([host(), INSTRUCTION_SETS["portable"]]):
        check(classifier(), samples, isa, note)
    integers = [{"x0": np.random.default_rng(n).integers(-128, 128, (1, 3, 13, 11)).astype(np.int8)} for n in range(2)]
    check(classifier(integer_io=True), integers, host(), note)

    some = settings(derandomize=True, deadline=None, database=None, suppress_health_check=[*HealthCheck])
    for program in INTEGERS.values():
        check(program, [inputs_for(program)], host(), note)
    kinds = ("dense", "depthwise", "grouped", "dense transposed", "depthwise transposed")
    for strategy in (products(), batches(), *map(convolutions, kinds)):

        @settings(some, max_examples=max(1, count // 4))
        @given(case=strategy)
        def kernels(case: Kernel) -> None:
            check(case.program, case.samples[:2], host(), note)

        kernels()

    @settings(some, max_examples=count)
    @given(case=cases(5))
    def random_networks(case: Case) -> None:
        check(integer_program(quantized(case.program, case.calibration)), case.samples[:2], host(), note)

    random_networks()
