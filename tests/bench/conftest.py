"""The benchmarks are scripts that import each other from their own folders."""

import sys
from pathlib import Path

BENCH = Path(__file__).resolve().parent.parent.parent / "bench"
sys.path += [str(BENCH), str(BENCH / "models")]
