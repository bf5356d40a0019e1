"""Rounding of floats to integral values in plain LLVM, for machines without an instruction for it.

On these machines, LLVM calls `floor`, `roundeven`, ... of the math library, and not every library has all of them. Code
that is compiled ahead of time contains these definitions instead, under the same names with internal linkage.
"""

from __future__ import annotations

_FUNCTION = """
define {type} @{name}({type} %x) nounwind {{
  %magnitude = call {type} @llvm.fabs.{suffix}({type} %x)
  %small = fcmp olt {type} %magnitude, {limit}
  br i1 %small, label %inside, label %outside
outside:
  ret {type} %x
inside:
{body}
  %signed = call {type} @llvm.copysign.{suffix}({type} %result, {type} %x)
  ret {type} %signed
}}
"""
_TRUNCATED = """\
  %integer = fptosi {type} %x to i64
  %whole = sitofp i64 %integer to {type}
"""
_BODIES = {
    "trunc": f"""{_TRUNCATED}
  %result = fadd {{type}} %whole, 0.0
""",
    "floor": f"""{_TRUNCATED}
  %above = fcmp ogt {{type}} %whole, %x
  %less = fsub {{type}} %whole, 1.0
  %result = select i1 %above, {{type}} %less, {{type}} %whole
""",
    "ceil": f"""{_TRUNCATED}
  %below = fcmp olt {{type}} %whole, %x
  %more = fadd {{type}} %whole, 1.0
  %result = select i1 %below, {{type}} %more, {{type}} %whole
""",
    "round": f"""{_TRUNCATED}
  %rest = fsub {{type}} %x, %whole
  %part = call {{type}} @llvm.fabs.{{suffix}}({{type}} %rest)
  %far = fcmp oge {{type}} %part, 0.5
  %unit = call {{type}} @llvm.copysign.{{suffix}}({{type}} 1.0, {{type}} %x)
  %next = fadd {{type}} %whole, %unit
  %result = select i1 %far, {{type}} %next, {{type}} %whole
""",
    "roundeven": """\
  %raised = fadd {type} %magnitude, {limit}
  %result = fsub {type} %raised, {limit}
""",
}
_FORMATS = {"double": ("f64", "", 2.0**52), "float": ("f32", "f", 2.0**23)}
"""For each type, its name in intrinsics, the suffix in C, and the magnitude from which all values are integral."""


def rounding_functions() -> str:
    """The LLVM text of `floor`, `floorf`, `ceil`, ... Integral, infinite and NaN values are returned unchanged."""
    texts: list[str] = []
    for type_, (suffix, ending, limit) in _FORMATS.items():
        texts += [f"declare {type_} @llvm.{name}.{suffix}({type_}{', ' + type_ if name == 'copysign' else ''})"
                  for name in ("fabs", "copysign")]  # fmt: skip
        for name, body in _BODIES.items():
            filled = body.format(type=type_, suffix=suffix, limit=f"{limit:e}").rstrip()
            texts.append(
                _FUNCTION.format(type=type_, suffix=suffix, limit=f"{limit:e}", name=name + ending, body=filled)
            )
    return "\n".join(texts)
