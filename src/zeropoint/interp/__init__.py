"""The reference interpreter. It defines the semantics of every op on NumPy arrays, with one function per op."""

from zeropoint.interp.engine import (
    Adjustable,
    BinCounter,
    Concurrent,
    CountingEngine,
    Engine,
    LockStepped,
    ReferenceEngine,
    Repeatable,
    RepeatedKernels,
    Runnable,
)
from zeropoint.interp.errors import CheckFailed, ExecutionError, InputError, TripsExceeded, UnsupportedError
from zeropoint.interp.execute import Outcome, execute
from zeropoint.interp.interpreter import Interpreter, run
from zeropoint.interp.padding import (
    MaskedEngine,
    check_mask,
    has_padding,
    kept_positions,
    masked,
    masked_run,
    masks_of,
    unpadded,
)
from zeropoint.interp.plan_steps import Observe, Trace

__all__ = [
    "Adjustable",
    "BinCounter",
    "CheckFailed",
    "Concurrent",
    "CountingEngine",
    "Engine",
    "ExecutionError",
    "InputError",
    "Interpreter",
    "LockStepped",
    "MaskedEngine",
    "Observe",
    "Outcome",
    "ReferenceEngine",
    "Repeatable",
    "RepeatedKernels",
    "Runnable",
    "Trace",
    "TripsExceeded",
    "UnsupportedError",
    "check_mask",
    "execute",
    "has_padding",
    "kept_positions",
    "masked",
    "masked_run",
    "masks_of",
    "run",
    "unpadded",
]
