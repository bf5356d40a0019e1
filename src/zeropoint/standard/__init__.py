"""Integer programs for other compilers: as integer StableHLO, as linalg on tensors, and as loops on memrefs."""

from zeropoint.standard.expand_fxpmath import expand_fxpmath
from zeropoint.standard.lower_to_loops import lower_to_loops
from zeropoint.standard.lower_to_standard import lower_to_standard

__all__ = ["expand_fxpmath", "lower_to_loops", "lower_to_standard"]
