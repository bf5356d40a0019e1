"""Read and check samples for a program, one at a time.

Sources are one or several .npz files, a folder of .npy (or .npz) files, `Images` of a folder, a dict of arrays, a data
frame, and an array for the only input. A source may also yield samples or batches (`zeropoint.calibrate.items`).
Examples are an iterable, a function that returns one, a PyTorch DataLoader or Dataset, and a Hugging Face dataset. A
whole training set `(x_train, y_train)` is read without its labels (`zeropoint.calibrate.pairs`).

In a file, folder or dict, an input NAME of shape S may have one array NAME whose leading axis counts the samples. Its
shape is (n, *S), or (n * S[0], *S[1:]) if the input has a batch axis. Or the input has one array per sample: NAME_0,
NAME_1, ... of shape S (or S without a leading 1). The only input of a model needs no name if one array fits it: any
array of a dict, and in a file one that `np.savez` numbered, `arr_0`. Other arrays are ignored, with a warning unless
they are labels (one integer or text per sample). A model with a batch axis of N > 1 takes N samples at a time. The last
samples are left out with a warning if they do not fill a batch.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from inspect import signature
from itertools import chain, islice
from operator import length_hint
from pathlib import Path
from typing import Any, cast

from zeropoint.calibrate.batches import Batches, batch_of, regrouped, rows_of
from zeropoint.calibrate.columns import (
    Column,
    DataError,
    array_columns,
    folder_columns,
    npz_columns,
)
from zeropoint.calibrate.fitting import Fit
from zeropoint.calibrate.images import Images, image_files
from zeropoint.calibrate.items import (
    arrays_of,
    columns_of,
    fit_rows,
    is_array,
    listed,
    names_do_not_match,
    split,
    unread,
    unread_in,
)
from zeropoint.calibrate.pairs import without_labels
from zeropoint.errors import Error, reading
from zeropoint.ir.arguments import Sample
from zeropoint.ir.program import Port

__all__ = ["DataError", "Sample", "Source", "samples", "shapes_in"]
_LOG = logging.getLogger("zeropoint")
UNNAMED = re.compile(r"arr_\d+")
"""The names that `np.savez` gives to arrays without a name."""
NO_SAMPLES = "data: found no samples; expected at least one"

Source = str | os.PathLike[str] | Mapping[str, Any] | Iterable[Any] | Callable[[], Iterable[Any]]
"""Any of the sources listed in the module's docstring."""


def samples(source: Any, ports: Sequence[Port], *, fill: bool = False) -> Iterable[Sample]:
    """The samples of a `Source` for a program with these inputs, as an iterable that restarts on each iteration.

    Every sample has an array of each input's shape and dtype. Floats of other widths are converted. `len` of the result
    is the number of samples if the source has a length. Files, folders and dicts of arrays are read and checked
    completely up front. An iterable is checked item by item and never held in memory. An iterator can be consumed only
    once. A function is called for each iteration.

    A model with a batch axis of N > 1 takes N rows at a time. The last rows, if fewer than N, are left out with a
    warning. With `fill`, they are filled up with the last row instead, and `filled` of the result is the number of rows
    added.

    Raises DataError, with a one-line message, for missing or unreadable files, names that do not match, shapes and
    dtypes that do not fit, no samples, NaN and infinities, and inputs with different numbers of samples.
    """
    source = columns_of(without_labels(source, ports), ports)
    name = str(source) if _is_path(source) else "data"
    inputs = tuple(port.name for port in ports)
    if isinstance(source, Images):
        stream = Pictures(source, ports, fill=fill)
    elif _is_path(source):
        stream = _of_path(Path(source), ports, fill=fill)
    elif isinstance(source, Mapping):
        columns = array_columns(cast("Mapping[str, Any]", source), inputs)
        stream = Table(columns, ports, "data", fill=fill, any_name=True)
    elif isinstance(source, tuple | list) and source and all(map(_is_path, cast("Sequence[Any]", source))):
        paths = cast("Sequence[str | os.PathLike[str]]", source)
        stream = Chain([_of_path(Path(path), ports, fill=fill) for path in paths])
    elif is_array(cast("Any", source)):
        if len(ports) != 1:
            names = listed([port.name for port in ports])
            raise DataError(f"data: found one array; expected a dict with {names}")
        stream = Table(array_columns({ports[0].name: source}, inputs), ports, "data", fill=fill)
    else:
        return Stream(source, ports, fill=fill)
    with reading(name, DataError):
        for _ in stream:  # every value is checked before the first run
            pass
    if not isinstance(stream, Pictures):
        _warn_unread(name, tuple(dict.fromkeys(stream.unread)), inputs)
    return stream


def holds_items(source: Any) -> bool:
    """Whether a source yields samples or batches one by one, unlike a file, a folder, images, a dict or an array."""
    is_listed = isinstance(source, tuple | list) and bool(cast("Sequence[Any]", source))
    if is_listed and all(map(_is_path, cast("Sequence[Any]", source))):
        return False
    return not (isinstance(source, Images | Mapping) or _is_path(source) or is_array(cast("Any", source)))


def _is_path(source: Any) -> bool:
    return isinstance(source, str | os.PathLike)


def _of_path(path: Path, ports: Sequence[Port], *, fill: bool) -> Table | Chain:
    with reading(path, DataError):
        return _found_at(path, ports, fill=fill)


def _found_at(path: Path, ports: Sequence[Port], *, fill: bool) -> Table | Chain:
    if path.is_dir():
        return _of_folder(path, ports, fill=fill)
    if not path.exists():
        raise DataError(f"{path}: found no such file; expected an .npz file or a folder of .npy files")
    if path.suffix != ".npz":
        suffix = f"suffix '{path.suffix}'" if path.suffix else "no suffix"
        raise DataError(f"{path}: found a file with {suffix}; expected .npz, or a folder of .npy files")
    return Table(npz_columns(path), ports, str(path), fill=fill)


def _of_folder(path: Path, ports: Sequence[Port], *, fill: bool) -> Table | Chain:
    if columns := folder_columns(path):
        return Table(columns, ports, str(path), fill=fill)
    archives = sorted(path.glob("*.npz"))
    if not archives and image_files(path):
        raise DataError(
            f"{path}: found images, expected preprocessing steps as well: --preprocess 'resize=256 crop=224 "
            f"mean=0.5 std=0.5', in Python zp.Images(folder, resize=256, ...)"
        )
    if not archives:
        names = ", ".join(f"{port.name}.npy" for port in ports)
        raise DataError(f"{path}: found a folder with no .npy and no .npz file; expected {names}")
    return Chain([_of_path(archive, ports, fill=fill) for archive in archives])


class Table:
    """Samples from named arrays. With `any_name`, a single input takes the array that fits it, whatever its name."""

    def __init__(
        self,
        columns: Mapping[str, Column],
        ports: Sequence[Port],
        name: str,
        *,
        fill: bool = False,
        any_name: bool = False,
    ):
        self._name = name
        matched = list(_match(columns, ports, name, any_name=any_name))
        self._fits = {port.name: Fit.of(port, found, name, fill=fill) for port, found in matched}
        used = {id(column) for _, found in matched for column in (found if isinstance(found, list) else [found])}
        self.unread = unread({key: one for key, one in columns.items() if id(one) not in used}, ports, many=True)
        """The names of arrays that no input reads and that are not labels."""
        counts = {port: fit.count for port, fit in self._fits.items()}
        if len(set(counts.values())) > 1:
            found = ", ".join(f"{count} for '{port}'" for port, count in counts.items())
            raise DataError(f"{name}: found {found}; expected the same number of samples for each input")
        self._count = next(iter(counts.values()), 0)
        self.rows_a_sample = max((fit.rows_per_sample or 1 for fit in self._fits.values()), default=1)
        rest = max((fit.rest for fit in self._fits.values()), default=0)
        self.filled = self.rows_a_sample - rest if fill and rest else 0
        if not fill:
            _warn(name, rest, self.rows_a_sample)
        if not self._count:
            raise DataError(f"{name}: found no samples; expected at least one")

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Sample]:
        streams = {name: fit.samples() for name, fit in self._fits.items()}
        for _ in range(self._count):
            yield {name: next(stream) for name, stream in streams.items()}


class Chain:
    """The samples of several tables in sequence."""

    def __init__(self, parts: Sequence[Table | Chain]):
        self._parts = parts
        self.rows_a_sample: int = parts[0].rows_a_sample
        self.filled: int = parts[-1].filled
        self.unread: list[str] = [name for part in parts for name in part.unread]

    def __len__(self) -> int:
        return sum(len(part) for part in self._parts)

    def __iter__(self) -> Iterator[Sample]:
        return chain.from_iterable(self._parts)


class Pictures:
    """The images of a folder, decoded on each iteration."""

    def __init__(self, images: Images, ports: Sequence[Port], *, fill: bool = False):
        self._images, self._ports = images, ports
        self.rows_a_sample = batch_of(ports)
        count = len(images.files())
        whole, rest = divmod(count, self.rows_a_sample)
        self.filled = self.rows_a_sample - rest if fill and rest else 0
        self._count = whole + bool(self.filled)
        if not fill:
            _warn(str(images.folder), rest, self.rows_a_sample)
        if count and not self._count:
            raise DataError(_too_few(str(images.folder), count, self.rows_a_sample))

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Sample]:
        images = self._images.samples(self._ports)
        grouped = images if self.rows_a_sample == 1 else regrouped(images, self.rows_a_sample)
        return islice(grouped, self._count or None)  # for an empty folder, `images` raises


class Stream:
    """Samples from a Python iterable, checked as they are consumed.

    The length hint is the number of items, which may be batches.
    """

    def __init__(self, source: Any, ports: Sequence[Port], *, fill: bool = False):
        is_indexed = hasattr(source, "__getitem__") and hasattr(source, "__len__")
        if not (callable(source) or hasattr(source, "__iter__") or is_indexed):
            found = type(source).__name__
            raise DataError(
                f"data: found {found}; expected a path, a dict of arrays, an array, or an iterable of samples"
            )
        self._source, self._ports, self._fill = source, ports, fill
        self._names = tuple(port.name for port in ports)
        self.rows_a_sample = batch_of(ports)
        self.filled = 0
        """The number of rows added to fill up the last sample. Known after an iteration."""

    def __length_hint__(self) -> int:
        hint = length_hint(self._source, -1)
        return hint if hint >= 0 else NotImplemented

    def items(self) -> Iterable[Any]:
        """The items that the source yields."""
        source: Any = self._source
        if hasattr(source, "__iter__") and not _is_class(source):
            return source
        if hasattr(source, "__call__"):  # noqa: B004 (its type is then known)
            return _returned(source)
        return (source[index] for index in range(len(source)))  # a PyTorch Dataset

    def __iter__(self) -> Iterator[Sample]:
        index, batches, taken = -1, Batches(self.rows_a_sample), 0
        for index, item in enumerate(self.items()):
            where = f"data: sample {index}"
            arrays = arrays_of(item, self._ports, where)
            if not index:
                _warn_unread("data", tuple(unread_in(item, arrays, self._ports)), self._names)
            rows = rows_of(arrays, self._ports) if batches.size > 1 else None
            groups = [arrays] if rows is None else batches.add(fit_rows(rows, self._ports, where))
            for group in groups:
                for sample in split(group, self._ports, where):
                    taken += 1
                    yield sample
        if index < 0:
            once = "; an iterator can be read only once: pass a list, or a function that returns an iterator"
            raise DataError(f"{NO_SAMPLES}{once if isinstance(self._source, Iterator) else ''}")
        self.filled = batches.size - batches.rows if self._fill and batches.rows else 0
        if self.filled and (last := batches.rest()) is not None:
            yield from split(last, self._ports, "data: the last samples")
            return
        if not taken:
            raise DataError(_too_few("data", batches.rows, batches.size) if batches.rows else NO_SAMPLES)
        _warn("data", batches.rows, batches.size)


def _is_class(source: object) -> bool:
    """Whether a source is a class. Its `__iter__` is that of its objects, and calling it creates one."""
    return isinstance(source, type)


def _returned(source: Callable[..., Any]) -> Iterable[Any]:
    """The result of a function. Raises DataError for a function with arguments, or with a result without items."""
    try:
        signature(source).bind()
    except TypeError as error:
        raise DataError(f"data: found a function of arguments ({error}), expected one without") from error
    except ValueError:  # some C functions have no signature
        pass
    found = source()
    if not hasattr(found, "__iter__"):
        name = type(found).__name__
        raise DataError(f"data: found a function that returns {name}, expected one that returns an iterable of samples")
    return found


def _too_few(name: str, count: int, batch: int) -> str:
    return f"{name}: found {count} samples, expected {batch} or more: the model takes {batch} at a time"


def _warn(name: str, rest: int, batch: int) -> None:
    """Log that samples were left out."""
    if rest:
        _LOG.warning("%s: left out the last %d samples, because the model takes %d at a time", name, rest, batch)


@cache  # once, because a model may be called with such data many times
def _warn_unread(name: str, found: tuple[str, ...], inputs: tuple[str, ...]) -> None:
    """Log that arrays are not used, because their names may be misspelled."""
    if found:
        _LOG.warning("%s: found %s, which no input reads; the inputs are %s", name, listed(found), listed(inputs))


def shapes_in(source: Any, names: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """The shapes of the arrays for these inputs in a `Source`. Inputs whose shapes cannot be determined are left out.

    The shapes may have a first axis that counts samples. The first item of an iterable is consumed.
    """
    try:
        return {name: shape for name, shape in _shapes(source, names).items() if shape}
    except (Error, OSError, ValueError, TypeError, AttributeError):  # the data is checked once the model is known
        return {}


def _shapes(source: Any, names: Sequence[str]) -> dict[str, tuple[int, ...]]:
    if isinstance(source, Images):
        return dict.fromkeys(names, source.preprocessing.shape)
    if _is_path(source):
        path = Path(source)
        columns = folder_columns(path) if path.is_dir() else npz_columns(path)
    elif isinstance(source, Mapping):
        columns = array_columns(cast("Mapping[str, Any]", source), names)
    elif is_array(source):
        return dict.fromkeys(names[:1], tuple(source.shape))
    else:
        item = next(iter(Stream(source, ()).items()))
        first = cast("Sequence[Any]", item)[0] if isinstance(item, tuple | list) else item
        return {name: tuple(first.shape if is_array(first) else first[name].shape) for name in names}
    return {name: column.shape for name, column in columns.items() if name in names}


def _match(
    columns: Mapping[str, Column], ports: Sequence[Port], name: str, *, any_name: bool
) -> Iterator[tuple[Port, Column | list[Column]]]:
    """For each input, its single array, or the list of its arrays, one per sample."""
    matched = [(port, columns.get(port.name) or _numbered(columns, port, ports, name)) for port in ports]
    # A file is written for a model, so another name in it is a mistake. Data sets have names of their own.
    nameless = {key: column for key, column in columns.items() if any_name or UNNAMED.fullmatch(key)}
    if len(ports) == 1 and not matched[0][1] and (only := _only_fitting(nameless, ports[0])) is not None:
        matched = [(ports[0], only)]
    if any(not found for _, found in matched):
        each = f", or {ports[0].name}_0, {ports[0].name}_1, ... if each is a sample" if len(columns) > 1 else ""
        raise DataError(names_do_not_match(name, columns, ports) + (each if len(ports) == 1 else ""))
    for port, found in matched:
        assert found is not None
        yield port, found


def _only_fitting(columns: Mapping[str, Column], port: Port) -> Column | None:
    """The only array that may hold the samples of an input; None if there is none or several."""
    found: list[Column] = []
    for column in columns.values():
        with suppress(DataError):
            found.append(Fit.of(port, column, "", fill=True).columns[0])
    return found[0] if len(found) == 1 else None


def _numbered(columns: Mapping[str, Column], port: Port, ports: Sequence[Port], name: str) -> list[Column] | None:
    """The arrays NAME_0, NAME_1, ... of an input, or None. Arrays named like another input do not count."""
    others = {other.name for other in ports}
    pattern = re.compile(re.escape(port.name) + r"_(\d+)")
    found = {
        int(match[1]): column
        for key, column in columns.items()
        if key not in others and (match := pattern.fullmatch(key))
    }
    missing = sorted(set(range(len(found))) - set(found))
    if missing:
        highest = f"{port.name}_{max(found)}"
        raise DataError(f"{name}: found no '{port.name}_{missing[0]}' but '{highest}'; expected numbers without gaps")
    return [found[index] for index in range(len(found))] or None
