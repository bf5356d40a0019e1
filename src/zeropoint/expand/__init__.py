"""Expands rare StableHLO ops into frequent ones with identical results, for native code and `lower-to-standard`,
and functions that a file format lacks into arithmetic.
"""

from zeropoint.expand.bits import dimension_size, reduced, resized
from zeropoint.expand.emission import ExpansionError
from zeropoint.expand.expand import Expansion, expand
from zeropoint.expand.few_terms import with_few_terms
from zeropoint.expand.functions import expand_functions
from zeropoint.expand.one_row import with_one_row
from zeropoint.expand.pixel_products import with_pixel_products
from zeropoint.expand.reductions import in_one_type
from zeropoint.expand.window_groups import grouped_features

__all__ = [
    "Expansion",
    "ExpansionError",
    "dimension_size",
    "expand",
    "expand_functions",
    "grouped_features",
    "in_one_type",
    "reduced",
    "resized",
    "with_few_terms",
    "with_one_row",
    "with_pixel_products",
]
