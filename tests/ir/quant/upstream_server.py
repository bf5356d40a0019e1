"""Answers questions with C++ MLIR, one JSON object a line; run as a process of its own, because C++ MLIR can crash.

Question: {"kind": "type" | "module" | "run", "text": ..., "pipeline": ... or null}; to run also "input" (numbers), its
"shape", and "dtypes" (of the input, of the result).
Answer: {"text": ...}, {"output": numbers}, {"error": first sentence, "line": ..., "column": ...}, or {} after a crash
that was foreseen.
"""

import ctypes
import json
import os
import re
import signal
import sys

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

TO_LLVM = """strip-func-quant-types,canonicalize,convert-shape-to-std,convert-elementwise-to-linalg,
empty-tensor-to-alloc-tensor,one-shot-bufferize{bufferize-function-boundaries},func.func(convert-linalg-to-loops),
convert-scf-to-cf,expand-strided-metadata,lower-affine,finalize-memref-to-llvm,convert-math-to-llvm,
convert-arith-to-llvm,convert-func-to-llvm,convert-cf-to-llvm,reconcile-unrealized-casts""".replace("\n", "")


def run(context, module, question):
    """Compile @f, from one ranked tensor to another of its rank, and call it."""
    for op in module.body.operations:
        op.attributes["llvm.emit_c_interface"] = ir.UnitAttr.get(context)
    passmanager.PassManager.parse(f"builtin.module({question['pipeline']}{TO_LLVM})", context).run(module.operation)
    engine = ExecutionEngine(module, opt_level=0)
    given, made = map(np.dtype, question["dtypes"])
    array = np.array(question["input"], given).reshape(question["shape"])
    result = ctypes.pointer(ctypes.pointer(make_nd_memref_descriptor(array.ndim, as_ctype(made))()))
    engine.invoke("f", result, ctypes.pointer(ctypes.pointer(get_ranked_memref_descriptor(array))))
    return ranked_memref_to_numpy(result[0]).reshape(-1)


def answer(context, question):
    try:
        if question["kind"] == "type":
            return {"text": str(ir.Type.parse(question["text"], context))}
        module = ir.Module.parse(question["text"], context)
        if question["kind"] == "run":
            return {"output": run(context, module, question).tolist()}
        if question["pipeline"]:
            passmanager.PassManager.parse(question["pipeline"], context).run(module.operation)
        return {"text": str(module), "generic": module.operation.get_asm(print_generic_op_form=True)}
    except ir.MLIRError as error:
        first = error.error_diagnostics[0]
        place = re.search(r":(\d+):(\d+)\)?$", str(first.location))
        line, column = map(int, place.groups()) if place else (0, 0)
        return {"error": first.message, "line": line, "column": column}


# Sub-channel types of anything but integers crash, or never end: a child of the child answers for those.
SECONDS = 2
DANGEROUS = re.compile(r"(f8|f4|quantile).*:\s*\{")


def guarded_answer(context, question):
    if not DANGEROUS.search(question["text"]):
        return answer(context, question)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(SECONDS)
        os.write(writing, json.dumps(answer(context, question)).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        found = pipe.read()
    os.waitpid(child, 0)
    return json.loads(found) if found else {}


def main():
    context = ir.Context()
    _stablehlo.register_dialect(context)
    for line in sys.stdin:
        sys.stdout.write(json.dumps(guarded_answer(context, json.loads(line))) + "\n")
        sys.stdout.flush()


main()
