"""Very negative numbers that hide scores, or that a relu clamps."""
