"""Patterns: which kernel computes which ops. A pattern gives a `Match`, or why there is none (`Declined`)."""
