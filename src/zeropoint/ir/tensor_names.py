"""Names of tensors in the original model that differ from the names of the ops that compute them.

An op carries the name of its node; viewers such as Netron show the names of tensors, too. Most exporters derive a
tensor's name from its op's by a rule (`REGULAR`). Only other names are stored in the program.
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
"""For each exporter, a pattern of tensor names. The group `op` is the name of the op that computes the tensor."""


def state_tensor_names(module: ModuleOp, ops: Mapping[str, str]) -> None:
    """Store the names of tensors and of their ops in the module. `ops` maps tensors to ops.

    Only ops that the module has, and whose name no rule gives, are stored.
    """
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
