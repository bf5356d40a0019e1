"""The discardable attributes that zeropoint puts on ops: what they are called and what they say."""

from __future__ import annotations

from xdsl.ir import Operation

NAME = "zeropoint.name"
"""On arguments and results of `@main`: the name of the input or output in the original model."""
TARGET = "zeropoint.target"
"""On the module: the target that the program was quantized for."""
PROFILE = "zeropoint.profile"
"""On the module: the numerics profile that quantized ops compute with."""
FACTS = "zeropoint.facts"
"""On a region: what its output's parameters came from."""
FLOAT_REASON = "zeropoint.float_reason"
"""On a region, and then on its ops, that stay float: why."""
RESCALE = "zeropoint.rescale"
"""On an op that only changes parameters: the two demands that collided."""
EXPRESSED = "zeropoint.expressed"
"""On an integer value's op, or on an argument or result: the quantized type whose storage it is."""


def carry(source: Operation, target: Operation, *names: str) -> None:
    """Copy the named attributes that `source` has."""
    for name in names:
        if name in source.attributes:
            target.attributes[name] = source.attributes[name]
