"""The builder of the debug build, which emits a check before every load and store.

```
  %pointer = getelementptr i8, ptr %out, i64 %offset      ; not `inbounds`, from which LLVM could infer that it is
  %address = ptrtoint ptr %pointer to i64
  %end = add i64 %address, 64
  %under = icmp ult i64 %address, %low
  %over = icmp ugt i64 %end, %high
  %bad = or i1 %under, %over
  br i1 %bad, label %fault, label %good
fault:
  call void @fault(ptr %bounds, i64 2, i64 %address, i64 64, i64 1)
  ret void
good:
  store <16 x i32> %value, ptr %pointer, align 64
```

A pointer may access only the memory of the argument that it was derived from. Pointers to the stack and to tables may
access only these. Functions have an additional argument, a pointer to a `Layout`. The first fault is recorded, and the
function returns without the access. The caller continues, and all later accesses are still checked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from zeropoint.codegen.llvm.text import Function, Module
from zeropoint.codegen.llvm.types import Value, i64, lanes


class Layout:
    """Byte offsets in the block at `%bounds`: number of the step, address of the record, size of the block, ranges.

    The block of a loop or branch is followed by the blocks of the steps inside of it.

    The entry of an argument has four addresses: the begin and end for loads, and the begin and end for stores. The
    record has six i64: whether it is in use, and the step, pointer, address, size and kind of the first fault.
    """

    STEP = 0
    RECORD = 8
    STRIDE = 16
    RANGES = 24
    ENTRY = 32
    RECORD_SIZE = 6


LOAD, STORE, MISALIGNED = range(3)
"""The kinds of faults."""
STACK, TABLE = -1, -2
"""The numbers of pointers that are not arguments."""

_FAULT = """
define internal void @fault(ptr %bounds, i64 %pointer, i64 %address, i64 %size, i64 %kind) noinline cold nounwind {
  %place = getelementptr i8, ptr %bounds, i64 8
  %record = load ptr, ptr %place, align 8
  %taken = atomicrmw xchg ptr %record, i64 1 seq_cst
  %first = icmp eq i64 %taken, 0
  br i1 %first, label %keep, label %done
keep:
  %step = load i64, ptr %bounds, align 8
  %p1 = getelementptr i8, ptr %record, i64 8
  %p2 = getelementptr i8, ptr %record, i64 16
  %p3 = getelementptr i8, ptr %record, i64 24
  %p4 = getelementptr i8, ptr %record, i64 32
  %p5 = getelementptr i8, ptr %record, i64 40
  store i64 %step, ptr %p1, align 8
  store i64 %pointer, ptr %p2, align 8
  store i64 %address, ptr %p3, align 8
  store i64 %size, ptr %p4, align 8
  store i64 %kind, ptr %p5, align 8
  br label %done
done:
  ret void
}
"""


@dataclass(frozen=True)
class _Origin:
    """The origin of a pointer: an argument, by its number among pointers, or a block of bytes at `base`."""

    pointer: int
    base: Value
    size: int = 0


class CheckedModule(Module):
    """A module whose functions check memory accesses."""

    def __init__(self) -> None:
        super().__init__()
        self.tables: dict[str, int] = {}

    def function(self, name: str, arguments: Sequence[tuple[str, str]], result: str = "void") -> Function:
        """A new function, with `ptr %bounds` as its last argument."""
        function = CheckedFunction(self, name, arguments, result)
        self.functions.append(function)
        return function

    def table(self, values: Sequence[int]) -> Value:
        """Add a private constant array of i64, and return the pointer to its first element."""
        table = super().table(values)
        self.tables[table.name] = 8 * len(values)
        return table

    def __str__(self) -> str:
        return super().__str__() + _FAULT


class CheckedFunction(Function):
    """A function that tracks the origins of its pointers and checks every access."""

    def __init__(self, module: CheckedModule, name: str, arguments: Sequence[tuple[str, str]], result: str):
        super().__init__(module, name, [*arguments, ("ptr", "bounds")], result)
        self._bounds = self.arguments.pop()
        self._tables = module.tables
        pointers = [argument for argument in self.arguments if argument.type == "ptr"]
        self._origins = {pointer.name: _Origin(n, pointer) for n, pointer in enumerate(pointers)}
        self._ranges: dict[tuple[str, bool], tuple[Value, Value]] = {}

    def _origin(self, pointer: Value) -> _Origin:
        """The origin of a pointer. Raises ValueError if this builder did not derive it from another pointer."""
        if pointer.name in self._tables:
            return _Origin(TABLE, pointer, self._tables[pointer.name])
        if pointer.name not in self._origins:
            raise ValueError(f"found the pointer {pointer.name} of unknown origin, expected one of `at` or `fresh`")
        return self._origins[pointer.name]

    def at(self, pointer: Value, offset: Value | int) -> Value:
        """`pointer + offset`. Without `inbounds`, because LLVM could infer from it that the access is valid."""
        if offset == 0:
            return pointer
        made = self.let("ptr", f"getelementptr i8, {pointer}, {i64(offset) if isinstance(offset, int) else offset}")
        self._origins[made.name] = self._origin(pointer)
        return made

    def fresh(self, pointer: Value) -> Value:
        """The same pointer, made opaque to LLVM."""
        made = super().fresh(pointer)
        self._origins[made.name] = self._origin(pointer)
        return made

    def scratch(self, size: int) -> Value:
        """The address of `size` bytes on the stack, valid until the function returns."""
        made = super().scratch(size)
        self._origins[made.name] = _Origin(STACK, made, size)
        return made

    def delegate(self, name: str, *arguments: Value) -> None:
        """Call another function of this module with the same pointers, possibly offset, in the same order."""
        pointers = [self._origin(argument).pointer for argument in arguments if argument.type == "ptr"]
        # The callee finds bounds by the number of the pointer, so both functions must number pointers equally.
        if pointers != list(range(len(pointers))):
            raise ValueError(f"found pointers of arguments {pointers} for {name}, expected them in order")
        super().delegate(name, *arguments, self._bounds)

    def run_kernel(self, name: str, arguments: Sequence[Value], tasks: int, number: int) -> None:
        """Run all tasks of a kernel, with the bounds of the step that is `number` after this one."""
        place = self.let("ptr", f"getelementptr i8, {self._bounds}, i64 {Layout.STRIDE}")
        size = self.let("i64", f"load i64, {place}, align 8")
        bounds = self.let("ptr", f"getelementptr i8, {self._bounds}, {self.mul(size, number)}")
        self.perform(name, *arguments, i64(0), i64(tasks), bounds)

    def touch(self, pointer: Value, size: int, align: int = 1, *, write: bool = False) -> None:
        """Report a fault and return, unless `size` bytes at `pointer` are within its bounds and aligned to `align`."""
        origin = self._origin(pointer)
        low, high = self._range(origin, write)
        address = self.let("i64", f"ptrtoint {pointer} to i64")
        # The comparison is unsigned, so that an address that wraps around below 0 is far above the end.
        outside = [self.compare("ult", address, low), self.compare("ugt", self.add(address, size), high)]
        kind = i64(STORE if write else LOAD)
        self._report(self.binary("or", *outside), origin, address, size, kind)
        if align > 1:
            # LLVM may use aligned instructions for the stated alignment. They fault at other addresses, which the debug
            # build reports.
            rest = self.binary("and", address, i64(align - 1))
            self._report(self.compare("ne", rest, 0), origin, address, size, i64(MISALIGNED))

    def touch_rows(self, pointer: Value, rows: int, stride: int, size: int, *, write: bool = False) -> None:
        """Report a fault and return, unless all rows are within the pointer's bounds."""
        for row in range(rows):
            self.touch(self.at(pointer, row * stride), size, write=write)

    def touch_each(self, pointer: Value, offsets: Value, size: int, align: int) -> None:
        """Report a fault and return, unless `size` bytes at each offset are within the pointer's bounds and aligned."""
        # A gather may read any address, so each lane is checked.
        for lane in range(lanes(offsets.type)):
            self.touch(self.at(pointer, self.lane(offsets, lane)), size, align)

    def _report(self, bad: Value, origin: _Origin, address: Value, size: int, kind: Value) -> None:
        said = ", ".join(map(str, (self._bounds, i64(origin.pointer), address, i64(size), kind)))

        def fault() -> None:
            self.emit(f"call void @fault({said})")
            self.emit("ret void")

        self.leave(bad, fault)

    def _range(self, origin: _Origin, write: bool) -> tuple[Value, Value]:
        """The address range that a pointer may access. It is loaded once, at the start of the function."""
        key = (origin.base.name, write)
        if key not in self._ranges:
            if origin.pointer < 0:
                # Tables are constants, so their range for stores is empty.
                end = i64(0) if write and origin.pointer == TABLE else i64(origin.size)
                low = self._early("i64", f"ptrtoint {origin.base} to i64")
                self._ranges[key] = low, self._early("i64", f"add {low}, {end.name}")
            else:
                offset = Layout.RANGES + Layout.ENTRY * origin.pointer + 16 * write
                slots = [self._early("ptr", f"getelementptr i8, {self._bounds}, i64 {offset + n}") for n in (0, 8)]
                low, high = (self._early("i64", f"load i64, {slot}, align 8") for slot in slots)
                self._ranges[key] = low, high
        return self._ranges[key]
