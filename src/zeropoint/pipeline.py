"""The ordered list of stages, from a float program to an integer one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from zeropoint.calibrate import DEFAULT_OBSERVER, Progress, Report, collect, instrument, observer_factory, state_ranges
from zeropoint.frontend import ModelError
from zeropoint.ir.program import Program
from zeropoint.ir.tensors import Array
from zeropoint.lower import integer_io, integer_program
from zeropoint.numerics.profile import profile as named_profile
from zeropoint.solve.fuse import fuse
from zeropoint.solve.materialize import materialize
from zeropoint.solve.propagate import propagate
from zeropoint.solve.simplify import simplify
from zeropoint.targets import target as named_target

Sample = Mapping[str, Array]


@dataclass(frozen=True)
class Options:
    """What a user decides.

    `profile` None means the target's own. `observer` names how calibration turns values into a range. `integer_io`
    makes inputs and outputs storage integers instead of floats.
    """

    target: str = "cpu"
    profile: str | None = None
    observer: str = DEFAULT_OBSERVER
    integer_io: bool = False


@dataclass(frozen=True)
class Quantization:
    """A program after each stage that a user may want to see."""

    fused: Program
    calibrated: Program
    propagated: Program
    quantized: Program
    integer: Program
    calibration: Report


def check_options(options: Options) -> None:
    """Raise ValueError for a target, an observer or a profile that does not exist."""
    named_target(options.target)
    observer_factory(options.observer)
    if options.profile is not None:
        named_profile(options.profile)


def quantize(
    program: Program, samples: Iterable[Sample], options: Options | None = None, *, progress: Progress | None = None
) -> Quantization:
    """Every stage in order.

    `samples` is consumed once, as a stream; each is a dict of input names to arrays of the inputs' shapes. Raises the
    errors of the stages: ModelError for a program that is quantized already, DataError and CalibrationError,
    PropagationError, LoweringError; ValueError for options that do not exist.
    """
    options = options or Options()
    check_options(options)
    if program.profile is not None:
        raise ModelError(
            f"found a program that is quantized already, with profile '{program.profile}', expected a float model"
        )
    fused = fuse(simplify(program))
    asked = instrument(fused)
    report = collect(asked, samples, observer=options.observer, progress=progress)
    calibrated = state_ranges(asked, report)
    propagated = propagate(calibrated, named_target(options.target), options.profile)
    quantized = materialize(propagated)
    integer = integer_program(quantized)
    if options.integer_io:
        integer = integer_io(integer)
    return Quantization(fused, calibrated, propagated, quantized, integer, report)
