"""The columns of a kernel table as text: `act i8`, `weight i8<-127:127> zp=0 per_channel axis=0`, `same_scale(0, out)`.

Each parser raises a ValueError that says what was found and expected. `load` adds the row and the column.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

from zeropoint.ir.quant import Storage
from zeropoint.targets.kernels import (
    OUTPUT,
    Custom,
    FixedScale,
    Free,
    MultiplierAccumulatorScale,
    MultiplierScale,
    PortRule,
    QuantFunction,
    Relation,
    Role,
    SameScale,
    port_label,
)

_STORAGE = re.compile(r"(?P<any>\*)?(?P<type>[a-zA-Z0-9]+)(<(?P<low>-?\d+):(?P<high>-?\d+)>)?")
_FIXED = re.compile(r"fixed_scale\([^(),]+,[^()]+\)")
_PARTS = re.compile(r"\w+\([^()]*\)")
_CALL = re.compile(r"(?P<name>\w+)(\((?P<arguments>.*)\))?")
PORT_FORM = (
    "'ROLE STORAGE [zp=N] [per_channel] [blocks] [axis=N] [bits=8|16]', as in 'weight i8<-127:127> zp=0 per_channel'"
)
FLAGS = ("per_channel", "blocks")
"""Options without a value."""
RELATIONS = (
    "free, multiplier_scale, same_scale, same_scale(0, out), "
    "fixed_scale(1/256, -128), fixed_scale(1/256, -128, 0, out), fixed_scale(1/64, 0, 0), fixed_scale(1/32, 0, out), "
    "multiplier_accumulator_scale, python:FILE.py:FUNCTION"
)

FunctionLoader = Callable[[str], QuantFunction]
"""Returns the function for `FILE.py:FUNCTION`."""


def parse_storage(text: str) -> tuple[Storage, bool]:
    """Parse `i8`, `i8<-127:127>`, or `*i8` (any storage, default i8). Returns the storage, and whether it is a
    wildcard."""
    match = _STORAGE.fullmatch(text)
    if match is None:
        raise ValueError(f"found storage '{text}', expected one such as i8, u8, i8<-127:127>, or *i8 for any")
    bounds = [None if match[key] is None else int(match[key]) for key in ("low", "high")]
    storage = Storage.of(match["type"], *bounds)
    low, high = storage.range
    if not low <= storage.minimum < storage.maximum <= high:
        raise ValueError(f"found storage '{text}', expected bounds in order and inside {low}:{high}")
    return storage, match["any"] is not None


def parse_port(text: str) -> PortRule:
    """Parse a port: `ROLE STORAGE` and options (see `PORT_FORM`)."""
    words = text.split()
    roles = {role.value: role for role in Role}
    if not words or words[0] not in roles:
        raise ValueError(f"found port '{text}', expected {PORT_FORM} with a role of {', '.join(roles)}")
    role = roles[words[0]]
    if role is Role.OTHER:
        if len(words) > 1:
            raise ValueError(f"found port '{text}', expected 'other' alone: it is not quantized")
        return PortRule(role, Storage.of("i32"))
    if len(words) < 2:
        raise ValueError(f"found port '{text}' without storage, expected {PORT_FORM}")
    storage, wildcard = parse_storage(words[1])
    options: dict[str, str] = {}
    for word in words[2:]:
        key, _, value = word.partition("=")
        if key not in ("zp", *FLAGS, "axis", "bits") or (key in FLAGS) != (value == "") or key in options:
            raise ValueError(f"found '{word}' in port '{text}', expected {PORT_FORM}")
        options[key] = value
    return _port(text, role, storage, wildcard, options)


def _port(text: str, role: Role, storage: Storage, wildcard: bool, options: dict[str, str]) -> PortRule:
    try:
        zero_point = int(options["zp"]) if "zp" in options else None
        axis = int(options["axis"]) if "axis" in options else None
        bits = tuple(int(width) for width in options["bits"].split("|")) if "bits" in options else ()
    except ValueError as error:
        raise ValueError(f"found port '{text}', expected whole numbers in zp, axis and bits") from error
    if zero_point is not None and not storage.minimum <= zero_point <= storage.maximum:
        raise ValueError(f"found zero point {zero_point} in port '{text}', expected one inside {storage}")
    if bits and not wildcard:
        raise ValueError(f"found bits in port '{text}', expected them only with any storage, such as '*i8 bits=8|16'")
    if bits and (storage.type.width not in bits or not all(1 <= width <= 32 for width in bits)):
        raise ValueError(f"found widths {bits} in port '{text}', expected 1 to 32, including that of the default")
    per_channel = "per_channel" in options
    if (per_channel or axis is not None) and role not in (Role.WEIGHT, Role.BIAS):
        raise ValueError(f"found per-channel parameters in port '{text}', expected them for weights and biases only")
    if "blocks" in options and role is not Role.WEIGHT:
        raise ValueError(f"found blocks in port '{text}', expected them for weights only")
    return PortRule(role, storage, zero_point, per_channel, axis, wildcard, bits, "blocks" in options)


def parse_relation(text: str, load_function: FunctionLoader) -> Relation:
    """Parse a relation, one of `RELATIONS`."""
    if text.startswith("python:"):
        return Custom(load_function(text.removeprefix("python:")), text)
    match = _CALL.fullmatch(text.replace(" ", ""))
    name, arguments = (None, None) if match is None else (match["name"], match["arguments"])
    parts = [] if not arguments else arguments.split(",")
    plain: dict[str | None, Relation] = {
        "free": Free(),
        "multiplier_scale": MultiplierScale(),
        "multiplier_accumulator_scale": MultiplierAccumulatorScale(),
    }
    if name in plain and not parts:
        return plain[name]
    if name == "same_scale" and "(" not in (arguments or ""):
        return SameScale(tuple(_port_index(part) for part in parts))
    calls = _PARTS.findall(text.replace(" ", ""))
    fixed = [call for call in calls if _FIXED.fullmatch(call)]
    ties = [call for call in calls if call.startswith("same_scale(")]
    if fixed and len(fixed) + len(ties) == len(calls) and len(ties) < 2 and ",".join(calls) == text.replace(" ", ""):
        first, *others = map(_fixed_scale, fixed)
        made = replace(first, others=tuple(others))
        group = [part for tie in ties for part in tie.removeprefix("same_scale(").removesuffix(")").split(",")]
        return SameScale(tuple(map(_port_index, group)), made) if ties else made
    raise ValueError(
        f"found relation '{text}', expected one of: {RELATIONS}; fixed_scale may be repeated, and combined with "
        f"one same_scale(PORTS) of other ports"
    )


def _fixed_scale(text: str) -> FixedScale:
    """Parse `fixed_scale(SCALE, ZERO_POINT, PORTS...)`, without spaces."""
    scale, zero_point, *ports = text.removeprefix("fixed_scale(").removesuffix(")").split(",")
    return FixedScale(_number(scale), _whole(zero_point), tuple(map(_port_index, ports)) or (OUTPUT,))


def _port_index(text: str) -> int:
    """The index of a port: `0` is the first operand, `out` the first result, `out1` the second."""
    match = re.fullmatch(r"out(\d*)", text)
    return _whole(text) if match is None else ~int(match[1] or 0)


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise ValueError(f"found '{text}', expected a whole number") from error


def _number(text: str) -> float:
    try:
        return float(Fraction(text))
    except (ValueError, ZeroDivisionError) as error:
        raise ValueError(f"found scale '{text}', expected a number such as 0.5 or 1/256") from error


def port_text(rule: PortRule) -> str:
    """A port in the table's syntax."""
    if rule.role is Role.OTHER:
        return rule.role.value
    words = [rule.role.value, f"{'*' if rule.wildcard else ''}{rule.storage}"]
    if rule.zero_point is not None:
        words.append(f"zp={rule.zero_point}")
    if rule.per_channel:
        words.append("per_channel")
    if rule.blocks:
        words.append("blocks")
    if rule.axis is not None:
        words.append(f"axis={rule.axis}")
    if rule.bits:
        words.append(f"bits={'|'.join(map(str, rule.bits))}")
    return " ".join(words)


def relation_text(relation: Relation) -> str:
    """A relation in the table's syntax."""
    match relation:
        case FixedScale():
            return ", ".join(map(_fixed_text, relation.parts))
        case SameScale(group, fixed):
            same = f"same_scale({_ports_text(group)})" if group else "same_scale"
            return same if fixed is None else f"{same}, {relation_text(fixed)}"
        case MultiplierScale():
            return "multiplier_scale"
        case MultiplierAccumulatorScale():
            return "multiplier_accumulator_scale"
        case Custom(_, name):
            return name
        case Free():
            return "free"


def _fixed_text(relation: FixedScale) -> str:
    listed = "" if relation.ports == (OUTPUT,) else f", {_ports_text(relation.ports)}"
    return f"fixed_scale({Fraction(relation.scale).limit_denominator(1 << 20)}, {relation.zero_point}{listed})"


def _ports_text(ports: tuple[int, ...]) -> str:
    return ", ".join(map(port_label, ports))
