"""Native code: compile an integer program to functions in this process, or to object files, through LLVM.

group (which kernel computes which ops) -> layout (where values are stored) -> schedule (steps: kernels on views of
buffers) -> memory (the arena) -> driver (the function that runs every step in every thread) -> objects (machine code,
cached) -> runtime (a callable program).
"""

from __future__ import annotations

import time

LOADED = time.time()
"""The time when this package was imported. If a source file changed later, it is not the code that runs."""
