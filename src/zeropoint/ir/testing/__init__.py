"""The dialects of test programs: `check` holds expected results, `interpreter` controls the run."""

from xdsl.ir import Dialect

from zeropoint.ir.testing import check_ops, interpreter_ops

Check = Dialect("check", list(check_ops.OPS))
InterpreterDialect = Dialect("interpreter", list(interpreter_ops.OPS))
