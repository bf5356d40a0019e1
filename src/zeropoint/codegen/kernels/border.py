"""Fill the padding around an image: rows above and below, and the gaps between rows."""

from __future__ import annotations

from dataclasses import dataclass

from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.llvm.text import Module
from zeropoint.codegen.llvm.types import Value


@dataclass(frozen=True)
class Border:
    """`images` of `rows` rows, the first at the pointer, with `gap` bytes after each row except the last.

    All sizes are in bytes. There are `before` bytes before the first row, and `after` bytes after the last.
    """

    images: int
    rows: int
    row: int
    image: int
    length: int
    before: int
    after: int
    value: int

    def tasks(self, isa: InstructionSet) -> int:
        """One per row."""
        return self.images * self.rows

    def emit(self, module: Module, name: str, isa: InstructionSet) -> None:
        """`void name(image, begin, end)`."""
        f = module.kernel(name, "out")
        out, begin, end = f.arguments

        def fill(start: Value, size: int) -> None:
            if size:
                f.fill(start, self.value, size)

        def row(index: Value, _: list[Value]) -> None:
            image, y = f.divided(index, self.rows)
            first = f.at(out, f.mul(image, self.image))
            here = f.at(first, f.mul(y, self.row))
            behind = f.at(here, self.length)
            # The rows above the image and the left padding of its first row are one run of bytes.
            f.branch(f.compare("eq", y, 0), lambda: fill(f.at(first, -self.before), self.before))
            f.branch(
                f.compare("eq", y, self.rows - 1),
                lambda: fill(behind, self.after),
                lambda: fill(behind, self.row - self.length),
            )

        f.loop(begin, end, 1, row)
        f.ret()
