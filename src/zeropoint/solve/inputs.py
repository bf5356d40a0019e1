"""Record the origin of the input parameters, as attributes of the arguments of `@main`."""

from __future__ import annotations

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr
from xdsl.ir import Attribute

from zeropoint.ir.annotations import FACTS, Fact
from zeropoint.ir.program import Program
from zeropoint.solve.specs import Specs


def state_input_facts(program: Program, specs: Specs) -> None:
    """Set `zeropoint.facts` on every argument that a kernel reads, in place."""
    function = program.main
    given = function.arg_attrs
    known = [DictionaryAttr({})] * len(program.entry.args) if given is None else given.data
    entries = [dict[str, Attribute](entry.data) for entry in known]
    for argument, entry in zip(program.entry.args, entries, strict=True):
        if argument in specs.graph.value_nodes:
            found = specs.value_class(argument)
            decided = Fact("parameters", str(found.parameters()), "default", f"{found.rule} range")
            facts = [*found.facts, *([] if found.fixed is not None else [decided])]
            entry[FACTS] = ArrayAttr([fact.attribute() for fact in facts])
    function.properties["arg_attrs"] = ArrayAttr([DictionaryAttr(entry) for entry in entries])
