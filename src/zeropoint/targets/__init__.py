"""Targets and their kernel tables.

Each built-in table is a file in `tables/`. It is loaded on first use, by the same reader as a user's table.
"""

from functools import cache
from pathlib import Path

from zeropoint.targets.checks import TargetError, check_target
from zeropoint.targets.kernels import (
    DATA,
    OUTPUT,
    Custom,
    FixedScale,
    Free,
    KernelRow,
    MultiplierAccumulatorScale,
    MultiplierScale,
    PortRule,
    QuantFunction,
    Relation,
    Role,
    SameScale,
    Target,
)
from zeropoint.targets.load import load_target
from zeropoint.targets.signature import NIBBLE, AtLeast, Demand, EitherSign, KernelSignature, in_four_bits, widest
from zeropoint.targets.text import port_text, relation_text

__all__ = [
    "DATA",
    "NIBBLE",
    "OUTPUT",
    "TARGETS",
    "AtLeast",
    "Custom",
    "Demand",
    "EitherSign",
    "FixedScale",
    "Free",
    "KernelRow",
    "KernelSignature",
    "MultiplierAccumulatorScale",
    "MultiplierScale",
    "PortRule",
    "QuantFunction",
    "Relation",
    "Role",
    "SameScale",
    "Target",
    "TargetError",
    "check_target",
    "in_four_bits",
    "named_in_file",
    "port_text",
    "relation_text",
    "target",
    "widest",
]

TARGETS = (
    "cpu",
    "cpu-integer",
    "cpu-wide",
    "litert",
    "litert-16x8",
    "onnxruntime",
    "onnxruntime-vnni",
    "openvino",
    "openvino-vnni",
    "shift_only",
    "stablehlo",
    "tosa",
)
"""The names of the built-in targets."""

_TABLES = Path(__file__).parent / "tables"


@cache
def _built_in(name: str) -> Target:
    return load_target(_TABLES / f"{name}.toml", target)


def target(name: str) -> Target:
    """A built-in target by name, or the target in a user's `.toml` or `.py` file.

    Python in such a file, or in a file that its table references, is executed.

    Raises TargetError, a ValueError, which names the available targets, or the row and column of an invalid table.
    """
    if name in TARGETS:
        return _built_in(name)
    if not name.endswith((".toml", ".py")):
        raise TargetError(f"found target '{name}', expected one of: {', '.join(TARGETS)}; or a .toml or .py file")
    try:
        return load_target(Path(name), target)
    except OSError as error:
        raise TargetError(f"{name}: {error.strerror}, expected a file with a kernel table") from error


def named_in_file(name: str, table: str | None = None) -> str:
    """The target that a model or an exported file states by its name. `table` is the file that the user named for it.

    Only the user may name a table's file, because its Python is executed. Raises TargetError for a target that is not
    built in without a table, or with that of another target, and for a built-in target with a table.
    """
    if table is not None:
        if name in TARGETS:
            raise TargetError(
                f"found the table {table} (--target) for a program of built-in target {name}, where it changes "
                f"nothing; leave it out"
            )
        if (found := target(table).name) != name:
            raise TargetError(f"{table}: found target '{found}', expected '{name}', which the program was made for")
        return table
    if name not in TARGETS:
        raise TargetError(
            f"found target '{name}' in a file, expected one of: {', '.join(TARGETS)}; your own table must "
            "be named with --target TABLE"
        )
    return name
