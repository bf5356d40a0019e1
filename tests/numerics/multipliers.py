"""Random multipliers."""

from __future__ import annotations

from hypothesis import strategies as st

mantissas = st.floats(0.5, 1.0, exclude_max=True) | st.sampled_from([0.5, 1 - 2**-53, 1 - 2**-31, 1 - 2**-32, 0.75])


def multipliers(low: int, high: int) -> st.SearchStrategy[float]:
    """Reals from 2^(low-1) to 2^high, even in the exponent."""
    return st.builds(lambda q, e: q * 2.0**e, mantissas, st.integers(low, high))
