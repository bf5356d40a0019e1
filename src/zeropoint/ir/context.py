"""The dialects that a program may hold, listed in one place."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import Builtin
from xdsl.ir import Dialect

from zeropoint.ir.calls import Func
from zeropoint.ir.chlo import Chlo
from zeropoint.ir.fxpmath import FxpMath
from zeropoint.ir.native import Native
from zeropoint.ir.quant import Quant
from zeropoint.ir.resources import ResourceTable
from zeropoint.ir.stablehlo import StableHlo
from zeropoint.ir.standard import STANDARD_DIALECTS
from zeropoint.ir.testing import Check, InterpreterDialect

DIALECTS = (Check, Chlo, Func, FxpMath, InterpreterDialect, Native, Quant, StableHlo)


def new_context(resources: ResourceTable | None = None, *, allow_unregistered: bool = False) -> Context:
    """A context with every dialect of zeropoint, standard dialects on demand, and a new resource table.

    With `allow_unregistered`, ops, types and attributes of other dialects are accepted unchecked.

    xDSL's builtin dialect keeps `dense_resource` blobs in one table for the whole process; a fresh builtin dialect with
    its own table keeps two programs apart.
    """
    context = Context(allow_unregistered=allow_unregistered)
    table = ResourceTable() if resources is None else resources
    context.load_dialect(Dialect("builtin", list(Builtin.operations), list(Builtin.attributes), [table]))
    for dialect in DIALECTS:
        context.load_dialect(dialect)
    for name, factory in STANDARD_DIALECTS.items():
        context.register_dialect(name, factory)
    return context
