"""Native code: compile an integer program via kernels and LLVM to functions of this process, or to object files.

select (which kernel computes which ops) -> graph (kernels on views of buffers) -> memory (the arena) -> driver (the
function that runs every step in every thread) -> objects (machine code, cached) -> native (a callable program).
"""

from __future__ import annotations

import time

LOADED = time.time()
"""Time when this package was imported. A source file that changed later is not the code that runs."""
