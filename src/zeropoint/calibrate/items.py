"""Convert items of users' iterables to samples: dicts, arrays, tensors or tuples; one sample or a batch of any size.

| item                                    | read as                                               |
|-----------------------------------------|-------------------------------------------------------|
| `{"image": x, "label": y}`              | inputs by name; other entries are ignored             |
| the same, for a single input            | without its name: the only entry that fits it         |
| rows of a data frame or of an Arrow table | a dict of their columns, or one row of features each |
| `x`                                     | the only input                                        |
| `(x, y)`, `[x, y]`                      | inputs by position; further entries are ignored       |
| `({"image": x}, y)`, `((a, b), y)`      | the first entry, as above                             |

An array is anything that NumPy converts to one, or a tensor with `detach` and `cpu`, as in PyTorch. An array of shape
(n, *S), or (n, *S[1:]) if the input has a leading axis of 1, holds n samples of an input of shape S. Rows of inputs
with a leading axis of N > 1 are regrouped (`batches.py`).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, cast

import numpy as np

from zeropoint.calibrate.columns import ArrayColumn, DataError, as_array
from zeropoint.calibrate.fitting import Fit, check_dtype, fit_array, is_exact, is_one_sample, is_row
from zeropoint.ir.program import Port
from zeropoint.ir.tensors import Array, element_dtype


def is_array(value: object) -> bool:
    """Whether a value is an array, a tensor, or an object that exposes an array's memory."""
    return isinstance(value, memoryview) or (hasattr(value, "shape") and hasattr(value, "dtype"))


def arrays_of(item: object, ports: Sequence[Port], where: str) -> dict[str, Array]:
    """The arrays of an item by input name. Raises DataError if an input has none."""
    found = _by_name(columns_of(item, ports), ports, where)
    for port in ports:
        if _is_picture(found[port.name]) and element_dtype(port.type.element_type).kind == "f":
            raise DataError(
                f"{where}: input '{port.name}': found an image of Pillow, expected an array, preprocessed as the model "
                f"expects; convert it, such as by dataset.with_transform, or give zp.Images(folder, resize=..., ...)"
            )
    return {name: as_array(value) for name, value in found.items()}


def columns_of(item: Any, ports: Sequence[Port]) -> Any:
    """The columns by name of an Arrow table or of a pandas or polars data frame. Other items are returned unchanged.

    A table with as many columns of numbers as the only input has features, none of them named like it, is that input.
    """
    if hasattr(item, "to_pydict"):
        named: Mapping[Any, Any] = item.to_pydict()
    elif hasattr(item, "to_dict") and hasattr(item, "columns") and (hasattr(item, "iloc") or hasattr(item, "select")):
        named = {name: np.asarray(item[name]).tolist() for name in item.columns}
    else:
        return item
    features = _features(named, ports[0]) if len(ports) == 1 else None
    return named if features is None else {ports[0].name: features}


def _features(named: Mapping[Any, Any], port: Port) -> Array | None:
    """The columns of a table as rows of an input; None if they are not exactly the input's features."""
    shape = port.type.get_shape()
    row = shape[1:] if len(shape) > 1 else shape
    if port.name in named or tuple(row) != (len(named),):
        return None
    try:
        columns = [as_array(column) for column in named.values()]
    except DataError:
        return None
    is_features = all(column.ndim == 1 and column.dtype.kind in "biuf" for column in columns)
    return np.stack(columns, axis=1) if is_features else None


def _is_picture(value: Any) -> bool:
    """Whether a value is a Pillow image or a list of these."""
    listed = cast("list[Any]", value) if isinstance(value, list) else [value]
    return bool(listed) and type(listed[0]).__module__.partition(".")[0] == "PIL"


def fit_rows(rows: Mapping[str, Array], ports: Sequence[Port], where: str) -> Mapping[str, Array]:
    """The rows of all inputs. Raises DataError for dtypes that do not fit."""
    for port in ports:
        check_dtype(rows[port.name].dtype, port, where)
    return rows


def split(arrays: Mapping[str, Array], ports: Sequence[Port], where: str) -> Iterator[dict[str, Array]]:
    """The samples in the arrays of an item, in the shapes and dtypes of the inputs.

    Raises DataError for shapes, dtypes and values that do not fit, and for inputs with different batch sizes.
    """
    if all(is_one_sample(arrays[port.name].shape, port) for port in ports):
        yield {port.name: fit_array(arrays[port.name], port, where) for port in ports}
        return
    fits = {port.name: Fit.of(port, ArrayColumn(arrays[port.name]), where) for port in ports}
    counts = {name: fit.count for name, fit in fits.items()}
    if len(set(counts.values())) > 1:
        found = ", ".join(f"{count} for '{name}'" for name, count in counts.items())
        raise DataError(f"{where}: found {found}; expected the same number of samples for each input")
    streams = {name: fit.samples() for name, fit in fits.items()}
    for _ in range(next(iter(counts.values()), 0)):
        yield {name: next(stream) for name, stream in streams.items()}


def batch_size(arrays: Mapping[str, Array], ports: Sequence[Port]) -> int | None:
    """The batch size if all arrays have a leading sample axis; None for a single sample or other shapes."""
    found: set[int] = set()
    for port in ports:
        array = arrays.get(port.name)
        if array is None or is_exact(array.shape, port):
            return None
        if not is_one_sample(array.shape[1:], port):
            return None
        found.add(array.shape[0])
    return found.pop() if len(found) == 1 and len(arrays) == len(ports) else None


def batched(arrays: Mapping[str, Array], ports: Sequence[Port], count: int) -> Iterator[dict[str, Array]]:
    """The samples of batched arrays, as views in the shapes of the inputs."""
    for index in range(count):
        yield with_batch_of_one({port.name: arrays[port.name][index] for port in ports}, ports)


def with_batch_of_one(arrays: Mapping[str, Array], ports: Sequence[Port]) -> dict[str, Array]:
    """The arrays of one sample, with an input's missing leading 1 added. Arrays that do not fit are unchanged."""
    found = dict(arrays)
    for port in ports:
        array = found.get(port.name)
        if array is not None and not is_exact(array.shape, port) and is_one_sample(array.shape, port):
            found[port.name] = array[np.newaxis]
    return found


def _by_name(item: Any, ports: Sequence[Port], where: str) -> Mapping[str, Any]:
    """The values of an item by input name. Raises DataError if an input has none."""
    if isinstance(item, Mapping):
        named = cast("Mapping[str, Any]", item)
        if len(ports) == 1 and ports[0].name not in named and (name := _only_fitting(named, ports[0])) is not None:
            return {ports[0].name: named[name]}
        if any(port.name not in named for port in ports):
            raise DataError(names_do_not_match(where, named, ports))
        return {port.name: named[port.name] for port in ports}
    if _is_group(item):
        parts = cast("Sequence[Any]", item)
        if isinstance(parts[0], Mapping) or _is_group(parts[0]):
            return _by_name(parts[0], ports, where)
        if len(parts) < len(ports):
            raise DataError(f"{where}: found {len(parts)} values; expected one for each of {_names(ports)}")
        return {port.name: value for port, value in zip(ports, parts, strict=False)}
    found = type(item).__name__
    if len(ports) != 1:
        raise DataError(f"{where}: found {found}; expected a dict or a tuple with {_names(ports)}")
    if not is_array(item) and not isinstance(item, list | int | float) and not _is_picture(item):
        raise DataError(
            f"{where}: found {found}; expected an array for {_names(ports)}, a dict with it, or a tuple with it first"
        )
    return {ports[0].name: item}


def _only_fitting(named: Mapping[str, Any], port: Port) -> str | None:
    """The name of the only entry that may hold samples of an input; None if there is none or several."""
    found = [name for name, value in named.items() if may_be_samples(value, port)]
    return found[0] if len(found) == 1 else None


def may_be_samples(value: Any, port: Port) -> bool:
    """Whether a value has the shape of one or more samples of an input, and a dtype that converts to the input's."""
    if _is_picture(value):
        return True
    try:
        array = as_array(value)
        check_dtype(array.dtype, port, "")
    except DataError:
        return False
    expected = port.type.get_shape()
    shapes = (array.shape, array.shape[1:])
    return any(is_one_sample(shape, port) or (len(expected) > 1 and is_row(shape, port)) for shape in shapes)


def _is_group(item: Any) -> bool:
    """Whether an item is a group of values, and not an array written as nested lists of numbers."""
    return isinstance(item, tuple | list) and bool(cast("Sequence[Any]", item)) and not is_numbers(item)


def is_numbers(item: Any) -> bool:
    """Whether an item is a number or nested lists of numbers."""
    if isinstance(item, list):
        return all(is_numbers(part) for part in cast("list[Any]", item))
    return isinstance(item, int | float)


def unread(found: Mapping[str, Any], ports: Sequence[Port], *, many: bool) -> list[str]:
    """The names of arrays that no input reads. Labels are left out: one integer or text for each of `many` samples."""
    return [
        name
        for name, value in found.items()
        if all(port.name != name for port in ports) and not _is_label(value, many=many)
    ]


def unread_in(item: Any, arrays: Mapping[str, Array], ports: Sequence[Port]) -> list[str]:
    """The names of entries of an item that no input reads, without labels. `arrays` has the item's arrays by input."""
    named = columns_of(item, ports)
    while _is_group(named):
        named = columns_of(named[0], ports)
    if not isinstance(named, Mapping):
        return []
    entries = dict(cast("Mapping[str, Any]", named))
    if len(ports) == 1 and ports[0].name not in entries and (only := _only_fitting(entries, ports[0])) is not None:
        del entries[only]
    return unread(entries, ports, many=not all(is_one_sample(arrays[port.name].shape, port) for port in ports))


def _is_label(value: Any, *, many: bool) -> bool:
    """Whether a value is not an array, or has one integer or text per sample."""
    try:
        array = value if hasattr(value, "shape") and isinstance(value.dtype, np.dtype) else as_array(value)
    except (DataError, TypeError):
        return True
    size = array.shape[1:] if many else array.shape
    return array.dtype.kind not in "fc" and math.prod(size) == 1


def names_do_not_match(where: str, found: Mapping[str, object] | Sequence[str], ports: Sequence[Port]) -> str:
    """The message for arrays whose names are not those of the inputs. Inputs without an array are listed first."""
    names = [port.name for port in ports]
    if len(names) > NAMES_SHOWN:
        names.sort(key=lambda name: name in found)
    return f"{where}: found {listed(found)}; expected {listed(names)}; name each array after its input"


def listed(names: Collection[str]) -> str:
    """Names in quotes, separated by commas: the first ones, and the number of further ones."""
    quoted = [f"'{name}'" for name in islice(names, NAMES_SHOWN)]
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return ", ".join(quoted) + more or "nothing"


NAMES_SHOWN = 6
"""A message lists at most this many names."""


def _names(ports: Sequence[Port]) -> str:
    return listed([port.name for port in ports])
