"""One function per inference library: loads a network's file, gives what runs one sample.

Each engine works on buffers that it already holds where its interface allows, so that a step is the network and not
the copying around it.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from suite import Feed, engine_file

ISA = "ZEROPOINT_BENCH_ISA"
"""The environment variable with the instruction set to which engines are limited."""
LIMITS = {"avx512-vnni": "AVX512_CORE_VNNI", "avx-vnni": "AVX2_VNNI", "avx2": "AVX2"}
"""Instruction sets by which engines can be limited, with oneDNN's names of them; OpenVINO's kernels are oneDNN's."""
LIMITED = {"zeropoint-int8", "openvino-int8"}
"""The engines that can be limited."""


def limited_to(isa: str) -> dict[str, str]:
    """The environment in which engines use no other instructions than those of `isa`."""
    return {ISA: isa, "ONEDNN_MAX_CPU_ISA": LIMITS[isa]}


class SkippedError(Exception):
    """An engine can't run this network here; the message says why."""


@dataclass(frozen=True)
class Ready:
    """A loaded network: `step()` runs the sample it was loaded with, `output()` gives the last result as f32."""

    step: Callable[[], object]
    output: Callable[[], np.ndarray]


def zeropoint_native(path: Path, threads: int, feed: Feed) -> Ready:
    """Our native code: of the integer program, or of the float network."""
    import zeropoint
    from zeropoint.codegen.llvm.machine import CodegenError

    model = zeropoint.load(path)
    isa = os.environ.get(ISA)
    try:
        native = _limited_native(model.program, threads, isa) if isa else model.native(threads=threads)
    except CodegenError as error:
        raise SkippedError(str(error)) from None
    [port] = model.outputs
    results: dict[str, np.ndarray] = {}

    def step() -> None:
        results.update(native(feed) if isa else native(**feed))

    return Ready(step, lambda: np.asarray(results[port.name], np.float32))


def _limited_native(program, threads: int, isa: str):
    from zeropoint.codegen.llvm.isa import INSTRUCTION_SETS
    from zeropoint.codegen.runtime.native import NativeProgram

    return NativeProgram(program, threads=threads, isa=INSTRUCTION_SETS[isa])


def onnxruntime(path: Path, threads: int, feed: Feed) -> Ready:
    """onnxruntime's CPU provider, inputs and the output bound once."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    [port] = session.get_outputs()
    result = ort.OrtValue.ortvalue_from_numpy(session.run([port.name], feed)[0])
    binding = session.io_binding()
    for key, value in feed.items():
        binding.bind_ortvalue_input(key, ort.OrtValue.ortvalue_from_numpy(value))
    binding.bind_ortvalue_output(port.name, result)
    return Ready(lambda: session.run_with_iobinding(binding), result.numpy)


def openvino(path: Path, threads: int, feed: Feed) -> Ready:
    """OpenVINO's CPU plugin for latency; the hint keeps float ops in f32, else they are bf16 where that is fast."""
    import openvino as ov

    options = {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": threads,
        "NUM_STREAMS": 1,
        "INFERENCE_PRECISION_HINT": "f32",
        "ENABLE_CPU_PINNING": False,  # the worker has pinned the process already
    }
    compiled = ov.Core().compile_model(path, "CPU", options)
    request = compiled.create_infer_request()
    for key, value in feed.items():
        request.set_tensor(key, ov.Tensor(value))
    return Ready(request.infer, lambda: np.array(request.get_output_tensor().data))


def litert(path: Path, threads: int, feed: Feed) -> Ready:
    """LiteRT with XNNPACK; images enter as NHWC, and as i8 where the file is quantized."""
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(str(path), num_threads=threads)
    interpreter.allocate_tensors()
    [signature] = interpreter.get_signature_list().values()
    details = {entry["index"]: entry for entry in interpreter.get_input_details()}
    order = [details[index] for index in sorted(details)]
    if len(signature["inputs"]) != len(feed):
        raise SkippedError(f"found {len(signature['inputs'])} inputs in LiteRT's file, expected {len(feed)}")
    for entry, value in zip(order, feed.values(), strict=True):
        interpreter.set_tensor(entry["index"], litert_input(entry, value))
    [result] = interpreter.get_output_details()

    def output() -> np.ndarray:
        values = interpreter.get_tensor(result["index"])
        scale, zero_point = result["quantization"]
        return (values.astype(np.float32) - zero_point) * np.float32(scale) if values.dtype == np.int8 else values

    return Ready(interpreter.invoke, output)


def litert_input(entry: dict, value: np.ndarray) -> np.ndarray:
    """`value` in the layout and type that the input `entry` has."""
    if value.ndim == 4:
        value = np.ascontiguousarray(value.transpose(0, 2, 3, 1))
    if entry["dtype"] == np.int8:
        scale, zero_point = entry["quantization"]
        value = np.clip(np.round(value / scale) + zero_point, -128, 127)
    return value.astype(entry["dtype"])


LOADERS: dict[str, Callable[[Path, int, Feed], Ready]] = {
    "zeropoint": zeropoint_native,
    "onnxruntime": onnxruntime,
    "openvino": openvino,
    "litert": litert,
}
"""By the part of an engine's name before the dash."""


def load(name: str, engine: str, threads: int, feed: Feed) -> Ready:
    """The network `name` in `engine`, with `threads` threads and one sample.

    Raises:
        SkippedError: the engine or its file is not here; the message says what is missing and how to get it.
    """
    if ISA in os.environ and engine not in LIMITED:
        raise SkippedError(f"cannot be limited to {os.environ[ISA]}")
    path = engine_file(name, engine)
    library = engine.split("-")[0]
    if not path.exists():
        script = "models/to_litert.py" if library == "litert" else "prepare.py"
        raise SkippedError(f"found no {path.name}, made by bench/{script}")
    try:
        return LOADERS[library](path, threads, feed)
    except ImportError as error:
        raise SkippedError(f"{error}; expected the packages of the extra 'bench'") from None
