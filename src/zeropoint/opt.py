"""Passes on program text, as mlir-opt runs them: `zeropoint opt FILE.mlir -p 'simplify,fuse'`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from xdsl.utils.arg_spec import parse_pipeline
from xdsl.utils.exceptions import ArgSpecParseError, ParseError, VerifyException

from zeropoint.calibrate import asks_all, instrument
from zeropoint.diagnostics import Diagnostic, differences, expectations, of_error
from zeropoint.frontend.legalize_chlo import legalize_chlo
from zeropoint.ir.program import Program
from zeropoint.ir.text import parse_program, print_program, split_input
from zeropoint.ir.verification import verify
from zeropoint.ir.weights import Weights
from zeropoint.lower import fold_bounds, integer_io, lower, merge_sums
from zeropoint.lower.quant_ops import (
    canonicalize_quant,
    convert_fake_quant,
    lower_quant_ops,
    normalize_quant_types,
    strip_func_quant_types,
)
from zeropoint.pipeline import litert
from zeropoint.solve.fuse import fuse, unfuse
from zeropoint.solve.materialize import express_accumulators, insert_casts, materialize, transform
from zeropoint.solve.propagate import (
    DEFAULT_RANGES,
    check_fully_quantized,
    check_kernels,
    move_rescales,
    propagate,
    wanted_statistics,
)
from zeropoint.solve.simplify import (
    fold_batch_norm,
    fold_broadcasts,
    fold_constants,
    fold_counts,
    fold_padding,
    inline_calls,
    pin_constants,
    simplify,
)
from zeropoint.targets import target as named_target


class PipelineError(ValueError):
    """A pipeline that names no pass or gives options that a pass does not take, or a program that a pass refuses."""


@dataclass(frozen=True)
class Pass:
    """A stage as `opt` knows it: options by name, with their defaults."""

    run: Callable[..., Program]
    summary: str
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])


def _fuse(program: Program, *, target: str) -> Program:
    return fuse(program, named_target(target))


def _propagate(program: Program, *, target: str, profile: str | None, ranges: str) -> Program:
    return propagate(program, named_target(target), profile, ranges=ranges)


def _instrument(program: Program, *, target: str | None) -> Program:
    return instrument(program, asks=asks_all if target is None else wanted_statistics(named_target(target)))


def _move_rescales(program: Program, *, target: str) -> Program:
    return move_rescales(program, named_target(target))


def _check_kernels(program: Program, *, target: str) -> Program:
    return check_kernels(program, named_target(target))


PROPAGATE = {"target": "cpu", "profile": None, "ranges": DEFAULT_RANGES}

PASSES: Mapping[str, Pass] = {
    "canonicalize-quant": Pass(canonicalize_quant, "fold casts that undo each other", {"fold_fake_quant": False}),
    "check-fully-quantized": Pass(check_fully_quantized, "an error for each port without parameters"),
    "check-kernels": Pass(_check_kernels, "an error for each port that its kernel does not allow", {"target": "cpu"}),
    "convert-fake-quant": Pass(convert_fake_quant, "fake quantization to qcast and dcast", {"compat": False}),
    "express-accumulators": Pass(express_accumulators, "accumulators for the floats that alone read a contraction"),
    "fold-batch-norm": Pass(fold_batch_norm, "fold scales and shifts per channel into contractions"),
    "fold-bounds": Pass(fold_bounds, "fold clamps into requantizations"),
    "fold-broadcasts": Pass(fold_broadcasts, "broadcast constants in one step, from what varies"),
    "fold-counts": Pass(fold_counts, "sums of windows over a repeated number"),
    "fold-constants": Pass(fold_constants, "evaluate ops on constants"),
    "fold-padding": Pass(fold_padding, "fold pads with zeros into convolutions"),
    "fuse": Pass(_fuse, "wrap the float ops that one kernel covers into regions", {"target": "cpu"}),
    "inline-calls": Pass(inline_calls, "the ops of functions in the place of their calls"),
    "insert-casts": Pass(insert_casts, "casts around regions, where their specs say so"),
    "instrument": Pass(_instrument, "ask for statistics where they decide something", {"target": None}),
    "integer-io": Pass(integer_io, "integers instead of floats at inputs and outputs"),
    "legalize-chlo": Pass(legalize_chlo, "chlo ops as the StableHLO ops they stand for"),
    "litert": Pass(litert, "the general algorithm of TFLite, from statistics to quantized ops"),
    "lower": Pass(lower, "the quantized program to integers", {"profile": None}),
    "lower-quant-ops": Pass(lower_quant_ops, "quant casts to arith, math, tensor, linalg, shape", {"profile": None}),
    "materialize": Pass(materialize, "regions to quantized StableHLO"),
    "merge-sums": Pass(merge_sums, "merge zero-point corrections into biases"),
    "move-rescales": Pass(_move_rescales, "cancel, merge and push rescales forward", {"target": "cpu"}),
    "normalize-quant-types": Pass(normalize_quant_types, "sub-channel types as per-layer or per-channel ones"),
    "pin-constants": Pass(pin_constants, "simulated quantization of constants to pinned parameters"),
    "propagate": Pass(_propagate, "decide the parameters of every port", PROPAGATE),
    "simplify": Pass(simplify, "inline-calls, pin-constants and all that starts with fold-, constants first"),
    "transform": Pass(transform, "data movement on storage, casts of the quant dialect at the edges"),
    "unfuse": Pass(unfuse, "regions back to their ops, with casts"),
    "strip-func-quant-types": Pass(strip_func_quant_types, "storage integers in the headers of functions"),
}
"""Every pass by its name on the command line."""


def parse_passes(pipeline: str) -> list[Callable[[Program], Program]]:
    """The functions that a pipeline text names, in order.

    Raises PipelineError, naming the passes or the options there are.
    """
    try:
        specs = list(parse_pipeline(pipeline))
    except ArgSpecParseError as error:
        raise PipelineError(f"found pipeline '{pipeline}', expected 'a,b{{option=value}}'") from error
    return [_bound(spec.name, spec.normalize_parameter_names().parameters) for spec in specs]


def _bound(name: str, given: Mapping[str, tuple[Any, ...]]) -> Callable[[Program], Program]:
    if name not in PASSES:
        raise PipelineError(f"found pass '{name}', expected one of: {', '.join(PASSES)}")
    entry = PASSES[name]
    unknown = set(given) - set(entry.options)
    if unknown:
        has = f"one of: {', '.join(entry.options)}" if entry.options else "none"
        raise PipelineError(f"found option '{min(unknown)}' of pass '{name}', expected {has}")
    options = {**entry.options, **{key: values[0] if values else True for key, values in given.items()}}

    def run(program: Program) -> Program:
        try:
            return entry.run(program, **options)
        except ValueError as error:
            raise PipelineError(f"pass '{name}': {error}") from error

    return run


def run_passes(program: Program, passes: list[Callable[[Program], Program]]) -> Program:
    """Each pass in order, the result verified after each.

    Raises InvalidProgram for a pass that leaves a broken program, and the errors of the passes.
    """
    for step in passes:
        program = step(program)
        verify(program.module)
    return program


def optimize(
    text: str,
    passes: list[Callable[[Program], Program]],
    *,
    name: str = "<stdin>",
    weights: Weights | None = None,
    split: bool = False,
    allow_unregistered: bool = False,
    **printing: bool,
) -> str:
    """The text of every program after the passes.

    Raises PipelineError, and the parser's and verifier's errors.
    """
    printed: list[str] = []
    for part in split_input(text, split):
        try:
            program = parse_program(part, name, weights, allow_unregistered=allow_unregistered)
        except ValueError as error:  # a resource section that does not fit its uses
            raise PipelineError(f"{name}: {error}") from error
        program = run_passes(program, passes)
        try:
            printed.append(print_program(program, **printing))
        except ValueError as error:  # weights that are not there
            raise PipelineError(f"{name}: {error}") from error
    return "\n// -----\n\n".join(printed)


def verify_diagnostics(
    text: str,
    passes: list[Callable[[Program], Program]],
    *,
    name: str,
    split: bool = False,
    allow_unregistered: bool = False,
) -> list[str]:
    """What differs between the errors that `expected-error` comments announce and those that occur, a line each."""
    problems: list[str] = []
    for part in split_input(text, split):
        found: list[Diagnostic] = []
        try:
            run_passes(parse_program(part, name, allow_unregistered=allow_unregistered), passes)
        except (ParseError, VerifyException, ValueError) as error:
            found = of_error(error)
        problems += differences(name, expectations(part), found)
    return problems
