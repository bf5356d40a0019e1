"""Quantized programs as text of the TOSA dialect."""
