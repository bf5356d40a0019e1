"""Calls of code outside of a program, and ops of other dialects: refused, with what to do instead.

JAX calls LAPACK for matrix decompositions, Python for callbacks, and XLA's own functions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from xdsl.utils.exceptions import ParseError

from zeropoint.frontend.errors import ModelError
from zeropoint.ir.locations import describe
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import CustomCallOp
from zeropoint.ir.syntax_errors import syntax_message

CHECKS = "check."
"""How the names of calls start that compare values in test programs."""
OUTSIDE = "compute it outside of the function, and give the function its result as an input"
ADVICE: Mapping[str, str] = {
    "lapack_": f"JAX computes matrix decompositions with LAPACK: {OUTSIDE}",
    "xla_ffi_python": "leave callbacks to Python (jax.debug, jax.pure_callback) out of the function",
    "xla_python": "leave callbacks to Python (jax.debug, jax.pure_callback) out of the function",
    "Sharding": "lower the function without shardings",
    "SPMD": "lower the function without shardings",
    "ApproxTopK": "use jax.lax.top_k",
    "": f"write the function with other ops, or {OUTSIDE}",
}
"""What to do instead of a call, by the start of its name. The first that fits holds."""
UNREAD: Mapping[re.Pattern[str], str] = {
    re.compile(r"custom op 'stablehlo\.rng_bit_generator' is unknown$"): "expected random numbers that ops compute; in "
    "JAX, use the default implementation (threefry2x32)",
    re.compile(r"custom op 'chlo\.\w+' is unknown$"): "expected an op that zeropoint has; jax.export replaces such ops "
    "of JAX by others, or write the function without it",
    re.compile(r"Dialect `sdy' not found for custom op '[\w.]+'$"): "expected StableHLO; if JAX wrote it, leave "
    "shardings and callbacks to Python (jax.debug, jax.pure_callback) out of the function",
}
"""What was expected in place of an op that JAX writes, by the parser's message, and what to do."""


def refuse_calls(program: Program) -> None:
    """Raise ModelError for a call of other code than the checks of test programs."""
    for op in program.module.walk():
        if isinstance(op, CustomCallOp) and not (target := op.call_target_name.data).startswith(CHECKS):
            advice = next(advice for start, advice in ADVICE.items() if target.startswith(start))
            raise ModelError(f"{describe(op)}: found a call of '{target}', expected ops of StableHLO; {advice}")


def unread_text(error: ParseError) -> str:
    """The message of text that does not parse. An op that JAX writes is not a mistake in the text."""
    found = next((advice for pattern, advice in UNREAD.items() if pattern.search(error.msg)), None)
    return syntax_message(error) if found is None else f"{error.msg}, {found}"
