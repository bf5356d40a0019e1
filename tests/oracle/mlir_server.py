"""Answers questions with C++ MLIR, one JSON object a line; a process of its own, because C++ MLIR can crash.

Question:
{"kind": "type" | "module" | "run" | "call", "text": ..., "pipeline": ... or null, "allow_unregistered": bool};
to run also "input" (numbers), its "shape", and "dtypes" (of the input, of the result); to call @main also "calls" (of
each, its arguments as {"data", "shape", "dtype"}) and "results" ({"shape", "dtype"} of each).
Answer: {"text": ...} of a type; {"text": ..., "generic": ..., "debug": ...} of a module; {"output": numbers};
{"errors": [{"message": ..., "line": ..., "column": ...}, ...]}; or {} after a crash that was foreseen.
"""

from __future__ import annotations

import ctypes
import functools
import json
import os
import re
import signal
import sys
from typing import Any

import ml_dtypes
import numpy as np
from torch_mlir import ir, passmanager
from torch_mlir._mlir_libs import _stablehlo
from torch_mlir.execution_engine import ExecutionEngine
from torch_mlir.runtime import (
    as_ctype,
    get_ranked_memref_descriptor,
    make_nd_memref_descriptor,
    make_zero_d_memref_descriptor,
    ranked_memref_to_numpy,
)

TO_LLVM = """strip-func-quant-types,canonicalize,func.func(shape-to-shape-lowering),convert-shape-to-std,
convert-elementwise-to-linalg,
empty-tensor-to-alloc-tensor,one-shot-bufferize{bufferize-function-boundaries allow-return-allocs-from-loops},
func.func(convert-linalg-to-loops),
convert-scf-to-cf,expand-strided-metadata,lower-affine,finalize-memref-to-llvm,convert-math-to-llvm,
convert-arith-to-llvm,convert-func-to-llvm,convert-cf-to-llvm,reconcile-unrealized-casts""".replace("\n", "")


def new_context(allow_unregistered: bool) -> Any:
    made = ir.Context()
    _stablehlo.register_dialect(made)
    made.allow_unregistered_dialects = allow_unregistered
    return made


_stablehlo.register_stablehlo_passes()
shared_context = functools.cache(new_context)


def context_for(question: dict[str, Any]) -> Any:
    # A context keeps resources, and renames those of the next module that has the same.
    context = new_context if "dense_resource" in question["text"] else shared_context
    return context(question["allow_unregistered"])


def run(module: Any, question: dict[str, Any]) -> list[float]:
    """Compile @f, from one ranked tensor to another of its rank, and call it."""
    for op in module.body.operations:
        op.attributes["llvm.emit_c_interface"] = ir.UnitAttr.get(module.context)
    pipeline = f"builtin.module({question['pipeline']}{TO_LLVM})"
    passmanager.PassManager.parse(pipeline, module.context).run(module.operation)
    engine = ExecutionEngine(module, opt_level=0)
    given, made = map(np.dtype, question["dtypes"])
    array = np.array(question["input"], given).reshape(question["shape"])
    result = ctypes.pointer(ctypes.pointer(make_nd_memref_descriptor(array.ndim, as_ctype(made))()))
    engine.invoke("f", result, ctypes.pointer(ctypes.pointer(get_ranked_memref_descriptor(array))))
    return ranked_memref_to_numpy(result[0]).reshape(-1).tolist()


def strided(unranked: Any, size: int) -> np.ndarray:
    """The array behind an unranked memref descriptor: its rank, and a pointer to the ranked one."""
    rank = ctypes.cast(unranked, ctypes.POINTER(ctypes.c_int64))[0]
    descriptor = ctypes.cast(unranked, ctypes.POINTER(ctypes.c_void_p))[1]
    fields = ctypes.cast(descriptor, ctypes.POINTER(ctypes.c_int64))
    shape, strides = ([fields[3 + part * rank + i] for i in range(rank)] for part in (0, 1))
    if 0 in shape:
        return np.zeros(shape, f"i{size}")
    count = fields[2] + sum((n - 1) * step for n, step in zip(shape, strides, strict=True)) + 1
    flat = np.frombuffer((ctypes.c_char * (count * size)).from_address(fields[1]), f"i{size}")
    return np.lib.stride_tricks.as_strided(flat[fields[2] :], shape, [step * size for step in strides])


@ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)
def memref_copy(size: int, source: Any, target: Any) -> None:
    """`memrefCopy` of MLIR's C runner library, which the wheel does not have."""
    strided(target, size)[...] = strided(source, size)


@ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_float)
def truncate_to_bf16(value: float) -> float:
    """`__truncsfbf2` of compiler-rt, which LLVM calls where a processor has no bf16: its bits in the low half."""
    stored = np.float32(value).astype(ml_dtypes.bfloat16).view(np.uint16)
    return float(np.uint32(stored).view(np.float32))


def call(module: Any, question: dict[str, Any]) -> list[Any]:
    """Compile @main, and call it with arrays; its results are arrays of the given shapes."""
    for op in module.body.operations:
        op.attributes["llvm.emit_c_interface"] = ir.UnitAttr.get(module.context)
    pipeline = f"builtin.module({question['pipeline'] or ''}{TO_LLVM})"
    passmanager.PassManager.parse(pipeline, module.context).run(module.operation)
    engine = ExecutionEngine(module, opt_level=0)
    engine.raw_register_runtime("memrefCopy", ctypes.cast(memref_copy, ctypes.c_void_p))
    engine.raw_register_runtime("__truncsfbf2", ctypes.cast(truncate_to_bf16, ctypes.c_void_p))
    kinds = [(len(found["shape"]), as_ctype(np.dtype(found["dtype"]))) for found in question["results"]]
    fields = [(f"result{i}", type(made_descriptor(*kind))) for i, kind in enumerate(kinds)]
    returned = type("Returned", (ctypes.Structure,), {"_fields_": fields})
    outputs: list[Any] = []
    for arguments in question["calls"]:
        arrays = [np.array(found["data"], found["dtype"]).reshape(found["shape"]) for found in arguments]
        result = returned()
        given = [ctypes.pointer(ctypes.pointer(get_ranked_memref_descriptor(array))) for array in arrays]
        engine.invoke("main", ctypes.pointer(ctypes.pointer(result)), *given)
        outputs.append([held(getattr(result, name)) for name, _ in fields])
    return outputs


def held(descriptor: Any) -> list[float]:
    """The elements of a memref; one of rank 0 has no shape."""
    if not hasattr(descriptor, "shape"):
        return [descriptor.aligned[descriptor.offset]]
    return ranked_memref_to_numpy(ctypes.pointer(descriptor)).reshape(-1).tolist()


def made_descriptor(rank: int, kind: Any) -> Any:
    """An empty descriptor of a memref of some rank."""
    return make_zero_d_memref_descriptor(kind)() if rank == 0 else make_nd_memref_descriptor(rank, kind)()


def texts(module: Any, question: dict[str, Any]) -> dict[str, Any]:
    if question["pipeline"]:
        passmanager.PassManager.parse(question["pipeline"], module.context).run(module.operation)
    operation = module.operation
    return {
        "text": operation.get_asm(),
        "generic": operation.get_asm(print_generic_op_form=True),
        "debug": operation.get_asm(enable_debug_info=True),
    }


def described(diagnostic: Any) -> dict[str, Any]:
    place = re.search(r":(\d+):(\d+)\)?$", str(diagnostic.location))
    line, column = map(int, place.groups()) if place else (0, 0)
    return {"message": diagnostic.message, "line": line, "column": column}


def answer(question: dict[str, Any]) -> dict[str, Any]:
    context = context_for(question)
    try:
        if question["kind"] == "type":
            return {"text": str(ir.Type.parse(question["text"], context))}
        module = ir.Module.parse(question["text"], context)
        answers = {"run": run, "call": call}
        compute = answers.get(question["kind"])
        return texts(module, question) if compute is None else {"output": compute(module, question)}
    except ir.MLIRError as error:
        return {"errors": [described(diagnostic) for diagnostic in error.error_diagnostics]}


# Sub-channel types of anything but integers crash, or never end: a child of the child answers for those.
SECONDS = 2
DANGEROUS = re.compile(r"(f8|f4|quantile).*:\s*\{")


def guarded_answer(question: dict[str, Any]) -> dict[str, Any]:
    if not DANGEROUS.search(question["text"]):
        return answer(question)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(SECONDS)
        os.write(writing, json.dumps(answer(question)).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        found = pipe.read()
    os.waitpid(child, 0)
    return json.loads(found) if found else {}


for line in sys.stdin:
    print(json.dumps(guarded_answer(json.loads(line))), flush=True)
