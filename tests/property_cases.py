"""How many random cases property tests take: few in `make test`, `ZEROPOINT_FUZZ_CASES=1000` of each on demand."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import HealthCheck, settings

CASES = int(os.environ.get("ZEROPOINT_FUZZ_CASES", "0"))
"""How many cases were asked for; 0: as many as fit a quick test."""


def some(count: int, **more: Any) -> settings:
    """`count` cases, or as many as were asked for; networks are slow to draw, which hypothesis need not report."""
    return settings(max_examples=CASES or count, suppress_health_check=list(HealthCheck), **more)
