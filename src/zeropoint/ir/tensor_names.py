"""Names of tensors in the original model, where the op that computes them has another name.

An op carries the name of its node; viewers such as Netron show the names of tensors, too. Exporters derive one from the
other by a rule (`REGULAR`); only names that follow none are stored in the program.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr

from zeropoint.ir.annotations import TENSORS
from zeropoint.ir.locations import location_text

REGULAR: Mapping[str, re.Pattern[str]] = {
    "PyTorch": re.compile(r"(?P<op>.+)_output_\d+"),
    "tf2onnx": re.compile(r"(?P<op>.+):\d+"),
}
"""By exporter: the name of a tensor, with that of the op that computes it."""


def state_tensor_names(module: ModuleOp, ops: Mapping[str, str]) -> None:
    """Record the ops of tensors, by the names of both, if the module has the op and no rule gives its name."""
    present = {location_text(op.location) for op in module.walk()}
    pairs = [
        ArrayAttr([StringAttr(tensor), StringAttr(op)])
        for tensor, op in ops.items()
        if op in present and tensor not in present and op not in _by_rule(tensor)
    ]
    if pairs:
        module.attributes[TENSORS] = ArrayAttr(pairs)


def ops_of_tensor(module: ModuleOp, tensor: str) -> tuple[str, ...]:
    """The possible names of the op that computes a tensor: the stored one, or those that rules give."""
    stored = module.attributes.get(TENSORS)
    for pair in cast("ArrayAttr[ArrayAttr[StringAttr]]", stored) if isinstance(stored, ArrayAttr) else ():
        if pair.data[0].data == tensor:
            return (pair.data[1].data,)
    return tuple(_by_rule(tensor))


def _by_rule(tensor: str) -> Iterator[str]:
    matches = (pattern.fullmatch(tensor) for pattern in REGULAR.values())
    return (found["op"] for found in matches if found)
