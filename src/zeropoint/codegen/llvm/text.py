"""A builder of LLVM assembly: functions, typed values, structured loops, and intrinsics that are declared on use.

It supports only what kernels need. Instructions are plain text, which LLVM verifies and optimizes. Equal text gives
equal code, on which the cache of compiled kernels depends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from zeropoint.codegen.llvm.types import FLOATS, Value, bytes_of, constant, element, i64, lanes, suffix, vector


def _first(type_: str, count: int) -> Value:
    """A mask of the first `count` elements of a vector."""
    mask = ", ".join(f"i1 {int(index < count)}" for index in range(lanes(type_)))
    return Value(vector(lanes(type_), "i1"), f"<{mask}>")


def _operand(left: Value, right: Value | float) -> Value:
    """The right operand. A number becomes a literal of the type of the left operand."""
    return right if isinstance(right, Value) else constant(left.type, right)


class Module:
    """A module: functions, the intrinsics that they call and the tables that they read."""

    def __init__(self) -> None:
        self.functions: list[Function] = []
        self._declared: dict[str, str] = {}
        self._tables: list[str] = []

    def function(self, name: str, arguments: Sequence[tuple[str, str]], result: str = "void") -> Function:
        """A new function. Arguments are (type, name) pairs. The attributes of a pointer are part of its type."""
        function = Function(self, name, arguments, result)
        self.functions.append(function)
        return function

    def kernel(self, name: str, *pointers: str) -> Function:
        """A new kernel function. Arguments are `pointers` ("noalias NAME" if none aliases it), then i64 begin, end."""
        given = [("ptr" if "noalias" not in each else "ptr noalias", each.split()[-1]) for each in pointers]
        return self.function(name, [*given, ("i64", "begin"), ("i64", "end")])

    def declare(self, name: str, result: str, arguments: Sequence[str]) -> None:
        """Declare the function `name`."""
        self._declared[name] = f"declare {result} @{name}({', '.join(arguments)})"

    def table(self, values: Sequence[int]) -> Value:
        """Add a private constant array of i64, and return the pointer to its first element."""
        name = f"@table{len(self._tables)}"
        body = ", ".join(f"i64 {value}" for value in values)
        self._tables.append(f"{name} = private unnamed_addr constant [{len(values)} x i64] [{body}], align 64")
        return Value("ptr", name)

    def __str__(self) -> str:
        parts = [*sorted(self._declared.values()), *self._tables, *(str(function) for function in self.functions)]
        return "\n".join(parts) + "\n"


class Function:
    """A function under construction. Instructions are appended to the current block."""

    def __init__(self, module: Module, name: str, arguments: Sequence[tuple[str, str]], result: str):
        self.module = module
        self.arguments = [Value(type_.split()[0], f"%{argument}") for type_, argument in arguments]
        listed = ", ".join(f"{type_} %{argument}" for type_, argument in arguments)
        self._head = f"define {result} @{name}({listed}) nounwind alignstack(64) {{"
        self._early_lines: list[str] = []
        self._lines: list[str] = []
        self._block = "entry"
        self._count = 0

    def __str__(self) -> str:
        return "\n".join([self._head, "entry:", *self._early_lines, *self._lines, "}"])

    # Instructions.

    def emit(self, text: str) -> None:
        """Append an instruction without a result."""
        self._lines.append(f"  {text}")

    def let(self, type_: str, text: str) -> Value:
        """Append an instruction with a result of type `type_`."""
        self._count += 1
        name = f"%v{self._count}"
        self._lines.append(f"  {name} = {text}")
        return Value(type_, name)

    def binary(self, op: str, left: Value, right: Value | float) -> Value:
        """A binary instruction on two values of the same type, or on a value and a number."""
        return self.let(left.type, f"{op} {left.type} {left.name}, {_operand(left, right).name}")

    def add(self, left: Value, right: Value | int) -> Value:
        """The integer sum. Adding a literal 0 emits no instruction."""
        return left if right == 0 else self.binary("add", left, right)

    def mul(self, left: Value, right: Value | int) -> Value:
        """The integer product. Multiplying by a literal 1 emits no instruction."""
        return left if right == 1 else self.binary("mul", left, right)

    def compare(self, predicate: str, left: Value, right: Value | float) -> Value:
        """`icmp` of integers and pointers, `fcmp` of floats: an i1 or a vector of i1."""
        result = vector(lanes(left.type), "i1") if left.type.startswith("<") else "i1"
        instruction = "fcmp" if element(left.type) in FLOATS else "icmp"
        other = _operand(left, right)
        return self.let(result, f"{instruction} {predicate} {left.type} {left.name}, {other.name}")

    def select(self, condition: Value, yes: Value, no: Value) -> Value:
        """`yes` if the condition is true, else `no`. Elementwise for vectors."""
        return self.let(yes.type, f"select {condition}, {yes}, {no}")

    def cast(self, op: str, value: Value, type_: str) -> Value:
        """bitcast, trunc, zext, sext, sitofp, ..."""
        return value if value.type == type_ else self.let(type_, f"{op} {value} to {type_}")

    def bits(self, value: Value, type_: str) -> Value:
        """The same bits in another type."""
        return self.cast("bitcast", value, type_)

    def call(self, result: str, name: str, *arguments: Value) -> Value:
        """A call with a result. Declares the callee."""
        self.module.declare(name, result, [argument.type for argument in arguments])
        return self.let(result, f"call {result} @{name}({', '.join(map(str, arguments))})")

    def perform(self, name: str, *arguments: Value, effects: str = "") -> None:
        """A call without a result. Declares the callee. `effects` is an attribute of the call, such as its memory."""
        self.module.declare(name, "void", [argument.type for argument in arguments])
        self.emit(f"call void @{name}({', '.join(map(str, arguments))}) {effects}".rstrip())

    def delegate(self, name: str, *arguments: Value) -> None:
        """Call another function of this module with the same pointers, possibly offset, in the same order."""
        self.emit(f"call void @{name}({', '.join(map(str, arguments))})")

    def intrinsic(self, name: str, first: Value, *others: Value | float) -> Value:
        """`llvm.name` of operands of one type, with a result of that type."""
        operands = [first, *(_operand(first, other) for other in others)]
        return self.call(first.type, f"llvm.{name}.{suffix(first.type)}", *operands)

    def run_kernel(self, name: str, arguments: Sequence[Value], tasks: int, number: int) -> None:
        """Run all tasks of a kernel, whose step is `number` after this one."""
        del number  # only the debug build needs it
        self.perform(name, *arguments, i64(0), i64(tasks))

    def clamp(self, value: Value, low: int, high: int) -> Value:
        """Signed integers clamped to [low, high]."""
        return self.intrinsic("smin", self.intrinsic("smax", value, low), high)

    def divided(self, value: Value, by: int) -> tuple[Value, Value]:
        """The quotient and remainder of an unsigned 64-bit scalar."""
        quotient = self.binary("udiv", value, i64(by))
        return quotient, self.binary("sub", value, self.mul(quotient, by))

    def joined(self, type_: str, scalars: Iterable[Value]) -> Value:
        """A vector of some scalars."""
        value = Value(type_, "poison")
        for lane, scalar in enumerate(scalars):
            value = self.let(type_, f"insertelement {value}, {scalar}, i64 {lane}")
        return value

    def lane(self, value: Value, number: int) -> Value:
        """One element of a vector."""
        return self.let(element(value.type), f"extractelement {value}, i64 {number}")

    def minimum(self, left: Value, right: Value) -> Value:
        """The smaller of two signed 64-bit scalars."""
        return self.intrinsic("smin", left, right)

    def maximum(self, left: Value, right: Value) -> Value:
        """The larger of two signed 64-bit scalars."""
        return self.intrinsic("smax", left, right)

    def shuffle(self, left: Value, right: Value | None, indices: Sequence[int]) -> Value:
        """`shufflevector`: indices select elements of left, then right. -1 gives an undefined element."""
        other = "poison" if right is None else right.name
        mask = ", ".join("i32 poison" if index < 0 else f"i32 {index}" for index in indices)
        result = vector(len(indices), element(left.type))
        return self.let(result, f"shufflevector {left}, {left.type} {other}, <{len(indices)} x i32> <{mask}>")

    def concatenated(self, vectors: Sequence[Value]) -> Value:
        """The concatenation of vectors of one type. Their number must be a power of two."""
        while len(vectors) > 1:
            every = range(2 * lanes(vectors[0].type))
            vectors = [self.shuffle(low, high, every) for low, high in zip(vectors[::2], vectors[1::2], strict=True)]
        return vectors[0]

    def broadcast(self, scalar: Value, count: int) -> Value:
        """A vector with the scalar in every element."""
        type_ = vector(count, scalar.type)
        first = self.let(type_, f"insertelement {type_} poison, {scalar}, i64 0")
        return self.shuffle(first, None, [0] * count)

    # Memory. Offsets are in bytes.

    def scratch(self, size: int) -> Value:
        """The address of `size` bytes on the stack, valid until the function returns."""
        self._count += 1
        name = f"%s{self._count}"
        self._early_lines.append(f"  {name} = alloca [{size} x i8], align 64")
        return Value("ptr", name)

    def at(self, pointer: Value, offset: Value | int) -> Value:
        """`pointer + offset`."""
        if isinstance(offset, int):
            if offset == 0:
                return pointer
            offset = i64(offset)
        return self.let("ptr", f"getelementptr inbounds i8, {pointer}, {offset}")

    def load(self, type_: str, pointer: Value, offset: Value | int = 0, align: int = 1) -> Value:
        """Load a value of type `type_` from `pointer + offset`."""
        address = self.at(pointer, offset)
        self.touch(address, bytes_of(type_), align)
        return self.let(type_, f"load {type_}, {address}, align {align}")

    def vectors(self, type_: str, pointer: Value, count: int, first: int = 0) -> list[Value]:
        """Load `count` aligned vectors that are side by side, after the `first` ones."""
        size = bytes_of(type_)
        return [self.load(type_, pointer, (first + n) * size, align=size) for n in range(count)]

    def store(self, value: Value, pointer: Value, offset: Value | int = 0, align: int = 1) -> None:
        """Write `value` to `pointer + offset`."""
        address = self.at(pointer, offset)
        self.touch(address, bytes_of(value.type), align, write=True)
        self.emit(f"store {value}, {address}, align {align}")

    def touch(self, pointer: Value, size: int, align: int = 1, *, write: bool = False) -> None:
        """Called before `size` bytes are read or written. Does nothing here; the debug build checks (`checked.py`)."""

    def touch_rows(self, pointer: Value, rows: int, stride: int, size: int, *, write: bool = False) -> None:
        """Like `touch`, for rows of `size` bytes that are `stride` bytes apart."""

    def touch_each(self, pointer: Value, offsets: Value, size: int, align: int) -> None:
        """Like `touch`, for reads of `size` bytes at each offset from the pointer."""

    def copy(self, target: Value, source: Value, size: int) -> None:
        """Copy `size` bytes. The two ranges must not overlap."""
        self.touch(source, size)
        self.touch(target, size, write=True)
        self.perform("llvm.memcpy.p0.p0.i64", target, source, i64(size), Value("i1", "false"))

    def fill(self, target: Value, byte: int, size: int) -> None:
        """Set `size` bytes to `byte`."""
        self.touch(target, size, write=True)
        self.perform("llvm.memset.p0.i64", target, Value("i8", str(byte)), i64(size), Value("i1", "false"))

    def load_first(self, type_: str, count: int, pointer: Value, offset: Value | int = 0) -> Value:
        """Load the first `count` elements of a vector. Memory after them is not read, and the other elements are 0."""
        if count == lanes(type_):
            return self.load(type_, pointer, offset)
        nothing = Value(type_, "zeroinitializer")
        address = self.at(pointer, offset)
        self.touch(address, count * bytes_of(element(type_)))
        return self.call(
            type_, f"llvm.masked.load.{suffix(type_)}.p0", address, Value("i32", "1"), _first(type_, count), nothing
        )

    def store_first(self, value: Value, count: int, pointer: Value, offset: Value | int = 0) -> None:
        """Store the first `count` elements of a vector. Memory after them is not written."""
        if count == lanes(value.type):
            return self.store(value, pointer, offset)
        if count & (count - 1) == 0:
            return self.store(self.shuffle(value, None, range(count)), pointer, offset)
        address = self.at(pointer, offset)
        self.touch(address, count * bytes_of(element(value.type)), write=True)
        name, mask = f"llvm.masked.store.{suffix(value.type)}.p0", _first(value.type, count)
        self.perform(name, value, address, Value("i32", "1"), mask)
        return None

    def gather(self, type_: str, pointer: Value, offsets: Value, align: int) -> Value:
        """Load a vector of elements from `pointer` plus `offsets`, a vector of i64 in bytes."""
        self.touch_each(pointer, offsets, bytes_of(element(type_)), align)
        count = lanes(type_)
        addresses = self.let(vector(count, "ptr"), f"getelementptr i8, {pointer}, {offsets}")
        every, nothing = Value(vector(count, "i1"), "splat (i1 true)"), Value(type_, "zeroinitializer")
        name = f"llvm.masked.gather.v{count}{element(type_)}.v{count}p0"
        return self.call(type_, name, addresses, Value("i32", str(align)), every, nothing)

    def fresh(self, pointer: Value) -> Value:
        """The same pointer, made opaque to LLVM, so that loads through it are not hoisted out of a loop.

        The weights of a kernel do not fit the registers, so hoisted loads would only be spilled to the stack.
        """
        return self.call("ptr", "llvm.launder.invariant.group.p0", pointer)

    def pinned(self, value: Value) -> Value:
        """The same vector of one element. LLVM computes an i32 or i64 here, and does not sink it after a later loop."""
        if element(value.type) not in ("i32", "i64"):
            return value
        scalar = self.lane(value, 0)
        return self.broadcast(self.let(scalar.type, f'call {scalar.type} asm sideeffect "", "=r,0"({scalar})'), 1)

    def prefetch(self, pointer: Value, offset: Value | int = 0) -> None:
        """Prefetch a cache line into L2. Any address is allowed."""
        self.module.declare("llvm.prefetch.p0", "void", ["ptr", "i32", "i32", "i32"])
        address = self.let("ptr", f"getelementptr i8, {pointer}, {i64(offset) if isinstance(offset, int) else offset}")
        self.emit(f"call void @llvm.prefetch.p0({address}, i32 0, i32 2, i32 1)")

    # Control.

    def ret(self, value: Value | None = None) -> None:
        """Return."""
        self.emit("ret void" if value is None else f"ret {value}")

    def loop(
        self,
        begin: Value | int,
        end: Value | int,
        step: int,
        body: Callable[[Value, list[Value]], Sequence[Value] | None],
        carried: Sequence[Value] = (),
        *,
        entered: bool = False,
    ) -> list[Value]:
        """for (i = begin; i < end; i += step) carried = body(i, carried). Returns the final carried values.

        `entered` states that the loop runs at least once, which saves a branch.
        """
        start, stop = (i64(x) if isinstance(x, int) else x for x in (begin, end))
        index = self._label()
        head, inside, done = f"head{index}", f"body{index}", f"done{index}"
        before = self._block
        self.emit(f"br label %{head}")
        self._open(head)
        counter = Value("i64", f"%i{index}")
        phis = len(self._lines)
        self._lines += [""] * (1 + len(carried))
        values = [Value(value.type, f"%c{index}.{n}") for n, value in enumerate(carried)]
        if not entered:
            proceed = self.compare("slt", counter, stop)
            self.emit(f"br {proceed}, label %{inside}, label %{done}")
            self._open(inside)
        after = list(body(counter, values) or ())
        following = self.add(counter, step)
        latch = self._block
        if entered:
            again = self.compare("slt", following, stop)
            self.emit(f"br {again}, label %{head}, label %{done}")
        else:
            self.emit(f"br label %{head}")
        pairs = [(counter, start, following), *zip(values, carried, after, strict=True)]
        for n, (phi, first, last) in enumerate(pairs):
            self._lines[phis + n] = (
                f"  {phi.name} = phi {phi.type} [ {first.name}, %{before} ], [ {last.name}, %{latch} ]"
            )
        self._open(done)
        return after if entered else values

    def repeat(self, turn: Callable[[], Value]) -> None:
        """do again = turn() while (again)."""
        index = self._label()
        self.emit(f"br label %turn{index}")
        self._open(f"turn{index}")
        again = turn()
        self.emit(f"br {again}, label %turn{index}, label %end{index}")
        self._open(f"end{index}")

    def branch(self, condition: Value, yes: Callable[[], None], no: Callable[[], None] | None = None) -> None:
        """if (condition) yes() else no()."""
        index = self._label()
        then, otherwise, joined = f"then{index}", f"else{index}", f"join{index}"
        self.emit(f"br {condition}, label %{then}, label %{otherwise if no else joined}")
        self._open(then)
        yes()
        self.emit(f"br label %{joined}")
        if no is not None:
            self._open(otherwise)
            no()
            self.emit(f"br label %{joined}")
        self._open(joined)

    def leave(self, condition: Value, last: Callable[[], None]) -> None:
        """if (condition) last(). `last` must end with a return."""
        index = self._label()
        leaving, staying = f"leave{index}", f"stay{index}"
        self.emit(f"br {condition}, label %{leaving}, label %{staying}")
        self._open(leaving)
        last()
        self._open(staying)

    def _early(self, type_: str, text: str) -> Value:
        """Emit an instruction at the start of the function."""
        self._count += 1
        self._early_lines.append(f"  %e{self._count} = {text}")
        return Value(type_, f"%e{self._count}")

    def _label(self) -> int:
        self._count += 1
        return self._count

    def _open(self, label: str) -> None:
        self._lines.append(f"{label}:")
        self._block = label
