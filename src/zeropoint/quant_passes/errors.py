"""The error of every lowering."""

from __future__ import annotations

from xdsl.ir import Operation

from zeropoint.errors import Error


class LoweringError(Error, ValueError):
    """A quantized op that has no integer form, with its name and place. `op` is that op, if it is given."""

    def __init__(self, message: str, op: Operation | None = None):
        super().__init__(message)
        self.op = op
