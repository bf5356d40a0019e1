"""Integer programs in the dialects that other compilers run: integer StableHLO, linalg on tensors, loops on memrefs."""

from zeropoint.standard.expand_fxpmath import expand_fxpmath

__all__ = ["expand_fxpmath"]
