"""reverse: a literal case, and against StableHLO's interpreter."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import TensorType, i32

from interp.programs import assert_as_upstream, one_op, run_op
from zeropoint.ir.stablehlo import ReverseOp


def test_reverse_turns_the_named_dimensions_around():
    x, matrix = np.arange(6, dtype=np.int32).reshape(2, 3), TensorType(i32, [2, 3])
    assert run_op(lambda a: ReverseOp(a, [1]), [matrix], x).tolist() == [[2, 1, 0], [5, 4, 3]]
    assert_as_upstream(one_op([matrix], lambda a: ReverseOp(a, [1, 0])), x)
    assert_as_upstream(one_op([matrix], lambda a: ReverseOp(a, [])), x)
