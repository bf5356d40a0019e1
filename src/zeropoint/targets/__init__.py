"""Kernel tables of targets, and the list of them.

Each built-in table is a file of `tables/`, read when it is first asked for, by the reader that reads a user's table.
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
from zeropoint.targets.signature import AtLeast, Demand, EitherSign, Signature
from zeropoint.targets.text import port_text, relation_text

__all__ = [
    "DATA",
    "OUTPUT",
    "TARGETS",
    "AtLeast",
    "Custom",
    "Demand",
    "EitherSign",
    "FixedScale",
    "Free",
    "KernelRow",
    "MultiplierAccumulatorScale",
    "MultiplierScale",
    "PortRule",
    "QuantFunction",
    "Relation",
    "Role",
    "SameScale",
    "Signature",
    "Target",
    "TargetError",
    "check_target",
    "port_text",
    "relation_text",
    "target",
]

TARGETS = ("cpu", "litert", "litert-16x8", "onnxruntime", "openvino", "shift_only", "stablehlo", "tosa")
"""The names of the built-in targets."""

_TABLES = Path(__file__).parent / "tables"


@cache
def _built_in(name: str) -> Target:
    return load_target(_TABLES / f"{name}.toml", target)


def target(name: str) -> Target:
    """A built-in target by its name, or the one in the user's `.toml` or `.py` file of that path.

    Python in a file, or named in its table, is run.

    Raises TargetError, a ValueError, naming the targets there are; or row and column of a bad table.
    """
    if name in TARGETS:
        return _built_in(name)
    if not name.endswith((".toml", ".py")):
        raise TargetError(f"found target '{name}', expected one of: {', '.join(TARGETS)}; or a .toml or .py file")
    try:
        return load_target(Path(name), target)
    except OSError as error:
        raise TargetError(f"{name}: {error.strerror}, expected a file with a kernel table") from error
