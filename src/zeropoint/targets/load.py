"""Load kernel tables from files: TOML, or Python that defines a `Target`.

A TOML table has a name, a profile, and one `[[kernel]]` per row. Optional keys:

- `extends`: append the rows of another target. `checked` replaces the column of this name, `bits = [8]` restricts
  wildcards (`*u8`) to storage of these widths, and `without` lists kernels whose rows are left out.
- `prefer = 16`: move rows whose output has this number of bits to the front.
- `real_results = true`: contractions can return floats.
- `adds_words = true`: a sum can add the 16-bit result of a contraction to 8 bits.
- `unrounded_results = ["fully_connected"]`: these contractions can return floats, where a function needs it.
- `unquantized_results = ["fully_connected"]`: these are integer kernels where a quantized file leaves the result float.
- `cast_kernels = ["subtract"]`: these are integer kernels where operands and result have types in any case.
- `joins_functions = true`: a contraction of a quantized file computes a function of its result before the cast, and a
  convolution also one of a residual sum.
- `channel_scales = true`: activations of a quantized file may have a scale per channel (`materialize/cast_kernels.py`).
- `between_casts = true`: the runtime makes integer kernels of ops between casts.
- `fuses_products = true`: the runtime's float ops do not round products before sums, and multiply by inverses.
- `real_biases = true`: integer kernels add biases as real numbers.
- `least_sqnr = 20`: minimum SQNR in dB of a function's result when its operand is rounded.
- `bounds = [[0, inf], [0, 6]]`: clamp bounds that kernels absorb after a sum or product (`"any"`: all).

Python in a target is executed with the user's rights. Only the user can name a target (`--target`, an option of a pass,
an argument of a function); a model cannot. A table can only name files in its own folder.
"""

from __future__ import annotations

import re
import runpy
import tomllib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar, cast

from zeropoint.errors import check_regular, reading, running_foreign
from zeropoint.numerics.ranges import SCALE_TYPES
from zeropoint.targets.checks import TargetError, cell_name, check_target
from zeropoint.targets.kernels import KernelRow, PortRule, QuantFunction, Relation, Target
from zeropoint.targets.logical_kernels import BINARY, CONTRACTIONS
from zeropoint.targets.text import parse_port, parse_relation

FLAGS = (
    "real_results",
    "adds_words",
    "between_casts",
    "fuses_products",
    "real_biases",
    "channel_scales",
    "joins_functions",
)
LISTS: Mapping[str, Collection[str]] = {
    "unrounded_results": CONTRACTIONS,
    "unquantized_results": CONTRACTIONS,
    "cast_kernels": BINARY,
}
"""Keys that list kernels, with those that they may list."""
KEYS = (
    "name",
    "profile",
    "description",
    "extends",
    "prefer",
    *FLAGS,
    *LISTS,
    "least_sqnr",
    "scale_type",
    "bounds",
    "bits",
    "checked",
    "without",
    "kernel",
)
COLUMNS = (
    "name",
    "inputs",
    "output",
    "outputs",
    "relation",
    "accumulator",
    "pair_accumulator",
    "steps_per_term",
    "segments",
    "nonzero",
    "activation_scales",
    "recurrent",
    "pinned",
    "intermediate",
    "same_storage",
    "profile",
    "checked",
    "composites",
)
REQUIRED = ("name", "inputs", "relation")

MOST_PARTS = 16
_LONG_KEY = re.compile(rf"(?<![\w-])(?:(?:[\w-]+|\"[^\"\n]*\"|'[^'\n]*')[ \t]*\.[ \t]*){{{MOST_PARTS}}}")
"""Matches keys such as `a.b.c`, which tomllib reads in time quadratic in the number of parts."""

ValueT = TypeVar("ValueT")
Extends = Callable[[str], Target]
"""Returns a target by name."""


def load_target(path: Path, extends: Extends) -> Target:
    """The target in a `.toml` or `.py` file.

    Raises TargetError, naming file, row and column, for an invalid table. Passes on OSError if the file cannot be read.
    """
    if path.suffix == ".toml":
        with reading(path, TargetError):
            return read_table(_parsed(path), path, extends)
    if path.suffix == ".py":
        check_regular(path, TargetError)
        return _from_python(path)
    raise TargetError(f"{path}: found suffix '{path.suffix}', expected .toml or .py")


def _parsed(path: Path) -> Mapping[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
        if (found := _LONG_KEY.search(text)) is not None:
            line = text.count("\n", 0, found.start()) + 1
            raise TargetError(
                f"{path}:{line}: found a key of more than {MOST_PARTS} parts, expected a name of a column"
            )
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise TargetError(f"{path}: found text that is not TOML: {error}") from error


def _executed(path: Path) -> Mapping[str, Any]:
    if not path.is_file():
        path.open().close()  # raises the system's error
    with running_foreign(lambda what: TargetError(f"{path}: found Python that fails: {what}")):
        return runpy.run_path(str(path))


def _from_python(path: Path) -> Target:
    target = _executed(path).get("TARGET")
    if not isinstance(target, Target):
        raise TargetError(f"{path}: found no TARGET, expected a zeropoint.targets.Target of that name")
    return check_target(target)


def _beside(path: Path, name: str) -> Path:
    """The file that a table names. Raises ValueError if it is outside the table's folder."""
    folder = path.parent.resolve()
    found = (folder / name).resolve()
    if not found.is_relative_to(folder):
        raise ValueError(f"found file '{name}', expected one in the folder of {path.name}, the only trusted folder")
    return found


def _base(path: Path, name: str, extends: Extends) -> Target:
    """The target that a table extends: a built-in one, or a file in the same folder."""
    if not name.endswith((".toml", ".py")):
        return extends(name)
    try:
        return extends(str(_beside(path, name)))
    except ValueError as error:
        raise TargetError(f"{path}: extends: {error}") from error


def _function(path: Path, text: str) -> QuantFunction:
    """The function `FILE.py:NAME`, from a file in the table's folder."""
    file, _, name = text.rpartition(":")
    source = _beside(path, file)
    if not file or source.suffix != ".py" or not source.is_file():
        raise ValueError(f"found function '{text}', expected FILE.py:FUNCTION with a file beside {path.name}")
    function = _executed(source).get(name)
    if not callable(function):
        raise ValueError(f"found no function '{name}' in {source}, expected one that takes (inputs, outputs)")
    return cast("QuantFunction", function)


def read_table(table: Mapping[str, Any], path: Path, extends: Extends) -> Target:
    """The target that a TOML table describes. Raises TargetError like `load_target`."""
    unknown = [key for key in table if key not in KEYS]
    if unknown:
        raise TargetError(f"{path}: found key '{unknown[0]}', expected: {', '.join(KEYS)}")
    name = _text(table, "name", path)
    base = _base(path, _text(table, "extends", path), extends) if "extends" in table else None
    profile = _text(table, "profile", path) if base is None or "profile" in table else base.profile
    entries: object = table.get("kernel", [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in cast("list[object]", entries)):
        raise TargetError(f"{path}: found a 'kernel' that is not a list of tables, expected [[kernel]] for each row")
    tables = cast("list[Mapping[str, object]]", entries)
    rows = [row for number, entry in enumerate(tables, 1) for row in _rows(_Entry(entry, number, name, path))]
    if base is not None:
        rows += _appended(base, table, path)
    if "prefer" in table:
        rows.sort(key=lambda row: row.output.storage.type.width != table["prefer"])
    flags: dict[str, Any] = {key: _flag(table, key, base is not None and getattr(base, key), path) for key in FLAGS}
    least = table.get("least_sqnr", base.least_sqnr if base is not None else 0)
    if not isinstance(least, int | float) or isinstance(least, bool):
        raise TargetError(f"{path}: found least_sqnr = {least!r}, expected a number of dB")
    kept = table.get("scale_type", base.scale_type if base is not None else "f64")
    if kept not in SCALE_TYPES:
        raise TargetError(f"{path}: found scale_type = {kept!r}, expected one of: {', '.join(SCALE_TYPES)}")
    bounds = _bounds(table["bounds"], path) if "bounds" in table else base.bounds if base is not None else None
    description = str(table.get("description", ""))
    lists = {key: _kernels(table, key, base, path) for key in LISTS}
    return check_target(
        Target(
            name,
            profile,
            tuple(rows),
            description,
            least_sqnr=float(least),
            scale_type=kept,
            bounds=bounds,
            **lists,
            **flags,
        )
    )


def _flag(table: Mapping[str, Any], key: str, default: bool, path: Path) -> bool:
    found = table.get(key, default)
    if not isinstance(found, bool):
        raise TargetError(f"{path}: found {key} = {found!r}, expected true or false")
    return found


def _kernels(table: Mapping[str, Any], key: str, base: Target | None, path: Path) -> frozenset[str]:
    """The kernels that a key of the table lists; by default those of the target that it extends."""
    if key not in table:
        return frozenset() if base is None else getattr(base, key)
    found = table[key]
    if not isinstance(found, list) or not all(name in LISTS[key] for name in cast("list[object]", found)):
        raise TargetError(f"{path}: found {key} = {found!r}, expected a list of: {', '.join(LISTS[key])}")
    return frozenset(cast("list[str]", found))


def _appended(base: Target, table: Mapping[str, Any], path: Path) -> list[KernelRow]:
    """The rows of the target that a table extends, changed by its `without`, `bits` and `checked`."""
    without = _without(base, table, path)
    rows = [row for row in base.rows if row.kernel not in without]
    if "checked" in table:
        rows = [replace(row, checked=_text(table, "checked", path)) for row in rows]
    if "bits" not in table:
        return rows
    found = table["bits"]
    if (
        not isinstance(found, list)
        or not found
        or any(width not in (8, 16, 32) for width in cast("list[object]", found))
    ):
        raise TargetError(f"{path}: found bits = {found!r}, expected a list of 8, 16 or 32")
    widths = cast("list[int]", found)
    return [kept for row in rows if (kept := _within(row, widths)) is not None]


def _without(base: Target, table: Mapping[str, Any], path: Path) -> set[str]:
    """The kernels of the extended target that the table leaves out."""
    found = table.get("without", [])
    kernels = {row.kernel for row in base.rows}
    if not isinstance(found, list) or not all(name in kernels for name in cast("list[object]", found)):
        raise TargetError(f"{path}: found without = {found!r}, expected a list of kernels of the target '{base.name}'")
    return set(cast("list[str]", found))


def _within(row: KernelRow, widths: Sequence[int]) -> KernelRow | None:
    """The row with its wildcards restricted to some widths; None if a wildcard has none of these."""
    rules = (*row.inputs, *row.outputs)
    kept = [
        replace(rule, bits=tuple(w for w in rule.widths if w in widths)) if rule.wildcard else rule for rule in rules
    ]
    if any(rule.wildcard and not rule.bits for rule in kept):
        return None
    split = len(row.inputs)
    return replace(row, inputs=tuple(kept[:split]), output=kept[split], more_outputs=tuple(kept[split + 1 :]))


def _bounds(found: object, path: Path) -> frozenset[tuple[float, float]] | None:
    """Pairs of a lower and an upper bound; None for `any`."""
    if found == "any":
        return None
    pairs: set[tuple[float, float]] = set()
    for pair in cast("list[object]", found) if isinstance(found, list) else [found]:
        numbers = cast("list[object]", pair) if isinstance(pair, list) else []
        if len(numbers) != 2 or not all(isinstance(n, int | float) and not isinstance(n, bool) for n in numbers):
            raise TargetError(f"{path}: found bounds {pair!r}, expected 'any' or a list of pairs as [[0, inf], [0, 6]]")
        low, high = cast("list[float]", numbers)
        pairs.add((float(low), float(high)))
    return frozenset(pairs)


def _text(table: Mapping[str, Any], key: str, path: Path) -> str:
    found = table.get(key)
    if not isinstance(found, str) or not found:
        raise TargetError(f"{path}: found {key} = {found!r}, expected a string")
    return found


@dataclass(frozen=True)
class _Entry:
    """One `[[kernel]]` entry, with its position for messages."""

    columns: Mapping[str, object]
    number: int
    target: str
    path: Path

    @property
    def kernels(self) -> list[str]:
        """The logical kernels that the row is for."""
        found = self.columns.get("name", [])
        return self.texts("name") if isinstance(found, list) else [self.text("name")]

    def wrong(self, column: str, sentence: str) -> TargetError:
        """An error for a column."""
        found = self.columns.get("name", "")
        kernel = "|".join(map(str, cast("list[object]", found))) if isinstance(found, list) else str(found)
        return TargetError(f"{cell_name(self.target, self.number, kernel, column)}: {sentence}")

    def of_type(self, column: str, kind: type[ValueT], expected: str, default: ValueT | None = None) -> ValueT:
        """The value of a column. Raises TargetError if it is not of type `kind`."""
        value = self.columns.get(column, default)
        if not isinstance(value, kind) or isinstance(value, bool) != (kind is bool):
            raise self.wrong(column, f"found {value!r}, expected {expected}")
        return value

    @property
    def outputs(self) -> tuple[PortRule, ...]:
        """The rules of the results, from `output` or from the list `outputs`."""
        if ("output" in self.columns) == ("outputs" in self.columns):
            found = "it beside 'output'" if "outputs" in self.columns else "nothing"
            raise self.wrong("outputs", f"found {found}, expected 'output', or a list 'outputs' for several results")
        if "output" in self.columns:
            return (self.read("output", self.text("output"), parse_port),)
        rules = tuple(self.read("outputs", text, parse_port) for text in self.texts("outputs"))
        if not rules:
            raise self.wrong("outputs", "found [], expected at least one port")
        return rules

    def text(self, column: str, default: str | None = None) -> str:
        """A string."""
        return self.of_type(column, str, "a string", default)

    def texts(self, column: str) -> list[str]:
        """A list of strings."""
        found = cast("list[object]", self.of_type(column, list, "a list of strings"))
        for item in found:
            if not isinstance(item, str) or not item:
                raise self.wrong(column, f"found {item!r}, expected a string")
        return cast("list[str]", found)

    def read(self, column: str, text: str, reader: Callable[[str], ValueT]) -> ValueT:
        """The result of `reader` for a text. Its ValueError becomes a TargetError for the column."""
        try:
            return reader(text)
        except ValueError as error:
            raise self.wrong(column, str(error)) from error

    def relation(self, text: str) -> Relation:
        """The relation. If it is a function, the function is loaded."""
        return parse_relation(text, lambda function: _function(self.path, function))


def _rows(entry: _Entry) -> list[KernelRow]:
    """One row for each kernel name of an entry."""
    for key in entry.columns:
        if key not in COLUMNS:
            raise entry.wrong(key, f"found it, expected: {', '.join(COLUMNS)}")
    for key in REQUIRED:
        if key not in entry.columns:
            raise entry.wrong(key, "found nothing, expected a value")
    if not entry.kernels:
        raise entry.wrong("name", "found [], expected a name or a list of them")
    row = KernelRow(
        "",
        tuple(entry.read("inputs", text, parse_port) for text in entry.texts("inputs")),
        entry.outputs[0],
        entry.read("relation", entry.text("relation"), entry.relation),
        entry.of_type("accumulator", int, "a whole number") if "accumulator" in entry.columns else None,
        entry.of_type("pair_accumulator", int, "a whole number") if "pair_accumulator" in entry.columns else None,
        entry.text("intermediate", ""),
        entry.of_type("same_storage", bool, "true or false", False),
        entry.text("profile", ""),
        entry.text("checked", ""),
        tuple(entry.texts("composites")) if "composites" in entry.columns else None,
        entry.outputs[1:],
        entry.of_type("steps_per_term", int, "a whole number") if "steps_per_term" in entry.columns else None,
        entry.of_type("segments", int, "a whole number") if "segments" in entry.columns else None,
        entry.of_type("nonzero", int, "a whole number") if "nonzero" in entry.columns else None,
        entry.text("activation_scales", ""),
        entry.of_type("recurrent", bool, "true or false", False),
        entry.of_type("pinned", bool, "true or false", False),
    )
    return [replace(row, kernel=kernel) for kernel in entry.kernels]
