"""The common error of all lowerings."""

from __future__ import annotations

from xdsl.ir import Operation

from zeropoint.errors import Error


class LoweringError(Error, ValueError):
    """An op cannot be lowered. The message has its name and position; `op` is the op, if given."""

    def __init__(self, message: str, op: Operation | None = None):
        super().__init__(message)
        self.op = op
