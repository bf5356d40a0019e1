"""The ordered table of all passes, by name, for `quantize`, `opt`, `--help` and docs/passes.md.

The options of a pass are the parameters of its function: `propagate{target=cpu,ranges=minmax-nudged}`.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from time import perf_counter
from typing import Any, get_args, get_type_hints

from zeropoint import calibrate
from zeropoint.correct.equalize import equalize
from zeropoint.errors import Error
from zeropoint.exact_sums import exact_sums
from zeropoint.export.channels_last import channels_last
from zeropoint.fuse import fuse, unfuse
from zeropoint.ir.program import Program
from zeropoint.ir.sequence import in_sequence
from zeropoint.lower import expand_block_scales, fold_bounds, integer_io, integer_program, lower, merge_sums
from zeropoint.materialize import express_accumulators, insert_casts, materialize, take_types, transform
from zeropoint.progress import Progress, silent
from zeropoint.quant_passes import (
    canonicalize_quant,
    convert_fake_quant,
    legalize_chlo,
    legalize_real_math,
    normalize_quant_types,
    strip_func_quant_types,
)
from zeropoint.simplify import PASSES as SIMPLIFICATIONS
from zeropoint.simplify import (
    add_masks,
    bound_infinite_masks,
    cast_ports,
    decompose_batch_norm,
    drop_repeated_shifts,
    drop_zero_terms,
    fold_batch_norm,
    fold_broadcasts,
    fold_constants,
    fold_counts,
    fold_decided,
    fold_empty,
    fold_padding,
    fold_positions,
    fold_slices,
    fold_updates,
    inline_calls,
    join_pads,
    pin_constants,
    restore_limits,
    simplify,
    single_positions,
    unroll_loops,
)
from zeropoint.solve import (
    DEFAULT_RANGES,
    check_bodies,
    check_fully_quantized,
    check_kernels,
    move_rescales,
    propagate,
    wanted_statistics,
)
from zeropoint.solve.drop_inner_statistics import drop_inner_statistics
from zeropoint.solve.masks.bound_masks import bound_masks
from zeropoint.solve.masks.bound_terms import bound_terms
from zeropoint.solve.name_kernels import name_kernels
from zeropoint.solve.parts.scale_parts import scale_parts
from zeropoint.solve.parts.split_channels import split_channels
from zeropoint.solve.parts.split_contractions import split_contractions
from zeropoint.solve.parts.split_joins import split_joins
from zeropoint.solve.quantized_files.keep_unquantized import keep_unquantized
from zeropoint.solve.quantized_files.round_constants import round_constants
from zeropoint.solve.value_ranges.derive_ranges import derive_ranges
from zeropoint.solve.widths.keep_compared import keep_compared
from zeropoint.solve.widths.keep_tested import keep_tested
from zeropoint.solve.widths.unrounded import PRODUCTS
from zeropoint.split_composites import split_composites
from zeropoint.targets import Target
from zeropoint.targets import target as named_target

DEFAULT_TARGET = "cpu"
EDGES = ("float", "integer")
"""The forms of a program's inputs and outputs: the values of `--io`."""

_LOG = logging.getLogger(__name__)


class PassError(Error, ValueError):
    """A pass option is unknown or has a value of the wrong type."""


@dataclass(frozen=True)
class Option:
    """A parameter of a pass: the type that its function expects, and the default in the form that a user would
    write."""

    name: str
    type: Any
    default: str | bool | None

    def __str__(self) -> str:
        return f"{self.name}={self.default}"

    def value(self, given: object) -> Any:
        """The function's argument for a value given by the user.

        Raises PassError for a value of another type, and ValueError for an unknown target.
        """
        if given is None and type(None) in (self.type, *get_args(self.type)):
            return None
        if self.type is bool:
            if not isinstance(given, bool):
                raise PassError(f"found {self.name} = {given}, expected true or false")
            return given
        if not isinstance(given, str):
            raise PassError(f"found {self.name} = {given}, expected a name")
        return named_target(given) if Target in (self.type, *get_args(self.type)) else given


@dataclass(frozen=True)
class Pass:
    """A function `Program -> Program` with its name for users and a one-line description."""

    run: Callable[..., Program]
    summary: str

    @property
    def name(self) -> str:
        """The name of the pass for users: `fold-bounds` for `fold_bounds`."""
        return self.run.__name__.strip("_").replace("_", "-")

    @cached_property
    def options(self) -> Mapping[str, Option]:
        """The options by name, which are the function's parameters after the program."""
        types = get_type_hints(self.run)
        _, *parameters = inspect.signature(self.run).parameters.values()
        return {
            found.name: Option(
                found.name, types[found.name], DEFAULT_TARGET if found.default is found.empty else found.default
            )
            for found in parameters
        }

    def __call__(self, program: Program, settings: Mapping[str, object]) -> Program:
        """Run the pass on a program with those settings that are options of the pass.

        Raises PassError for a setting of another type, and the errors of the pass.
        """
        given = {name: settings.get(name, option.default) for name, option in self.options.items()}
        return self.run(program, **{name: self.options[name].value(value) for name, value in given.items()})


def run_all(
    passes: Sequence[Pass], program: Program, settings: Mapping[str, object], progress: Progress = silent
) -> Program:
    """Run the passes in order, each with the settings that are its options. Logs their times."""

    def timed(entry: Pass) -> Callable[[Program], Program]:
        def run(program: Program) -> Program:
            start = perf_counter()
            made = entry(program, settings)
            _LOG.info("%s: %.2f s", entry.name, perf_counter() - start)
            return made

        return run

    return in_sequence(map(timed, progress(passes, "passes")), program)


def _fuse(program: Program, target: Target) -> Program:
    return fuse(program, target)


def _propagate(
    program: Program,
    target: Target,
    profile: str | None = None,
    ranges: str = DEFAULT_RANGES,
    integer_io: bool = False,
    products: str = PRODUCTS[0],
) -> Program:
    """`propagate` with its options. Checks bodies first, because a text may have regions that do not compute their
    kernel."""
    program = propagate(program, target, profile, ranges=ranges, integer_io=integer_io, products=products)
    check_bodies(program)
    return program


def _instrument(program: Program, target: Target | None = None) -> Program:
    return calibrate.instrument(program, asks=calibrate.asks_all if target is None else wanted_statistics(target))


def _state_statistics(program: Program, file: str = "") -> Program:
    from zeropoint.calibrate.statistics import read_statistics

    if not file:
        raise PassError("found no file, expected one of `zeropoint calibrate`: state-statistics{file=stats.json}")
    return calibrate.state_ranges(program, read_statistics(file))


def _known(isa: str) -> str:
    """The name of an instruction set. Raises ValueError for an unknown one."""
    from zeropoint.codegen.llvm.isa import INSTRUCTION_SETS

    if isa not in INSTRUCTION_SETS:
        raise ValueError(f"found instruction set '{isa}', expected one of: {', '.join(INSTRUCTION_SETS)}")
    return isa


def _group(program: Program, isa: str = "avx2") -> Program:
    from zeropoint.codegen.group import group  # loading LLVM's library is slow

    return group(program, isa=_known(isa))


def _expand_fxpmath(program: Program) -> Program:
    from zeropoint.standard import expand_fxpmath  # importing dialects that `quantize` does not use takes time

    return expand_fxpmath(program)


def _lower_quant_ops(program: Program, profile: str | None = None) -> Program:
    from zeropoint.quant_passes.lower_quant_ops import lower_quant_ops

    return lower_quant_ops(program, profile)


def _lower_to_loops(program: Program) -> Program:
    from zeropoint.standard import lower_to_loops

    return lower_to_loops(program)


def _lower_to_standard(program: Program) -> Program:
    from zeropoint.standard import lower_to_standard

    return lower_to_standard(program)


def _choose_dot_forms(program: Program, isa: str = "avx2") -> Program:
    from zeropoint.codegen.dot_forms import choose_dot_forms

    return choose_dot_forms(program, _known(isa))


def _layout(program: Program) -> Program:
    from zeropoint.codegen.layout import layout

    return layout(program)


def _integer_program(program: Program, profile: str | None = None, zero_points: str | None = None) -> Program:
    return integer_program(program, profile, zero_points)


def _integer_io(program: Program, io: str = "integer") -> Program:
    if io not in EDGES:
        raise ValueError(f"found io = {io}, expected one of: {', '.join(EDGES)}")
    return integer_io(program) if io == "integer" else program


SIMULATED = Pass(convert_fake_quant, "convert fake quantization to qcast and dcast")
SIMPLIFY = Pass(simplify, ", ".join(run.__name__.replace("_", "-") for run in SIMPLIFICATIONS))
FUSE = Pass(_fuse, "wrap the float ops that one kernel computes in a region")
PROPAGATE = Pass(_propagate, "decide the parameters of every port")
MOVE_RESCALES = Pass(move_rescales, "cancel, merge and push rescales forward")
MATERIALIZE = Pass(materialize, "lower regions to quantized StableHLO")
INSERT_CASTS = Pass(insert_casts, "insert the casts that the specs of regions require")

KEEP_UNQUANTIZED = Pass(keep_unquantized, "keep float what a quantized model computes in floats, without data")
DERIVE_RANGES = Pass(derive_ranges, "derive ranges from those of the operands, without data")

SIMPLIFY_PASSES = (
    SIMULATED,
    Pass(round_constants, "round constants to the integers that the runtime of a quantized file has"),
    SIMPLIFY,
)
"""The passes before fusion."""
FLOAT_PASSES = (*SIMPLIFY_PASSES, FUSE)
"""The passes from the float model to regions. A recipe applies to their result."""
ASKING_PASSES = (
    Pass(keep_tested, "keep values in float that the model tests for NaN or infinities"),
    Pass(keep_compared, "keep values in float that the model compares for equality"),
    Pass(_instrument, "insert requests for statistics where ranges are needed"),
)
"""The passes that request statistics, before calibration."""
CALIBRATED_PASSES = (
    Pass(drop_inner_statistics, "remove statistics inside kernels, which have no effect"),
    Pass(bound_masks, "replace -inf in masks of a softmax by a finite number that still hides every score"),
    Pass(bound_terms, "raise very negative constants before a relu to values that it still clamps"),
    Pass(split_channels, "move channels that need a much finer scale to separate kernels"),
    Pass(split_joins, "move kernels before a concatenation whose scale is too coarse for them"),
    Pass(scale_parts, "scale operands of a concatenation to similar ranges, compensated in its contractions"),
    Pass(split_contractions, "split a contraction of a concatenation whose parts have different ranges"),
    Pass(name_kernels, "give unique names to the kernels of one op"),
)
"""The passes that use the statistics of calibration."""
DECIDING_PASSES = (
    PROPAGATE,
    MOVE_RESCALES,
    Pass(split_composites, "split a user's composites of contractions, quotients and reductions into kernels"),
    Pass(
        express_accumulators,
        "keep the accumulators of contractions that only float ops read, if the target can",
    ),
    Pass(take_types, "give float kernels the types around them, if the runtime computes them of integers"),
    Pass(exact_sums, "compute sums of dequantized values of integers, for runtimes with float ops"),
)
"""The passes that decide all quantization parameters."""
QUANTIZING_PASSES = (MATERIALIZE,)
INTEGER_PASSES = (Pass(_integer_program, "lower, merge-sums, fold-bounds, expand-block-scales"),)
EDGE_PASSES = (Pass(_integer_io, "replace floats by integers at inputs and outputs, with --io integer"),)
"""The passes that decide the types of the integer program's inputs and outputs."""
QUANTIZE_PASSES = (
    *FLOAT_PASSES,
    *ASKING_PASSES,
    *CALIBRATED_PASSES,
    *DECIDING_PASSES,
    *QUANTIZING_PASSES,
    *INTEGER_PASSES,
    *EDGE_PASSES,
)
"""All passes of `quantize` in order. A recipe is applied before the asking passes, and calibration runs after them."""
LITERT_PASSES = (SIMULATED, SIMPLIFY, FUSE, PROPAGATE, MOVE_RESCALES, INSERT_CASTS, MATERIALIZE)


def litert(program: Program) -> Program:
    """The general algorithm of TFLite's native quantization, on a float program with statistics or fake quantization.

    The numbers are the steps of "MLIR Quantization", section "TFLite Native Quantization". (1) Ranges are in the
    program. (2, 5) Fake quantization becomes pairs of casts, and pinned parameters on constants. (4) Constants are
    folded. (3) Parameters are propagated by LiteRT's kernel table. Then casts are inserted around every kernel, and (6)
    dequantize -> op -> quantize becomes the quantized op, and constant -> quantize the quantized constant. Raises the
    errors of the stages.
    """
    return run_all(LITERT_PASSES, program, {"target": "litert"})


NATIVE_PASSES = (
    Pass(_group, "expand rare ops, group ops into native.kernel ops, choose-dot-forms"),
    Pass(_layout, "assign memory (memrefs) to their operands and results"),
)
"""The passes of native code generation before kernels are compiled: `codegen.lowering.PASSES`."""
OTHER_PASSES = (
    Pass(canonicalize_quant, "fold casts that undo each other"),
    Pass(equalize, "balance channels between contractions, from statistics per channel"),
    Pass(channels_last, "move channels to the last dimension, for exporters"),
    Pass(_choose_dot_forms, "choose how 8-bit products are added"),
    Pass(check_fully_quantized, "report ports without parameters as errors"),
    Pass(check_kernels, "report ports that their kernel does not allow as errors"),
    KEEP_UNQUANTIZED,
    DERIVE_RANGES,
    Pass(decompose_batch_norm, "rewrite batch norms by constants as a product and a sum"),
    Pass(expand_block_scales, "replace scales of blocks in types of constants by tensors"),
    Pass(_expand_fxpmath, "lower fixed-point ops to integer StableHLO"),
    Pass(fold_bounds, "fold clamps into requantizations"),
    Pass(fold_batch_norm, "fold scales and shifts per channel into contractions"),
    Pass(fold_broadcasts, "fold chains of broadcasts of constants"),
    Pass(fold_constants, "evaluate ops on constants"),
    Pass(add_masks, "add masks that are subtracted, with the opposite sign"),
    Pass(bound_infinite_masks, "make infinite masks finite"),
    Pass(cast_ports, "turn arithmetic that quantizes integer inputs and outputs into casts"),
    Pass(fold_positions, "evaluate what is computed from positions and constants alone"),
    Pass(single_positions, "spell argmax of values and positions as ops of the kernel arg_max"),
    Pass(drop_repeated_shifts, "drop the maximum of a softmax whose operand has a maximum of 0"),
    Pass(drop_zero_terms, "drop sums with a constant of zeros, and replace products with one by zeros"),
    Pass(fold_counts, "fold window sums over a constant"),
    Pass(fold_decided, "replace questions about a choice of two numbers by the truth value that chose"),
    Pass(fold_empty, "replace values without elements by constants"),
    Pass(fold_padding, "fold pads with zeros into convolutions"),
    Pass(fold_slices, "replace slices of a concatenation by slices of its operand"),
    Pass(fold_updates, "replace dynamic slices and updates at constant positions by slices and concatenations"),
    Pass(restore_limits, "select a function's limit where its operand is infinite"),
    Pass(inline_calls, "replace calls by the ops of the functions"),
    INSERT_CASTS,
    Pass(join_pads, "replace sums of disjointly padded values by concatenations"),
    Pass(legalize_chlo, "lower chlo ops to StableHLO"),
    Pass(legalize_real_math, "lower real math ops on floats to StableHLO"),
    Pass(litert, "run TFLite's general algorithm, from statistics to quantized ops"),
    Pass(lower, "lower the quantized program to integers"),
    Pass(_lower_quant_ops, "lower quant casts to arith, math, tensor, linalg, shape"),
    Pass(_lower_to_loops, "lower integer programs to loops: affine, arith, memref, scf"),
    Pass(_lower_to_standard, "lower integer programs to func, arith, linalg, scf, tensor"),
    Pass(merge_sums, "merge zero-point corrections into biases"),
    Pass(normalize_quant_types, "rewrite sub-channel types as per-layer or per-channel types"),
    Pass(pin_constants, "turn simulated quantization of constants into pinned parameters"),
    Pass(_state_statistics, "replace requests for statistics by the statistics of a file"),
    Pass(strip_func_quant_types, "replace quantized types in function headers by storage integers"),
    Pass(transform, "move data on storage, with quant casts at the edges"),
    Pass(unfuse, "replace regions by their ops, with casts"),
    Pass(unroll_loops, "write out loops with a known number of trips and contractions"),
)
"""Other passes: parts of the above, checks, and alternatives."""
PASSES: Mapping[str, Pass] = {entry.name: entry for entry in (*QUANTIZE_PASSES, *NATIVE_PASSES, *OTHER_PASSES)}


def listing() -> str:
    """One line per pass: name, description, options and their defaults. The passes of `quantize` come first."""
    groups = (
        ("What `zeropoint quantize` runs, in order (calibration after `instrument`):", QUANTIZE_PASSES),
        ("What native code runs, in order:", NATIVE_PASSES),
        ("Parts of these, checks, and passes of other pipelines:", OTHER_PASSES),
    )
    lines: list[str] = []
    for title, passes in groups:
        lines += [title, *(_line(entry) for entry in passes), ""]
    return "\n".join(lines[:-1])


def _line(entry: Pass) -> str:
    options = " ".join(map(str, entry.options.values()))
    return f"  {entry.name:24s}{entry.summary}{options and f'  ({options})'}"
