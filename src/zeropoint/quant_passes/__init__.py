"""Passes on the ops and types of the quant and chlo dialects. They run before the compiler's stages or on their own."""

from zeropoint.quant_passes.canonicalize_quant import canonicalize_quant
from zeropoint.quant_passes.convert_fake_quant import convert_fake_quant
from zeropoint.quant_passes.errors import LoweringError
from zeropoint.quant_passes.legalize_chlo import legalize_chlo
from zeropoint.quant_passes.legalize_real_math import legalize_real_math
from zeropoint.quant_passes.normalize_quant_types import normalize_quant_types
from zeropoint.quant_passes.reference_forms import from_reference_forms, to_reference_forms
from zeropoint.quant_passes.strip_func_quant_types import strip_func_quant_types

__all__ = [
    "LoweringError",
    "canonicalize_quant",
    "convert_fake_quant",
    "from_reference_forms",
    "legalize_chlo",
    "legalize_real_math",
    "normalize_quant_types",
    "strip_func_quant_types",
    "to_reference_forms",
]
