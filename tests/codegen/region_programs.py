"""Programs of ops with a body."""

from __future__ import annotations

from zeropoint.ir.program import Program
from zeropoint.ir.text import parse_program
from zeropoint.ir.verification import verify


def program_of(text: str) -> Program:
    program = parse_program(text)
    verify(program.module)
    return program


def sort(body: str, shapes: str, *types: str, axis: int = 1, before: str = "") -> Program:
    names = [f"%x{n}" for n in range(len(types))]
    tensors = [f"tensor<{shapes}x{type_}>" for type_ in types]
    arguments = ", ".join(f"{name}: {tensor}" for name, tensor in zip(names, tensors, strict=True))
    pairs = ", ".join(f"%a{n}: tensor<{type_}>, %b{n}: tensor<{type_}>" for n, type_ in enumerate(types))
    listed = ", ".join(tensors)
    results = ", ".join(f"%y#{n}" for n in range(len(types))) if len(types) > 1 else "%y"
    made = f"%y:{len(types)}" if len(types) > 1 else "%y"
    return program_of(f"""
    func.func @main({arguments}) -> ({listed}) {{
      {before}
      {made} = "stablehlo.sort"({", ".join(names)}) <{{dimension = {axis} : i64, is_stable = true}}> ({{
        ^bb0({pairs}):
          {body}
          stablehlo.return %r : tensor<i1>
      }}) : ({listed}) -> ({listed})
      return {results} : {listed}
    }}""")


def compared(direction: str, type_: str, kind: str = "") -> str:
    return f"%r = stablehlo.compare {direction}, %a0, %b0{kind} : (tensor<{type_}>, tensor<{type_}>) -> tensor<i1>"
