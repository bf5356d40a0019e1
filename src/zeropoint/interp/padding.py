"""Exclude padded positions from calibration and comparison.

Sentences of different lengths are padded to one length, and an input such as `attention_mask` is 0 at the padding.
Nobody reads the values that a network computes there, so they should neither widen ranges nor count as signal or noise.
Values computed from the mask alone are observed everywhere: a mask that is added to scores hides the padding by its
numbers there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.ir import SSAValue

from zeropoint.errors import OptionError
from zeropoint.interp.engine import Adjustable, Engine, LockStepped, Runnable
from zeropoint.interp.plan_steps import Observe
from zeropoint.ir.captured import captured
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp, StatisticsRefOp
from zeropoint.ir.tensors import Array


def unpadded(array: Array, mask: Array) -> Array:
    """The elements of `array` where `mask` (bool) is true, with their other dimensions.

    Dimensions of size 1 of the mask are ignored. Each other dimension is matched, in order, with the first dimension of
    the array that has its size: a mask (1, 128) selects rows of (1, 128, 384), (128, 384) and (1, 12, 128, 32). An
    array without matching dimensions is returned unchanged.
    """
    kept, dimensions = np.squeeze(mask), _masked_dimensions(mask, array.shape)
    if not dimensions:
        return array
    if len(dimensions) == 1:
        return array.compress(kept, axis=dimensions[0])
    return np.moveaxis(array, dimensions, range(len(dimensions)))[kept]


def kept_positions(mask: Array, shape: tuple[int, ...]) -> Array | None:
    """The elements that `unpadded` keeps, as a bool array of `shape`; None if it keeps all."""
    dimensions = _masked_dimensions(mask, shape)
    if not dimensions:
        return None
    sizes = [size if dim in dimensions else 1 for dim, size in enumerate(shape)]
    return np.broadcast_to(np.squeeze(mask).reshape(sizes), shape)


def _masked_dimensions(mask: Array, shape: tuple[int, ...]) -> list[int]:
    """The dimension of `shape` that each dimension of the mask is matched with; empty if one has no match."""
    dimensions: list[int] = []
    for size in np.squeeze(mask).shape:
        start = dimensions[-1] + 1 if dimensions else 0
        dimension = next((d for d in range(start, len(shape)) if shape[d] == size), None)
        if dimension is None:
            return []
        dimensions.append(dimension)
    return dimensions


def masks_of(samples: Iterable[Mapping[str, Array]], mask: str | None) -> list[Array] | None:
    """Where the input `mask` of each sample is not 0; None without a mask."""
    return None if mask is None else [np.asarray(sample[mask]) != 0 for sample in samples]


@dataclass(frozen=True)
class MaskedEngine:
    """An engine that observes and returns only positions that are not padding, according to the input named `mask`.

    Values that depend on no other input are observed everywhere. Programs without that input, such as single kernels,
    run unchanged.
    """

    engine: Engine
    mask: str

    def prepare(self, program: Program) -> Runnable:
        """Prepare the program with the engine."""
        run = self.engine.prepare(program)
        names = [port.name for port in program.inputs]
        return _Masked(run, self.mask, _keys_of_mask(program, self.mask)) if self.mask in names else run


def _keys_of_mask(program: Program, mask: str) -> frozenset[str]:
    """The keys of the requested values that depend on the input `mask` and constants only."""
    ports = zip(program.entry.args, program.inputs, strict=True)
    varying: set[SSAValue] = {value for value, port in ports if port.name != mask}
    keys: set[str] = set()
    for op in program.entry.ops:
        read = op.operands if isinstance(op, QuantizeRegionOp) else (*op.operands, *captured(op.regions))
        if not varying.isdisjoint(read):
            varying.update(op.results)
        elif isinstance(op, StatisticsRefOp):
            keys.add(op.stats_key.data)
    return frozenset(keys)


@dataclass(frozen=True)
class _Masked:
    run: Runnable
    mask: str
    whole: frozenset[str] = frozenset()
    """The keys of values that are observed everywhere."""

    def lock_step(self, samples: Sequence[Mapping[str, Array]], memory: int) -> LockStepped | None:
        """The program in lock step, with padded positions."""
        return self.run.lock_step(samples, memory) if isinstance(self.run, Adjustable) else None

    def __call__(self, inputs: Mapping[str, Array], *, observe: Observe | None = None) -> dict[str, Array]:
        mask = np.asarray(inputs[self.mask]) != 0
        if not mask.any():
            raise OptionError(
                f"found a sample whose mask '{self.mask}' is 0 everywhere, expected a position that is not padding"
            )

        def see(key: str, array: Array) -> None:
            if observe is not None:
                observe(key, array if key in self.whole else unpadded(array, mask))

        outputs = self.run(inputs, observe=None if observe is None else see)
        return {name: unpadded(array, mask) for name, array in outputs.items()}


def masked_run(run: Runnable, mask: str | None) -> Runnable:
    """A program without padded positions, by the input `mask`; the program itself for None."""
    return run if mask is None else _Masked(run, mask)


def masked(engine: Engine, mask: str | None) -> Engine:
    """A `MaskedEngine` for the input `mask`; the engine itself for None."""
    return engine if mask is None else MaskedEngine(engine, mask)


def has_padding(sample: Mapping[str, Array], mask: str | None) -> bool:
    """Whether the input `mask` is 0 somewhere in a sample; False without a mask."""
    return mask is not None and not np.all(sample[mask])


def check_mask(program: Program, mask: str | None) -> None:
    """Raise OptionError if a program has no input of the mask's name."""
    names = [port.name for port in program.inputs]
    if mask is not None and mask not in names:
        listed = ", ".join(f"'{name}'" for name in names)
        raise OptionError(f"found mask '{mask}', expected the name of an input that is 0 at padding: {listed}")
