"""Float sums that are exact in every order, for runtimes that run float ops."""

from zeropoint.exact_sums.rewriting import exact_sums

__all__ = ["exact_sums"]
