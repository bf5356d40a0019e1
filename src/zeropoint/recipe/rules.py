"""The rules of a recipe: what they select, what they set, and which values they accept.

Source: the RFC on quantization transformations, "Model Constraints": the user's constraints on tensors are part of the
program before propagation. `!quant.none` keeps a tensor float, `!quant.any` demands a bit width.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf

from xdsl.dialects.builtin import AnyFloat

from zeropoint.errors import Error
from zeropoint.ir.annotations import PER_ROW, Fact
from zeropoint.ir.floats import float_format
from zeropoint.recipe.expressions import InvalidExpression, NamePattern


class RecipeError(Error, ValueError):
    """A recipe cannot be read or does not fit the model. The message names the rule and the key."""


@dataclass(frozen=True)
class Subgraph:
    """All ops on paths from a `first` name to a `last` name, both included."""

    first: tuple[str, ...]
    last: tuple[str, ...]

    def __str__(self) -> str:
        return f"from {', '.join(self.first)} to {', '.join(self.last)}"


Pattern = str | NamePattern | Subgraph


@dataclass(frozen=True)
class Rule:
    """One rule: `selector` is `name`, `regex`, `op` or `subgraph`; `settings` maps keys to values as text."""

    where: str
    selector: str
    pattern: Pattern
    settings: Mapping[str, str]

    def __str__(self) -> str:
        return f"{self.where} ({self.selector} '{self.pattern}')"

    def names(self, name: str) -> bool:
        """Whether the rule selects by name or regex, and selects this name."""
        pattern = self.pattern
        if isinstance(pattern, NamePattern):
            return pattern.matches(name)
        return self.selector == "name" and pattern == name

    def facts(self) -> list[Fact]:
        """The settings of the rule, as facts with salience `user`."""
        return [Fact(name, value, "user", str(self)) for name, value in self.settings.items()]


@dataclass(frozen=True)
class RecipeRules:
    """Rules in order; later rules override earlier ones."""

    name: str
    rules: tuple[Rule, ...]


def _name(found: object) -> str | None:
    return found if isinstance(found, str) and found else None


def _regex(found: object) -> NamePattern | None:
    try:
        return NamePattern(found) if isinstance(found, str) and found else None
    except InvalidExpression:
        return None


def _names(found: object) -> tuple[str, ...] | None:
    listed = found if isinstance(found, list) else [found]  # pyright: ignore[reportUnknownVariableType] (what YAML gave)
    names = tuple(name for name in listed if isinstance(name, str) and name)  # pyright: ignore[reportUnknownVariableType] (what YAML gave)
    return names if names and len(names) == len(listed) else None  # pyright: ignore[reportUnknownArgumentType] (what YAML gave)


def _subgraph(found: object) -> Subgraph | None:
    if not isinstance(found, dict) or set(found) != {"from", "to"}:  # pyright: ignore[reportUnknownArgumentType] (what YAML gave)
        return None
    first, last = _names(found["from"]), _names(found["to"])  # pyright: ignore[reportUnknownArgumentType] (what YAML gave)
    return Subgraph(first, last) if first and last else None


def _boolean(found: object) -> str | None:
    return str(found).lower() if isinstance(found, bool) else None


def _bits(found: object) -> str | None:
    return str(found) if isinstance(found, int) and not isinstance(found, bool) and 2 <= found <= 32 else None


def _weight_bits(found: object) -> str | None:
    return str(found) if isinstance(found, int) and found in (4, 8) else None


def _block_size(found: object) -> str | None:
    return str(found) if isinstance(found, int) and not isinstance(found, bool) and found >= 2 else None


def _granularity(found: object) -> str | None:
    return found if isinstance(found, str) and found in ("per_channel", "per_tensor") else None


def _activation_scales(found: object) -> str | None:
    return found if isinstance(found, str) and found in (PER_ROW, "per_tensor") else None


def _activations(found: object) -> str | None:
    return found if isinstance(found, str) and found in ("float", "quantized") else None


@dataclass(frozen=True)
class Key:
    """A key of a rule: a description of its values for messages, and a reader that returns None for invalid values."""

    expected: str
    read: Callable[[object], Pattern | None]


def _number(found: object) -> float | None:
    """A number; None for anything else. Text such as `1e-9` is accepted, because YAML 1.1 reads it as a string."""
    if isinstance(found, str) and _EXPONENT.fullmatch(found):
        return float(found)
    return float(found) if isinstance(found, int | float) and not isinstance(found, bool) else None


_EXPONENT = re.compile(r"[-+]?\d+[eE][-+]?\d+")


def _range(found: object) -> str | None:
    """Two numbers in ascending order, as text that represents them exactly; None otherwise."""
    listed = [_number(end) for end in found] if isinstance(found, list) else []  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] (what YAML gave)
    low, high = listed if len(listed) == 2 else (None, None)
    if low is None or high is None or not -inf < low < high < inf:
        return None
    return f"{low!r}, {high!r}"


def _scale(found: object) -> str | None:
    """A number above 0 or a list of them, as text that represents them exactly; None for anything else."""
    listed = found if isinstance(found, list) else [found]  # pyright: ignore[reportUnknownVariableType] (what YAML gave)
    numbers = [_number(scale) for scale in listed]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] (what YAML gave)
    valid = [number for number in numbers if number is not None and 0 < number < inf]
    return ", ".join(map(repr, valid)) if valid and len(valid) == len(numbers) else None


def numbers_of(text: str) -> list[float]:
    """The numbers of a range or of scales."""
    return [float(part) for part in text.split(",")]


def check_numbers(demands: Mapping[str, Fact], element: AnyFloat) -> None:
    """Raise RecipeError for a range or a scale that the element type of the tensor does not hold."""
    held = float_format(element)
    for name in {"range", "scale"} & demands.keys():
        least = held.smallest if name == "scale" else -held.largest
        for number in numbers_of(demands[name].value):
            if not least <= number <= held.largest:
                raise RecipeError(
                    f"{demands[name].source}: key '{name}': found {number:g}, expected from {least:g} to "
                    f"{held.largest:g}, the numbers of {element}"
                )


def _zero_point(found: object) -> str | None:
    return str(found) if isinstance(found, int) and not isinstance(found, bool) else None


SELECTORS: Mapping[str, Key] = {
    "name": Key("the name of an op in the model", _name),
    "regex": Key("an RE2 regular expression that matches whole names (no lookaround, no back references)", _regex),
    "op": Key("a kind of op: a kernel such as 'convolution', or an op such as 'stablehlo.add'", _name),
    "subgraph": Key("{from: NAME, to: NAME}, each a name or a list of names", _subgraph),
}
"""Keys that select what a rule applies to. Each rule has exactly one."""

SETTINGS: Mapping[str, Key] = {
    "bits": Key("an integer from 2 to 32, the minimum storage width of the output", _bits),
    "granularity": Key("per_channel or per_tensor, of the weights", _granularity),
    "weight_bits": Key("4 or 8, the storage width of the weights", _weight_bits),
    "block_size": Key("an integer of at least 2, the number of terms of a channel that share a scale", _block_size),
    "activations": Key("float, with only the weights stored in 8 bits or in weight_bits, or quantized", _activations),
    "activation_scales": Key("per_row or per_tensor, of 16-bit activations", _activation_scales),
    "weight_symmetric": Key("true or false; false gives zero points to weights beside float activations", _boolean),
    "symmetric": Key("true or false; true makes the output's zero point 0", _boolean),
    "observer": Key("an observer of the output, such as mse, minmax, output, entropy or percentile:99.9", _name),
    "range": Key("[LEAST, GREATEST], the range of real values of the output", _range),
    "scale": Key("a number above 0, the scale of the output; for a weight also a list, one per channel", _scale),
    "zero_point": Key("an integer, the zero point of the output, together with scale", _zero_point),
    "quantize": Key("true or false; false keeps the ops in float", _boolean),
}
"""Keys that a rule sets. Each rule has at least one."""
OF_TENSORS = ("range", "scale", "zero_point")
"""Settings that also apply to inputs of the model, and to its weights and other constants."""
OF_STORED_OUTPUTS = ("bits", "symmetric", *OF_TENSORS)
"""Settings of a kernel's output that have no effect if it is float. `observer` is not one: integer kernels may read the
float output."""
