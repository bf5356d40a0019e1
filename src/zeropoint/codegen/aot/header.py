"""Generate the C header of a program that was compiled ahead of time."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr
from xdsl.dialects.func import ReturnOp
from xdsl.ir import SSAValue

from zeropoint.codegen.llvm.machine import CodegenError
from zeropoint.codegen.memory import Arena
from zeropoint.codegen.parameters import ALIGNMENT
from zeropoint.ir.annotations import EXPRESSED
from zeropoint.ir.program import Program
from zeropoint.ir.quant import UniformQuantizedType
from zeropoint.ir.stablehlo import UniformDequantizeOp, UniformQuantizeOp
from zeropoint.ir.tensors import element_dtype, element_of, shape_of

SYNC_SIZE = 128
"""The size in bytes of the block that the threads of a call share: the barrier of `zeropoint.codegen.driver`."""
INVALID = 1
"""The return value for a null or misaligned pointer, an invalid thread number, or a boolean that is not 0 or 1."""

ENDLESS = 2
"""The return value if the loops of a run would exceed the limit of trips (`zeropoint.limits`)."""

NO_TILES = 3
"""The return value if the system does not let the process use tile registers."""

C_TYPES = {"bool": "uint8_t", "float32": "float", "float64": "double"} | {
    f"{sign}int{bits}": f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)
}
"""C types by NumPy dtype name."""
RESERVED = frozenset(
    re.findall(
        r"\w+",
        """
        ALIGNAS ALIGNOF AND AND_EQ ASM AUTO BITAND BITOR BOOL BREAK CASE CATCH CHAR CHAR8_T CHAR16_T CHAR32_T CLASS
        COMPL CONCEPT CONST CONSTEVAL CONSTEXPR CONSTINIT CONST_CAST CONTINUE CO_AWAIT CO_RETURN CO_YIELD DECLTYPE
        DEFAULT DELETE DO DOUBLE DYNAMIC_CAST ELSE ENUM EXPLICIT EXPORT EXTERN FALSE FLOAT FOR FRIEND GOTO IF INLINE
        INT LONG MUTABLE NAMESPACE NEW NOEXCEPT NOT NOT_EQ NULLPTR OPERATOR OR OR_EQ PRIVATE PROTECTED PUBLIC REGISTER
        REINTERPRET_CAST REQUIRES RESTRICT RETURN SHORT SIGNED SIZEOF STATIC STATIC_ASSERT STATIC_CAST STRUCT SWITCH
        TEMPLATE THIS THREAD_LOCAL THROW TRUE TRY TYPEDEF TYPEID TYPENAME TYPEOF TYPEOF_UNQUAL UNION UNSIGNED USING
        VIRTUAL VOID VOLATILE WCHAR_T WHILE XOR XOR_EQ
        ARENA EOF ERRNO I I386 LINUX NULL SYNC THREAD THREADS UNIX
        """,
    )
)
"""Names that parameters cannot have, in capitals: keywords of C and C++, macros, and the other parameters of the
functions. Sources: C23, 6.4.1; C++20, [lex.key]; GCC predefines `linux`, `unix` and `i386`."""

STDINT = re.compile(
    r"(U?INT((_FAST|_LEAST)?(8|16|32|64)|MAX|PTR)|SIZE|PTRDIFF|WCHAR|WINT|SIG_ATOMIC)_(T|MAX|MIN|WIDTH)|U?INT(8|16|32|64|MAX)_C"
)
"""Types and macros of <stdint.h>, in capitals. Parameters cannot have these names, either. Source: C23, 7.22."""


@dataclass(frozen=True)
class CArgument:
    """An input or output: `name` in C, `port` in the program.

    `quantized` is its quantized type, if it has one. If `boolean`, its elements are bytes of 0 or 1.
    """

    port: str
    name: str
    type: str
    shape: tuple[int, ...]
    itemsize: int
    quantized: UniformQuantizedType | None
    output: bool
    boolean: bool

    @property
    def size(self) -> int:
        """Total size in bytes."""
        return math.prod(self.shape) * self.itemsize

    @property
    def declaration(self) -> str:
        """The declaration as a parameter of a C function."""
        return f"{'' if self.output else 'const '}{self.type} *{self.name}"


def arguments_of(program: Program) -> list[CArgument]:
    """The inputs, then the outputs. Raises CodegenError for an element type without a C type."""
    function, terminator = program.main, program.entry.last_op
    assert isinstance(terminator, ReturnOp)
    taken: set[str] = set()
    result: list[CArgument] = []
    for output, ports, values, attributes in (
        (False, program.inputs, program.entry.args, function.arg_attrs),
        (True, program.outputs, terminator.operands, function.res_attrs),
    ):
        for index, (port, value) in enumerate(zip(ports, values, strict=True)):
            dtype = element_dtype(element_of(port.type))
            if dtype.name not in C_TYPES:
                kind = "output" if output else "input"
                raise CodegenError(f"{kind} '{port.name}': found {port.type}, expected an element type that C has")
            shape = shape_of(port.type)
            quantized = _expressed(attributes, index) or (_dequantized(value) if output else _quantized(value))
            name, type_, boolean = _identifier(port.name, taken), C_TYPES[dtype.name], dtype.kind == "b"
            result.append(CArgument(port.name, name, type_, shape, dtype.itemsize, quantized, output, boolean))
    return result


def _expressed(attributes: ArrayAttr[DictionaryAttr] | None, index: int) -> UniformQuantizedType | None:
    found = None if attributes is None else attributes.data[index].data.get(EXPRESSED)
    return found if isinstance(found, UniformQuantizedType) else None


def _quantized(value: SSAValue) -> UniformQuantizedType | None:
    """The quantized type that a float input is converted to; None if there is none or several."""
    types = {element_of(use.operation.results[0]) for use in value.uses if isinstance(use.operation, UniformQuantizeOp)}
    (found, *others) = types or (None,)
    return found if isinstance(found, UniformQuantizedType) and not others else None


def _dequantized(value: SSAValue) -> UniformQuantizedType | None:
    found = element_of(value.owner.operand) if isinstance(value.owner, UniformDequantizeOp) else None
    return found if isinstance(found, UniformQuantizedType) else None


def _identifier(name: str, taken: set[str]) -> str:
    """A unique C identifier derived from `name`. Two may not differ only in case, because macros are in capitals."""
    base = re.sub(r"\W", "_", name, flags=re.ASCII).strip("_") or "value"
    base = f"_{base}" if base[0].isdigit() else base
    chosen, number = base, 1
    while chosen.upper() in taken | RESERVED or STDINT.fullmatch(chosen.upper()):
        number += 1
        chosen = f"{base}_{number}"
    taken.add(chosen.upper())
    return chosen


def header(
    name: str,
    arguments: Sequence[CArgument],
    arena: Arena,
    target: str,
    profile: str | None,
    limit: int | None = None,
    *,
    tiles: bool = False,
) -> str:
    """The text of `name`.h. `arena` is the memory that a run needs, and `target` describes the processor.

    `limit` is the maximum number of trips of a run, if there are loops. `tiles` says that the code uses tile registers.
    """
    prefix = name.upper()
    sizes = {
        "ALIGNMENT": f"{ALIGNMENT} /* of the arena and of sync, in bytes */",
        "ARENA_SIZE": f"{arena.size} /* bytes that a run needs; lower bound of any plan: {arena.lower_bound} */",
        "SYNC_SIZE": f"{SYNC_SIZE} /* bytes shared by the threads of a run */",
        "INPUTS": str(sum(not argument.output for argument in arguments)),
        "OUTPUTS": str(sum(argument.output for argument in arguments)),
    }
    declared = ", ".join(argument.declaration for argument in arguments)
    return _HEADER.format(
        name=name,
        prefix=prefix,
        target=_commented(target),
        profile=f"; numerics profile {_commented(profile)}" if profile else "",
        sizes=_macros(prefix, sizes),
        arguments="\n".join(_described(prefix, argument) for argument in arguments),
        declared=declared,
        invalid=INVALID,
        endless=_ENDLESS.format(endless=ENDLESS, limit=limit) if limit else "",
        tiles=_TILES.format(code=NO_TILES) if tiles else "",
        refused=", or a boolean input has another byte than 0 and 1" if any(map(_refusable, arguments)) else "",
    )


def _refusable(argument: CArgument) -> bool:
    return argument.boolean and not argument.output


def selection(name: str, programs: Mapping[str, Sequence[CArgument]]) -> str:
    """The text of the function that selects one of several programs by the sizes of its inputs.

    `programs` maps prefixes to arguments. Raises CodegenError for programs that do not have the same C types.
    """
    types = {tuple(argument.declaration for argument in arguments) for arguments in programs.values()}
    if len(types) > 1:
        raise CodegenError("found programs with different inputs or outputs in C, expected those of one network")
    ranks = {tuple(len(argument.shape) for argument in _inputs(arguments)) for arguments in programs.values()}
    if len(ranks) > 1:
        raise CodegenError("found programs with inputs of different ranks, expected those of one network")
    first = next(iter(programs.values()))
    sizes = [f"{argument.name}_{dim}" for argument in _inputs(first) for dim in range(len(argument.shape))]
    rows: list[str] = []
    for prefix, arguments in programs.items():
        extents = [extent for argument in _inputs(arguments) for extent in argument.shape]
        fits = " && ".join(f"{size} == {extent}" for size, extent in zip(sizes, extents, strict=True))
        rows.append(f"  if ({fits}) {{ found.run = {prefix}_run; found.arena_size = {prefix.upper()}_ARENA_SIZE; }}")
    return _SELECTION.format(
        name=name,
        prefix=name.upper(),
        declared=", ".join(types.pop()),
        sizes=", ".join(f"int64_t {size}" for size in sizes) or "void",
        rows="\n".join(rows),
    )


def _inputs(arguments: Sequence[CArgument]) -> list[CArgument]:
    return [argument for argument in arguments if not argument.output]


def _described(prefix: str, argument: CArgument) -> str:
    """The comment and the macros of an argument."""
    shape = "".join(f"[{extent}]" for extent in argument.shape)
    kind = "Output" if argument.output else "Input"
    lines = [f"{kind} '{_commented(argument.port)}': {argument.type} {argument.name}{shape}, row-major."]
    macros = {"ELEMENTS": str(math.prod(argument.shape)), "SIZE": f"{argument.size} /* bytes */"}
    if argument.boolean:
        lines.append("It holds booleans: bytes of 0 or 1.")
    quantized = argument.quantized
    if quantized is not None and len(quantized.scales) == 1:
        low, high = quantized.storage.minimum, quantized.storage.maximum
        if argument.type != "float":
            lines.append("It holds stored integers q, which represent the real numbers SCALE * (q - ZERO_POINT).")
        elif argument.output:
            lines.append("Its values are SCALE * (q - ZERO_POINT) for stored integers q.")
        else:
            lines.append("It is rounded to the nearest SCALE * (q - ZERO_POINT) and clamped to the range of q.")
        macros |= {
            "SCALE": f"{_float(quantized.scales[0])}",
            "ZERO_POINT": f"({quantized.zero_points[0]})",
            "MINIMUM": f"({low}) /* of q */",
            "MAXIMUM": f"({high}) /* of q */",
        }
    comment = "\n   ".join(lines)
    return f"/* {comment} */\n{_macros(f'{prefix}_{argument.name.upper()}', macros)}\n"


def _macros(prefix: str, values: Mapping[str, str]) -> str:
    return "\n".join(f"#define {prefix}_{key} {value}" for key, value in values.items())


def _float(value: float) -> str:
    """A C literal of an f32, which round-trips exactly."""
    text = np.format_float_scientific(np.float32(value), unique=True, trim="0")
    return f"{text}f"


def _commented(text: str) -> str:
    """Text that is safe inside a C comment."""
    return re.sub(r"[^ -~]", "?", text).replace("*/", "* /").replace("/*", "/ *")


_HEADER = """\
/* {name}: an integer program as machine code for {target}{profile}.

   The weights are in the object, read-only. A run allocates no memory and calls only memset, memcpy and sched_yield of
   libc. Several runs may be active at the same time if each has its own arena and outputs. */
#ifndef {prefix}_H
#define {prefix}_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif

{sizes}

{arguments}
/* Runs the program once, in the calling thread.

   `arena` points to {prefix}_ARENA_SIZE bytes, aligned to {prefix}_ALIGNMENT; its contents before and after the call do
   not matter. Inputs and outputs are the arrays above, aligned to their element size. They must not overlap each other
   or the arena. Returns 0, or {invalid} if a pointer is NULL or misaligned{refused}; then
   nothing was run.{tiles}{endless} */
int {name}_run(void *arena, {declared});

/* Runs the program once, with several threads. The results are the same bits as with one thread.

   Each of `threads` threads calls this function with its own number `thread`, from 0 to threads - 1, and otherwise the
   same arguments. Each call returns when all outputs are written. `sync` points to {prefix}_SYNC_SIZE bytes, aligned to
   {prefix}_ALIGNMENT and zero before the first run; consecutive runs may share it. With one thread, `sync` may be NULL.
   Returns 0, or {invalid} if another pointer is NULL or one is misaligned or `thread` is out of range{refused}; then
   nothing was run.{tiles}{endless} */
int {name}_run_thread(int64_t thread, int64_t threads, void *sync, void *arena, {declared});

#ifdef __cplusplus
}}
#endif

#endif
"""

_ENDLESS = """
   Returns {endless}, at least in one thread, if a loop goes on after {limit} trips of all loops; then the outputs
   are not valid."""

_TILES = """
   Returns {code}, and runs nothing, if Linux does not let the process use tile registers (AMX). A run asks for them
   with the system call arch_prctl."""

_SELECTION = """\
#ifndef {prefix}_FIND
#define {prefix}_FIND

typedef struct {{
  int (*run)(void *arena, {declared});
  int64_t arena_size;
}} {name}_program;

/* The program for inputs of these sizes; `run` is 0 if there is none. */
static inline {name}_program {name}_find({sizes}) {{
  {name}_program found = {{0, 0}};
{rows}
  return found;
}}

#endif
"""
