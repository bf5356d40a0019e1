"""How much memory and time a large model takes: quantize and save, load, run, each in a process of its own.

    python bench/large.py [--ops 20000] [--gigabytes 2] [--folder FOLDER] [--samples 2]

The network is a residual chain of matrix products with bias and relu, in an .onnx file with external data. Memory is
what the process holds at most: `anonymous` is its own, `files` are pages of weights on disk, which the system takes
back when it needs them. The aim is 1.5 times the weights.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

OPS_A_BLOCK = 4
LOAD = "import sys, zeropoint as zp; zp.load(sys.argv[1])"


def make(path: Path, ops: int, size: float) -> int:
    """Write the network; the bytes of its weights."""
    from onnx import TensorProto, helper, save_model

    blocks = max(1, ops // OPS_A_BLOCK)
    width = max(8, math.isqrt(int(size / blocks / 4)))
    data = path.with_suffix(".data")
    nodes, constants = [], []
    rng = np.random.default_rng(0)
    with data.open("wb") as file:
        for n in range(blocks):
            weights = rng.standard_normal((width, width), np.float32) / (math.sqrt(width) * blocks)
            for name, array in ((f"w{n}", weights), (f"b{n}", weights[0])):
                tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=array.shape)
                tensor.data_location = TensorProto.EXTERNAL
                for key, value in (("location", data.name), ("offset", file.tell()), ("length", array.nbytes)):
                    tensor.external_data.add(key=key, value=str(value))
                file.write(array.tobytes())
                constants.append(tensor)
            nodes.append(helper.make_node("MatMul", [f"x{n}", f"w{n}"], [f"p{n}"], name=f"product{n}"))
            nodes.append(helper.make_node("Add", [f"p{n}", f"b{n}"], [f"s{n}"], name=f"bias{n}"))
            nodes.append(helper.make_node("Relu", [f"s{n}"], [f"r{n}"], name=f"relu{n}"))
            nodes.append(helper.make_node("Add", [f"x{n}", f"r{n}"], [f"x{n + 1}"], name=f"residual{n}"))
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, width]) for name in ("x0", f"x{blocks}")]
    graph = helper.make_graph(nodes, "large", ports[:1], ports[1:], constants)
    save_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return data.stat().st_size


def measured(command: list[str]) -> tuple[float, int, int, int]:
    """Seconds, and the most bytes in memory: anonymous, of files, and both at once."""
    began = time.perf_counter()
    process = subprocess.Popen(command)
    most = [0, 0, 0]

    def watch() -> None:
        while process.poll() is None:
            try:
                lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
            except OSError:
                return
            held = {line.split(":")[0]: line.split()[1] for line in lines if line.startswith("Rss")}
            anonymous, files = (1024 * int(held.get(name, 0)) for name in ("RssAnon", "RssFile"))
            for place, found in enumerate((anonymous, files, anonymous + files)):
                most[place] = max(most[place], found)
            time.sleep(0.02)

    watcher = threading.Thread(target=watch)
    watcher.start()
    if process.wait():
        sys.exit(f"status {process.returncode}: {' '.join(command)}")
    watcher.join()
    return (time.perf_counter() - began, *most)


def main() -> None:
    """Make the network, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ops", type=int, default=20_000)
    parser.add_argument("--gigabytes", type=float, default=2.0)
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--samples", type=int, default=2)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        folder = Path(name)
        model, integers, data = (str(folder / file) for file in ("large.onnx", "integers.mlir", "data.npz"))
        weights = make(Path(model), arguments.ops, 1e9 * arguments.gigabytes)
        width = math.isqrt(weights // 4 // max(1, arguments.ops // OPS_A_BLOCK))
        np.savez(data, x0=np.random.default_rng(1).standard_normal((arguments.samples, width), np.float32))
        print(f"{arguments.ops} ops, {weights / 1e9:.2f} GB of weights")
        python, zeropoint = [sys.executable, "-c"], [sys.executable, "-m", "zeropoint"]
        quantize = [*zeropoint, "quantize", model, "--data", data, "--effort", "none", "-o", integers]
        run = [*zeropoint, "run", integers, "--input", data, "-o", str(folder / "o.npz")]
        steps = {"quantize, save": quantize, "load float": [*python, LOAD, model], "load": [*python, LOAD, integers]}
        for step, command in {**steps, "load, run": run}.items():
            seconds, anonymous, files, both = measured(command)
            print(
                f"{step:16} {seconds:7.1f} s  {anonymous / 1e9:6.2f} GB anonymous  {files / 1e9:6.2f} GB files", end=""
            )
            print(f"  {both / 1e9:6.2f} GB at once: {both / weights:5.2f} x the weights", flush=True)


if __name__ == "__main__":
    main()
