"""The one home of rounding, affine maps, storage ranges, fixed-point multipliers and requantization. NumPy only."""
