"""An explanation: the facts that a program records about its parameters, or only those about one name."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from zeropoint.ir.annotations import Fact
from zeropoint.report.explain.records import ExplainedOutput, ExplainedValue, FloatOp, Missing, Rescale
from zeropoint.report.explain.text import (
    budget_text,
    correction_text,
    float_text,
    missing_text,
    named_float_text,
    output_text,
    rescale_text,
    value_table,
    value_text,
)
from zeropoint.report.tables import preformatted


@dataclass(frozen=True)
class Explanation:
    """The facts that a program records about its parameters."""

    values: tuple[ExplainedValue, ...]
    rescales: tuple[Rescale, ...]
    float_ops: tuple[FloatOp, ...]
    missing: tuple[Missing, ...]
    corrections: tuple[Fact, ...] = ()
    """The corrections that were tried, and their gains; only for the whole program."""
    budget: tuple[Fact, ...] = ()
    """The kernels that the search under a budget widened; only for the whole program."""
    outputs: tuple[ExplainedOutput, ...] = ()
    of_one: bool = False
    """Whether this explains a single name of the original model."""

    def of(self, *names: str) -> Explanation:
        """The part about values and ops with some names of the original model; empty for unknown names.

        For the name of an output, it is the part about the values or ops that produce the output.
        """
        outputs = tuple(output for output in self.outputs if output.name in names)
        wanted = {*names, *(made for output in outputs for made in output.made_by)}
        values = tuple(value for value in self.values if wanted & {value.name, *value.names, value.shown_name})
        known = wanted | {value.shown_name for value in values}
        return Explanation(
            values,
            tuple(rescale for rescale in self.rescales if rescale.value in known or known & set(rescale.read_by)),
            tuple(op for op in self.float_ops if op.name in wanted),
            tuple(missing for missing in self.missing if missing.value in known),
            outputs=outputs,
            of_one=True,
        )

    def __bool__(self) -> bool:
        return bool(self.values or self.rescales or self.float_ops or self.missing or self.outputs)

    def names(self) -> list[str]:
        """Every name that `of` accepts, in program order."""
        found = [name for value in self.values for name in (value.shown_name, value.name, *value.names)]
        others = (
            *(op.name for op in self.float_ops),
            *(one.value for one in self.missing),
            *(output.name for output in self.outputs),
        )
        return list(dict.fromkeys([*found, *others]))

    def record(self) -> dict[str, Any]:
        """The explanation as lists and dictionaries, for tools."""
        found = asdict(self)
        del found["of_one"]
        return found

    def overview(self) -> str:
        """A text with every value, its type and the fact that decided it, the rescales, and the float ops by reason."""
        parts = [value_table(self.values)] if self.values else []
        parts += [rescale_text(rescale) for rescale in self.rescales]
        parts += [*float_text(self.float_ops), *missing_text(self.missing), *budget_text(self.budget)]
        parts += correction_text(self.corrections)
        return "\n\n".join(parts) or "nothing to explain: the program has no values that kernels read or make"

    def details(self) -> str:
        """A text with the values that produce outputs, the facts of every value, the rescales, and the float ops."""
        parts = [*output_text(self.outputs), *(value_text(value) for value in self.values)]
        parts += [rescale_text(rescale) for rescale in self.rescales]
        parts += named_float_text(self.float_ops)
        return "\n\n".join([*parts, *missing_text(self.missing)])

    def __str__(self) -> str:
        """The overview of a program, or all details of one name."""
        return self.details() if self.of_one else self.overview()

    def _repr_html_(self) -> str:
        return preformatted(str(self))
