"""Parameters of C functions: inputs whose names mean something else in C or C++."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from zeropoint.codegen.aot.header import arguments_of, header
from zeropoint.codegen.memory import Arena
from zeropoint.ir.text import parse_program

C23 = """
alignas alignof auto bool break case char const constexpr continue default do double else enum extern false float
for goto if inline int long nullptr register restrict return short signed sizeof static static_assert struct switch
thread_local true typedef typeof typeof_unqual union unsigned void volatile while"""
CPP20 = """alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class
compl concept const consteval constexpr constinit const_cast continue co_await co_return co_yield decltype default
delete do double dynamic_cast else enum explicit export extern false float for friend goto if inline int long mutable
namespace new noexcept not not_eq nullptr operator or or_eq private protected public register reinterpret_cast requires
return short signed sizeof static static_assert static_cast struct switch template this thread_local throw true try
typedef typeid typename union unsigned using virtual void volatile wchar_t while xor xor_eq"""
OTHERS = """int8_t uint8_t int16_t uint16_t int32_t uint32_t int64_t uint64_t size_t NULL INT8_MAX SIZE_MAX
linux unix i386 EOF errno I arena sync thread threads"""
"""Types and macros of headers, macros that GCC predefines, and the other parameters."""
INCLUDED = "#include <complex.h>\n#include <errno.h>\n#include <stddef.h>\n#include <stdint.h>\n#include <stdio.h>\n"


@pytest.mark.parametrize("compiler", [("gcc", "c", "gnu17"), ("gcc", "c", "gnu2x"), ("g++", "c++", "c++20")])
def test_inputs_may_have_any_name(compiler: tuple[str, str, str], tmp_path: Path) -> None:
    if shutil.which(compiler[0]) is None:
        pytest.skip(f"{compiler[0]} is not installed")
    names = list(dict.fromkeys(f"{C23} {CPP20} {OTHERS}".split()))
    inputs = ", ".join(f'%a{i}: tensor<1xi8> {{zeropoint.name = "{name}"}}' for i, name in enumerate(names))
    outputs = "tensor<1xi64>"
    program = parse_program(f"""func.func @main({inputs}, %b: {outputs}) -> {outputs} {{
      return %b : {outputs}
    }}""")
    (tmp_path / "net.h").write_text(header("net", arguments_of(program), Arena(128, 64), "any", None))
    command, language, standard = compiler
    (tmp_path / "main.c").write_text((INCLUDED if language == "c" else "") + '#include "net.h"\n')
    flags = ["-fsyntax-only", "-x", language, f"-std={standard}", "main.c"]
    made = subprocess.run([command, *flags], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert not made.returncode, made.stderr
