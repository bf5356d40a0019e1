"""The version of zeropoint, which packaging reads here. Every package may import this module; it imports none of
them."""

__version__ = "0.2.0"
