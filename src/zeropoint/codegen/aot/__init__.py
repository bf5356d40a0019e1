"""Ahead-of-time compilation to object files and shared libraries."""
