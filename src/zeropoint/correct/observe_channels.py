"""Observe the ranges of channels where `equalize` needs them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count

import numpy as np
from xdsl.ir import SSAValue
from xdsl.rewriter import Rewriter

from zeropoint.correct.channel_statistics import ChannelRanges, state_channels
from zeropoint.correct.equalize import Site, watched
from zeropoint.correct.float_record import FloatRecord
from zeropoint.correct.residual_streams import Member
from zeropoint.interp import Engine
from zeropoint.ir.program import Program
from zeropoint.ir.quant import StatisticsOp, StatisticsRefOp
from zeropoint.ir.tensors import Array
from zeropoint.progress import Progress, silent


def _is_stated(value: SSAValue) -> bool:
    """Whether a value has statistics, directly or after requests for them."""
    users = [use.operation for use in value.uses]
    return any(isinstance(op, StatisticsOp) or (isinstance(op, StatisticsRefOp) and _is_stated(op.res)) for op in users)


def _free_keys(program: Program) -> Iterator[str]:
    """Statistics keys that the program does not use."""
    taken = {op.stats_key.data for op in program.module.walk() if isinstance(op, StatisticsRefOp)}
    return (key for key in (f"equalize{number}" for number in count()) if key not in taken)


def observe_channels(
    program: Program,
    samples: Sequence[Mapping[str, Array]],
    engine: Engine,
    progress: Progress = silent,
    record: FloatRecord | None = None,
) -> Program:
    """A copy of a fused program with observed `quant.stats` per channel at every site.

    A site whose value already has `quant.stats` keeps these and gets no others. The program's own requests for
    statistics (`quant.stats_ref`) stay. `record` is of calibration of the program on the same samples.
    """
    wanted = [site for site in watched(program) if not _is_stated(site.value)]
    known = None if record is None else record.channels(wanted, samples)
    program = program.clone()
    found = [site for site in watched(program) if not _is_stated(site.value)]
    asked = dict(zip(_free_keys(program), found, strict=False))
    references: list[StatisticsRefOp] = []
    for key, site in asked.items():
        reference = StatisticsRefOp(site.value, key)
        program.entry.insert_op_after(reference, site.maker)
        site.value.replace_uses_with_if(reference.res, lambda use, made=reference: use.operation is not made)
        references.append(reference)
    if known is None:
        known = _observed(program, asked, samples, engine, progress)
    for reference, site, ranges in zip(references, found, known, strict=True):
        made = StatisticsOp(reference.arg, (0.0, 0.0))
        made.location = site.maker.location
        Rewriter.replace_op(reference, made)
        # `quant.stats` holds finite numbers only.
        state_channels(made, np.nan_to_num(ranges), site.axis)
    return program


def _observed(
    program: Program,
    asked: Mapping[str, Site | Member],
    samples: Sequence[Mapping[str, Array]],
    engine: Engine,
    progress: Progress,
) -> list[Array]:
    """The ranges of channels, (channels, 2), at the sites that are asked for by key."""
    ranges = {key: ChannelRanges(site.axis) for key, site in asked.items()}

    def observe(key: str, array: Array) -> None:
        if key in ranges:  # else a request of the model
            ranges[key].see(array)

    run = engine.prepare(program)
    for sample in progress(samples, "ranges of channels"):
        run(sample, observe=observe)
    return [one.ranges for one in ranges.values() if one.ranges is not None]
