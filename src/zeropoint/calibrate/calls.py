"""The arguments of a model's call: arrays by position or name, or data in the forms that `quantize` takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from zeropoint.calibrate.columns import as_array
from zeropoint.calibrate.fitting import is_float, is_one_sample, misplaced_channels
from zeropoint.calibrate.images import Images
from zeropoint.calibrate.items import is_array, is_numbers
from zeropoint.ir.arguments import InputError, signature
from zeropoint.ir.program import Port
from zeropoint.ir.tensors import Array, element_dtype, element_of


def data_of(arrays: Sequence[Any], named: Mapping[str, Any], ports: Sequence[Port]) -> Any:
    """The only argument of a call if it is a source of samples (`data.py`): a path, `Images`, a dict or an iterable.

    None for arrays, numbers, and nested lists of numbers.
    """
    if len(arrays) != 1 or named:
        return None
    given: Any = arrays[0]
    if isinstance(given, Mapping):
        # One item is a sample or a batch. A table has an axis that counts samples, and may also have arrays NAME_0,
        # NAME_1, ...
        found = cast("Mapping[str, Any]", given)
        return [found] if all(port.name in found for port in ports) else found
    if is_array(given) or is_numbers(given):
        return None
    is_items = callable(given) or hasattr(given, "__iter__") or hasattr(given, "__getitem__")
    return given if is_items or isinstance(given, Images) or hasattr(given, "__fspath__") else None


def sample_of(arrays: Sequence[Any], named: Mapping[str, Any], ports: Sequence[Port]) -> Mapping[str, Any] | None:
    """The inputs in a dict that is the only argument, if their shapes are those of one run; otherwise None.

    Their dtypes may be others, and the dict may have other items, such as labels.
    """
    if len(arrays) != 1 or named or not isinstance(arrays[0], Mapping):
        return None
    found = cast("Mapping[str, Any]", arrays[0])
    given = {port.name: found[port.name] for port in ports if port.name in found}
    if len(given) != len(ports):
        return None
    shapes = [np.shape(value) if is_array(value) or is_numbers(value) else None for value in given.values()]
    return given if shapes == [tuple(port.type.get_shape()) for port in ports] else None


class ExactCalls:
    """Recognizes calls whose arrays are exactly one run: every input by name, with its shape and dtype.

    Such calls need no conversion and no split into samples. The types of the program are read once, so a call in a loop
    pays less than a microsecond per input. A program with indices never takes this path, because the values of indices
    are checked.
    """

    def __init__(self, ports: Sequence[Port]):
        self._forms: dict[str, tuple[tuple[int, ...], np.dtype[Any]] | None] = {
            port.name: (tuple(port.type.get_shape()), element_dtype(element_of(port.type)))
            if port.index_bounds is None
            else None
            for port in ports
        }

    def sample(self, arrays: Sequence[Any], named: Mapping[str, Any]) -> Mapping[str, Array] | None:
        """The arrays by name if a call is one run without conversion, also if it is given as a dict; otherwise None."""
        if len(arrays) == 1 and not named and isinstance(arrays[0], Mapping):
            arrays, named = (), cast("Mapping[str, Any]", arrays[0])
        given = {**dict(zip(self._forms, arrays, strict=False)), **named} if arrays else named
        if len(given) != len(self._forms) or len(arrays) + len(named) != len(given):
            return None
        for name, value in given.items():
            if type(value) is not np.ndarray or (value.shape, value.dtype) != self._forms.get(name):
                return None
        return given


def arrays_of_call(arrays: Sequence[Any], named: Mapping[str, Any], ports: Sequence[Port]) -> dict[str, Array]:
    """The arrays of a call by input name.

    Raises InputError for too many arrays, for an input given twice, for a value that is not an array of numbers, and
    for an array whose shape or dtype does not fit its input.
    """
    if len(arrays) > len(ports):
        raise InputError(f"found {len(arrays)} arrays, expected {len(ports)}: {signature(ports)}")
    by_position = {port.name: array for port, array in zip(ports, arrays, strict=False)}
    if twice := by_position.keys() & named.keys():
        raise InputError(f"found input '{min(twice)}' twice, by position and by name; give it once")
    given = {name: _array(name, value) for name, value in {**by_position, **named}.items()}
    for port in ports:
        if port.name not in given:
            continue
        value = named.get(port.name, by_position.get(port.name))
        array = given[port.name] = _of_numbers(value, given[port.name], port)
        if reason := _emptiness(array, port) or port.misfit(array) or misplaced_channels(array.shape, port):
            raise InputError(f"input {port.name}: {reason}")
    counts = {port.name: _count(given[port.name], port) for port in ports if port.name in given}
    if len(set(counts.values())) > 1 and None not in counts.values():
        found = ", ".join(f"{count} of '{name}'" for name, count in counts.items())
        raise InputError(f"found samples: {found}; expected the same number for each input")
    return given


def _count(array: Array, port: Port) -> int | None:
    """The number of samples in an array; None for another shape."""
    if is_one_sample(array.shape, port):
        return 1
    return array.shape[0] if is_one_sample(array.shape[1:], port) else None


def _array(name: str, value: Any) -> Array:
    """The array given for an input. Raises InputError for a dict, for text, and for lists that form no array."""
    if isinstance(value, Mapping):
        raise InputError(f"input {name}: found a dict, expected an array; give arrays by name: model(**arrays)")
    try:
        array = as_array(value)
    except ValueError as error:  # from NumPy, for nested lists that are not rectangular
        raise InputError(f"input {name}: found lists of different lengths, expected an array of numbers") from error
    if array.dtype.kind in "OSU":
        found = array.dtype if is_array(value) else type(value).__name__
        raise InputError(f"input {name}: found {found}, expected an array of numbers")
    return array


def _of_numbers(value: Any, array: Array, port: Port) -> Array:
    """The array in the dtype of its input, if that can hold it: floats of any width as floats, integers as integers.

    Python numbers have no dtype, so Python integers are accepted as floats, too. An integer array for a float input may
    be a mistake, such as pixels that were not scaled. It is returned unchanged.
    """
    wanted = element_dtype(element_of(port.type))
    if array.dtype == wanted:
        return array
    is_real = wanted.kind not in "biu"
    if is_array(value):
        fits = is_float(array.dtype) if is_real else wanted.kind != "b" and array.dtype.kind in "iu"
    else:
        fits = array.dtype.kind in "iuf" if is_real else array.dtype.kind in "iub"
    with np.errstate(over="ignore"):
        found = array.astype(wanted) if fits else array
    return found if is_real or np.array_equal(found, array) else array


def _emptiness(array: Array, port: Port) -> str | None:
    """The reason if an array is an empty batch or has no rows; None otherwise."""
    expected = tuple(port.type.get_shape())
    is_batch = is_one_sample(array.shape[1:], port) or array.shape[1:] == expected[1:]
    if array.shape[:1] == (0,) and is_batch and (not expected or expected[0] > 0):
        return "found no samples, expected at least one"
    return None
