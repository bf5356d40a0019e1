"""Try integer operands for contractions that stay float for a function after them, and keep them if little is lost.

A float function such as GELU reads the float result of a contraction. If the function does not tolerate that the
contraction's operands are rounded to 8 bits, the contraction is float (`solve/widths/unrounded.py`). That is judged by
the function's own result, which may matter little for the outputs, and a float contraction takes four times as long. So
the outputs decide: the contraction gets integer operands and passes its accumulators to the function, in all places at
once, if the outputs stay as close to float as before, but for `LOSS`.

```mlir
%0 = "quant.region"(%x, %w, %b) ({ dot_general, add }) {zeropoint.float_reason = "its result must not be rounded: ..."}
%1 = "quant.region"(%0) ({ gelu }) {zeropoint.float_reason = "i8 is too coarse for the operand of ..."}
```
becomes
```mlir
%0 = "quant.region"(%x, %w, %b) ({ dot_general, add }) {input_specs = [i8, i8, i32], output_specs = [i32]}
%1 = "quant.region"(%0) ({ gelu }) {zeropoint.float_reason = "i8 is too coarse for the operand of ..."}
```
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from zeropoint.correct import IntegerProducts, Judged, OutputNoise
from zeropoint.ir.program import Program
from zeropoint.solve.widths.unrounded import PRODUCTS, float_products

LOSS = 0.5
"""How much less SQNR the outputs may have, in dB."""
INTEGERS: Mapping[str, object] = {"products": PRODUCTS[1]}
"""The setting of passes with which contractions have integer operands."""


def try_integer_products(
    judged: Judged, held: int, decide: Callable[[Mapping[str, object]], Program]
) -> tuple[Judged, IntegerProducts]:
    """The better one of a propagated program and the one that `decide` makes with more settings, and the figures.

    The program has contractions that stay float (`float_products`). The first `held` samples of the judge are held
    back: their outputs decide, and those of all samples must agree.
    """
    count = float_products(judged.program)
    other = judged.judge.judged(decide(INTEGERS))
    numbers = range(held)
    before, after = judged.noise(numbers), other.noise(numbers)
    fitted = judged.noise()[held:].sqnr
    why = _loss(after, before)
    if why is None and (of_all := _loss(other.noise(), judged.noise())):
        why = f"{of_all} over all samples"
    return judged if why else other, IntegerProducts(count, before.sqnr, after.sqnr, not why, fitted, why)


def _loss(noise: OutputNoise, before: OutputNoise) -> str | None:
    """What is lost, if there is more than a little more noise than before."""
    if not noise.sqnr >= before.sqnr - LOSS:
        return f"the worst output loses more than {LOSS:g} dB"
    worse = not noise.mean <= 10 ** (LOSS / 10) * before.mean
    return f"the outputs together lose more than {LOSS:g} dB" if worse else None
