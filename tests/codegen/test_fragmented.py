"""Native code loads in a process whose address space is nearly full or fragmented (large libraries, big arrays)."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.skipif(sys.platform != "linux", reason="the program fills the address space from the top, as Linux does")
def test_code_loads_where_its_data_does_not_fit_beside_it() -> None:
    """LLVM's own memory manager aborts here: `isInt<32>(RealOffset)`."""
    program = Path(__file__).parent / "fragmented_program.py"
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (0, f"{ord('A')}\n"), done.stderr
