"""A model with statistics after every op beside the plain model."""

from __future__ import annotations

from collections.abc import Sequence

from zeropoint.calibrate import asks_all, calibrate, collect, instrument, observer_factory, state_ranges
from zeropoint.fuse import fuse
from zeropoint.ir.annotations import FACTS
from zeropoint.ir.program import Program
from zeropoint.ir.tensors import Array
from zeropoint.ir.text import print_program
from zeropoint.options import Options
from zeropoint.pipeline import quantize
from zeropoint.targets import target


def without_facts(program: Program) -> Program:
    """The program without the names of the ops whose statistics decided: the first or the last op of a kernel."""
    for op in program.module.walk():
        op.attributes.pop(FACTS, None)
    program.main.properties.pop("arg_attrs", None)
    return program


def texts_of_plain_and_annotated(
    network: Program, data: Sequence[dict[str, Array]], observer: str = "minmax"
) -> tuple[str, str]:
    """The integer program of a model, and of the same model with the observed ranges after every op."""
    asked = instrument(network, asks=asks_all, every_result=True)
    annotated = state_ranges(asked, collect(asked, data, observer=observer_factory(observer)))
    options = Options(target="cpu", observer=observer, effort="none")
    plain, stated = (quantize(program, data, options).integer for program in (network, annotated))
    return print_program(without_facts(plain)), print_program(without_facts(stated))


def fused_with_statistics(network: Program, data: Sequence[dict[str, Array]]) -> Program:
    """The kernels of a model with statistics after every op, for `cpu`: some of these are inside of kernels."""
    return fuse(calibrate(instrument(network, every_result=True), data), target("cpu"))
