"""Where 8 bits are too few: kernels that get more bits, and kernels that stay float."""
