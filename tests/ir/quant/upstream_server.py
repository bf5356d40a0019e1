"""Answers questions with C++ MLIR, one JSON object a line; run as a process of its own, because C++ MLIR can crash.

Question: {"kind": "type" | "module", "text": ..., "pipeline": ... or null}
Answer: {"text": ...} or {"error": first sentence, "line": ..., "column": ...}
"""

import json
import re
import sys

from torch_mlir import ir, passmanager
from torch_mlir._mlir_libs import _stablehlo


def answer(context, question):
    try:
        if question["kind"] == "type":
            return {"text": str(ir.Type.parse(question["text"], context))}
        module = ir.Module.parse(question["text"], context)
        if question["pipeline"]:
            passmanager.PassManager.parse(question["pipeline"], context).run(module.operation)
        return {"text": str(module), "generic": module.operation.get_asm(print_generic_op_form=True)}
    except ir.MLIRError as error:
        first = error.error_diagnostics[0]
        place = re.search(r":(\d+):(\d+)\)?$", str(first.location))
        line, column = map(int, place.groups()) if place else (0, 0)
        return {"error": first.message, "line": line, "column": column}


def main():
    context = ir.Context()
    _stablehlo.register_dialect(context)
    for line in sys.stdin:
        sys.stdout.write(json.dumps(answer(context, json.loads(line))) + "\n")
        sys.stdout.flush()


main()
