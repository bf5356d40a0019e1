"""Recognize a source that is one item of a training set: `(x_train, y_train)`, or one array per input.

Other lists and tuples are sources of items. Without this check, `(x_train, y_train)` would be two batches of samples.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from zeropoint.calibrate.columns import DataError, as_array
from zeropoint.calibrate.fitting import is_one_sample
from zeropoint.calibrate.items import is_array, is_numbers, may_be_samples
from zeropoint.ir.program import Port


def without_labels(source: Any, ports: Sequence[Port]) -> Any:
    """The inputs of a source that is one item, as an array or a dict of arrays. Any other source is returned unchanged.

    Raises DataError if there is a second array next to samples of the only input that is neither samples nor labels.
    """
    pair, group = isinstance(source, tuple), isinstance(source, tuple | list)
    return _inputs_of(source, ports, pair=pair) if group and ports and len(source) > 1 else source


def _inputs_of(source: Any, ports: Sequence[Port], *, pair: bool) -> Any:
    first, others = source[0], source[1:]
    if _holds_inputs(first, ports):
        no_samples = all(is_array(one) and not may_be_samples(one, ports[0]) for one in others)
        return without_labels(first, ports) if no_samples else source
    if len(ports) > 1:
        return _by_position(source, ports) if all(map(is_array, source)) else source
    if not is_array(first) or not _are_labels(others, first, ports[0], pair=pair):
        return source
    return [first] if is_one_sample(first.shape, ports[0]) else first


def _holds_inputs(first: object, ports: Sequence[Port]) -> bool:
    """Whether the first entry of an item holds the inputs, as in `({"image": x}, y)` and `((a, b), y)`."""
    return isinstance(first, Mapping) or (isinstance(first, tuple) and len(ports) > 1)


def _by_position(source: Sequence[Any], ports: Sequence[Port]) -> Any:
    """The arrays by input. For several inputs, a single array is not an item."""
    if len(source) < len(ports):
        return source
    found = {port.name: array for port, array in zip(ports, source, strict=False)}
    single = all(is_one_sample(found[port.name].shape, port) for port in ports)
    return [found] if single else found


def _are_labels(others: Sequence[Any], samples: Any, port: Port, *, pair: bool) -> bool:
    """Whether arrays, or numbers next to one sample, are the labels of `samples` and not samples themselves."""
    if is_one_sample(samples.shape, port):
        count = 1
    elif may_be_samples(samples, port):
        count = int(samples.shape[0])
    else:
        return False
    for other in others:
        if not is_array(other) and not is_numbers(other):
            return False
        shape = tuple(as_array(other).shape)
        if shape[:1] != (count,) and math.prod(shape) != count:
            return False
        fits = may_be_samples(other, port)
        if fits and not (pair and len(shape) < len(samples.shape) and shape == (count,)):
            return False
        if not fits and math.prod(shape) != count:
            found = "x".join(map(str, shape))
            raise DataError(
                f"data: found samples of input '{port.name}' and {as_array(other).dtype} data of shape {found}, "
                f"expected samples; if these are labels, give the first array alone: data[0]"
            )
    return True
