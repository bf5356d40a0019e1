"""What a quantized file states: its kernels, its floats, and its roundings."""
