"""Contractions that undo the sizes of a concatenation's operands read operands of like size."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from xdsl.ir import SSAValue

from annotated import fused_with_statistics, texts_of_plain_and_annotated
from networks import Network
from solve.uneven_joins import (
    a_maximum_pool,
    a_relu,
    a_transpose,
    convolved,
    joined,
    network,
    parts,
    quantized,
    samples,
    sqnr,
    undone,
)
from zeropoint.interp import Interpreter
from zeropoint.ir.annotations import EQUALIZED
from zeropoint.ir.program import Program
from zeropoint.ir.text import print_program
from zeropoint.solve.drop_inner_statistics import drop_inner_statistics
from zeropoint.solve.parts.scale_parts import scale_parts
from zeropoint.targets import target


def directly(net: Network, value: SSAValue) -> list[SSAValue]:
    return [undone(net, joined(net, parts(net, value)))]


def behind_a_pool(net: Network, value: SSAValue) -> list[SSAValue]:
    return [undone(net, a_maximum_pool(net, joined(net, parts(net, value))))]


def two_convolutions(net: Network, value: SSAValue) -> list[SSAValue]:
    both = joined(net, parts(net, value))
    return [undone(net, both), undone(net, both)]


def of_kernels_that_commute(net: Network, value: SSAValue) -> list[SSAValue]:
    moved = [a_transpose(net, a_relu(net, part)) for part in parts(net, value)]
    return [undone(net, joined(net, moved))]


def a_small_part_that_others_read(net: Network, value: SSAValue) -> list[SSAValue]:
    """Then the great one is scaled down."""
    great, small = parts(net, value)
    return [undone(net, joined(net, [great, small])), convolved(net, small, 4)]


@pytest.mark.parametrize(
    "make",
    [directly, behind_a_pool, two_convolutions, of_kernels_that_commute, a_small_part_that_others_read],
)
def test_a_contraction_that_undoes_sizes_keeps_the_small_part(
    make: Callable[[Network, SSAValue], list[SSAValue]],
) -> None:
    program = network(make)
    assert sqnr(quantized(program, "cpu"), program, is_native=False) > 29  # 7 or less with one scale


def test_statistics_inside_of_kernels_do_not_keep_operands_from_being_scaled() -> None:
    """Those between a convolution and its relu, in a model with statistics after every op."""
    plain, annotated = texts_of_plain_and_annotated(network(of_kernels_that_commute), samples(0))
    assert plain == annotated


def scaled(program: Program) -> int:
    return sum(EQUALIZED in op.attributes for op in program.entry.ops)


def test_the_float_program_computes_the_same_numbers() -> None:
    program = network(directly)
    made = quantized(program, "cpu").calibrated
    assert scaled(made) == 1
    x = {"x0": np.random.default_rng(3).normal(size=(1, 8, 6, 6)).astype(np.float32)}
    np.testing.assert_allclose(Interpreter(made)(x)["y0"], Interpreter(program)(x)["y0"], rtol=1e-5, atol=1e-5)


def test_operands_keep_their_sizes_if_nothing_is_gained() -> None:
    def even(net: Network, value: SSAValue) -> list[SSAValue]:
        return [undone(net, joined(net, parts(net, value, 1.0)), 1.0)]

    def kept(net: Network, value: SSAValue) -> list[SSAValue]:
        """The small part hardly counts."""
        return [undone(net, joined(net, parts(net, value)), 1.0)]

    def read_elsewhere(net: Network, value: SSAValue) -> list[SSAValue]:
        both = joined(net, parts(net, value))
        return [undone(net, both), a_relu(net, both)]

    for make in (even, kept, read_elsewhere):
        assert not scaled(quantized(network(make), "cpu").calibrated)


def test_the_pass_alone_sees_through_statistics_inside_of_kernels() -> None:
    fused = fused_with_statistics(network(of_kernels_that_commute), samples(0))
    alone = scale_parts(fused, target("cpu"))
    assert scaled(alone)
    assert print_program(alone) == print_program(scale_parts(drop_inner_statistics(fused), target("cpu")))
