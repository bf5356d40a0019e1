"""Quantize one network for several shapes of its inputs with one calibration. Equal ranges give equal weights."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from xdsl.ir import Operation, SSAValue

from zeropoint.calibrate import DataError, samples, state_ranges
from zeropoint.calibrate.bounded import state_bounded
from zeropoint.correct import EQUALIZE, Corrections, check_methods
from zeropoint.correct.contractions import give_biases
from zeropoint.errors import OptionError
from zeropoint.ir.annotations import CORRECTIONS, FACTS
from zeropoint.ir.constants import constant_array, constant_op
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.ir.regions import regions_of
from zeropoint.options import Options
from zeropoint.passes import (
    ASKING_PASSES,
    CALIBRATED_PASSES,
    DECIDING_PASSES,
    EDGE_PASSES,
    FLOAT_PASSES,
    INTEGER_PASSES,
    QUANTIZING_PASSES,
    run_all,
)
from zeropoint.quantization import Quantization, check_used
from zeropoint.recipe import apply_recipe
from zeropoint.targets import target as named_target


def quantize_shapes(
    programs: Sequence[Program],
    data: Any,
    options: Options,
    quantize: Callable[[Program, Iterable[Mapping[str, Any]] | None, Options], Quantization],
) -> list[Quantization]:
    """The quantization of each program. `programs` are one float network with different shapes of its inputs.

    `quantize` calibrates and corrects the first program whose inputs the data fits. The others get its ranges and its
    corrections, so their weights are equal. Equalization is not tried, because it changes weights by the data of one
    shape.

    Raises DataError if the data fits no program, OptionError for a search of widths, CalibrationError for a program
    that needs a range that the calibrated one does not have, and the errors of `quantize`.
    """
    if options.least_sqnr is not None or options.budget is not None:
        raise OptionError(
            "found least_sqnr or budget (--least-sqnr, --budget) with several shapes, expected none: a search judges "
            "one program; search with one shape, and state its choices in a recipe"
        )
    if options.corrections is not None and EQUALIZE in options.corrections:
        raise OptionError(
            f"found correction '{EQUALIZE}' (--correct) with several shapes, where it is not tried: it changes "
            f"weights by the data of one shape; leave it out"
        )
    methods = [name for name in check_methods(options.effort, options.corrections) if name != EQUALIZE]
    if data is not None:
        options = replace(options, corrections=methods)
    base, given = _fitting(programs, data)
    made = quantize(programs[base], given, options)
    check_used(made, options)
    return [made if at == base else specialized(made, program, options) for at, program in enumerate(programs)]


def _fitting(programs: Sequence[Program], data: Any) -> tuple[int, Any]:
    """The index of the first program that the data fits, and its samples. Raises DataError if there is none."""
    if data is None:
        return 0, None
    refused: DataError | None = None
    for number, program in enumerate(programs):
        try:
            found = samples(data, program.inputs)
            if isinstance(data, list | tuple):  # other iterables may only be read once
                for _ in found:
                    pass
        except DataError as error:
            refused = refused or error
        else:
            return number, found
    assert refused is not None
    if len(programs) == 1:
        raise refused
    known = " or ".join(_shapes(program) for program in programs)
    raise DataError(
        f"{refused}. All samples must fit one of the shapes ({known}), because all programs get the ranges that are "
        f"observed there: give samples of one of them, or quantize each shape with its own samples and combine: "
        f"zp.Specializations([zp.quantize(model, samples, shapes=shape), ...]), whose weights are not shared"
    )


def _shapes(program: Program) -> str:
    """The shapes of a program's inputs: `x 1x64, mask 1x64`."""
    sizes = ((port.name, port.type.get_shape()) for port in program.inputs)
    return ", ".join(f"{name} {'x'.join(map(str, shape))}" for name, shape in sizes)


def specialized(made: Quantization, program: Program, options: Options) -> Quantization:
    """The float network `program` with the ranges and the corrections of `made`, which is the same network for other
    shapes.

    Raises CalibrationError if `made` has no range for a value that needs one.
    """
    settings = made.settings
    fused = run_all(FLOAT_PASSES, program, settings)
    if options.recipe is not None:
        fused = apply_recipe(fused, options.recipe, program)
    asked = run_all(ASKING_PASSES, fused, settings)
    calibrated = run_all(CALIBRATED_PASSES, state_ranges(asked, made.calibration), settings)
    calibrated = state_bounded(calibrated, made.calibration)
    decided = run_all(DECIDING_PASSES, calibrated, settings)
    propagated = corrected(decided, made, options.target) if made.corrections.all_kept else decided
    integer = run_all((*QUANTIZING_PASSES, *INTEGER_PASSES, *EDGE_PASSES), propagated, {"io": options.io})
    record = Corrections(made.corrections.effort, made.corrections.judges)
    stages = fused, calibrated, propagated, integer
    return Quantization(*stages, made.calibration, record, decided, settings=settings)


def corrected(decided: Program, made: Quantization, target: str) -> Program:
    """`decided` with the weights and biases that corrections gave the kernels of `made`.

    A kernel whose constants already differed before, because they depend on the shapes, keeps its own. If the two
    programs have different kernels, all keep their own.
    """
    program, before = decided.clone(), made.decided.clone()
    for one in (program, before):
        give_biases(one, named_target(target))
    triples = list(zip(*map(regions_of, (program, before, made.propagated)), strict=False))
    counts = {len(regions_of(one)) for one in (program, before, made.propagated)}
    if len(counts) > 1 or any(len({_kind(region) for region in triple}) > 1 for triple in triples):
        return decided
    for own, old, new in triples:
        changed = [index for index in range(len(own.inputs)) if _differ(old, new, index, before, made.propagated)]
        if changed and all(_is_equal(own, old, index, program, before) for index in changed):
            _adopt(own, new, changed, program, made.propagated)
    program.module.attributes[CORRECTIONS] = made.propagated.module.attributes[CORRECTIONS]
    return program


def _kind(region: QuantizeRegionOp) -> tuple[str, int]:
    return region.logical_kernel.data, len(region.inputs)


def _array(value: SSAValue, program: Program) -> Any:
    return constant_array(value, program.weights)


def _differ(old: QuantizeRegionOp, new: QuantizeRegionOp, index: int, first: Program, second: Program) -> bool:
    """Whether an operand is a constant that corrections changed."""
    return _array(new.inputs[index], second) is not None and not _is_equal(old, new, index, first, second)


def _is_equal(one: QuantizeRegionOp, other: QuantizeRegionOp, index: int, first: Program, second: Program) -> bool:
    """Whether an operand of two regions is the same constant."""
    arrays = _array(one.inputs[index], first), _array(other.inputs[index], second)
    if arrays[0] is None or arrays[1] is None:
        return False
    return arrays[0].shape == arrays[1].shape and bool((arrays[0] == arrays[1]).all())


def _adopt(own: QuantizeRegionOp, new: QuantizeRegionOp, changed: list[int], to: Program, source: Program) -> None:
    """Give a region the changed constants, the types and the facts of another one."""
    assert own.parent is not None
    for index in changed:
        made_by = own.inputs[index].owner
        made = constant_op(_array(new.inputs[index], source), to.weights)
        if isinstance(made_by, Operation):
            made.location = made_by.location
        own.parent.insert_op_before(made, own)
        own.operands[index] = made.output
    own.input_specs, own.output_specs = new.input_specs, new.output_specs
    if FACTS in new.attributes:
        own.attributes[FACTS] = new.attributes[FACTS]
