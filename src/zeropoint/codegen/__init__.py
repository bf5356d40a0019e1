"""Native code: an integer program to kernels, to LLVM, to functions of this process or objects for others.

select (which kernel computes which ops) -> graph (kernels on views of buffers) -> memory (the arena) -> driver (the
function that runs every step in every thread) -> objects (machine code, cached) -> native (a program to be called).
"""

from __future__ import annotations

import time

LOADED = time.time()
"""When this package was imported: a file of it that has changed since is not the code that runs."""
