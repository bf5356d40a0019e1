"""The solver: from a float program to a quantized one."""
