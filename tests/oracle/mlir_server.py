"""Answers questions with C++ MLIR, one JSON object a line; a process of its own, because C++ MLIR can crash.

Question: {"text": ..., "allow_unregistered": bool}
Answer: {"text": ..., "generic": ..., "debug": ...}, or {"errors": [sentence, ...]}
"""

import json
import sys

from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo


def answer(question: dict) -> dict:
    context = ir.Context()
    _stablehlo.register_dialect(context)
    context.allow_unregistered_dialects = question["allow_unregistered"]
    try:
        operation = ir.Module.parse(question["text"], context).operation
    except ir.MLIRError as error:
        return {"errors": [diagnostic.message for diagnostic in error.error_diagnostics]}
    return {
        "text": operation.get_asm(),
        "generic": operation.get_asm(print_generic_op_form=True),
        "debug": operation.get_asm(enable_debug_info=True),
    }


for line in sys.stdin:
    print(json.dumps(answer(json.loads(line))), flush=True)
