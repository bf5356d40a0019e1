"""Writes `texts/NAME.mlir`, what JAX makes of each of `functions.examples()`, and `values.npz`, inputs and results.

    python -m pip install jax && PYTHONPATH=tests python -m frontend.jax.make_jax_programs

The files in the repository were made with the version of JAX that `values.npz` names.
"""

from __future__ import annotations

import os
from pathlib import Path

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import numpy as np

from frontend.jax import functions  # imports jax

HERE = Path(__file__).parent


def main() -> None:
    """Write all files."""
    arrays = {"jax": np.array(jax.__version__)}
    for name, (function, arguments) in functions.examples().items():
        compiled = jax.jit(function)
        (HERE / "texts" / f"{name}.mlir").write_text(compiled.lower(*arguments).as_text())
        for index, argument in enumerate(arguments):
            arrays[f"{name}/in{index}"] = np.asarray(argument)
        for index, result in enumerate(jax.tree.leaves(compiled(*arguments))):
            arrays[f"{name}/out{index}"] = np.asarray(result)
    np.savez_compressed(HERE / "values.npz", **arrays)


if __name__ == "__main__":
    main()
