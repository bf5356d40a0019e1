"""Answers questions with C++ MLIR, one JSON object a line; a process of its own, because C++ MLIR can crash.

Question: {"kind": "type" | "module" | "run", "text": ..., "pipeline": ... or null, "allow_unregistered": bool}; to run
also "input" (numbers), its "shape", and "dtypes" (of the input, of the result).
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

import numpy as np
from torch_mlir import ir, passmanager
from torch_mlir._mlir_libs import _stablehlo
from torch_mlir.execution_engine import ExecutionEngine
from torch_mlir.runtime import (
    as_ctype,
    get_ranked_memref_descriptor,
    make_nd_memref_descriptor,
    ranked_memref_to_numpy,
)

TO_LLVM = """strip-func-quant-types,canonicalize,func.func(shape-to-shape-lowering),convert-shape-to-std,
convert-elementwise-to-linalg,
empty-tensor-to-alloc-tensor,one-shot-bufferize{bufferize-function-boundaries},func.func(convert-linalg-to-loops),
convert-scf-to-cf,expand-strided-metadata,lower-affine,finalize-memref-to-llvm,convert-math-to-llvm,
convert-arith-to-llvm,convert-func-to-llvm,convert-cf-to-llvm,reconcile-unrealized-casts""".replace("\n", "")


def new_context(allow_unregistered: bool) -> Any:
    made = ir.Context()
    _stablehlo.register_dialect(made)
    made.allow_unregistered_dialects = allow_unregistered
    return made


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
        return {"output": run(module, question)} if question["kind"] == "run" else texts(module, question)
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
