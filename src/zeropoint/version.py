"""The version of zeropoint, read by packaging. Every package may import this module; it imports none of them."""

__version__ = "0.2.0"
