"""Record the origin of the input parameters, as attributes of the arguments of `@main`."""

from __future__ import annotations

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr
from xdsl.ir import Attribute, SSAValue

from zeropoint.ir.annotations import FACTS, Fact
from zeropoint.ir.program import Program
from zeropoint.solve.classes import ScaleClass
from zeropoint.solve.specs import Specs
from zeropoint.solve.termination import PortNumber


def state_input_facts(program: Program, specs: Specs) -> None:
    """Set `zeropoint.facts` on every argument that a kernel reads, in place; one for each type that it is read as."""
    function = program.main
    given = function.arg_attrs
    known = [DictionaryAttr({})] * len(program.entry.args) if given is None else given.data
    entries = [dict[str, Attribute](entry.data) for entry in known]
    read: dict[SSAValue, list[PortNumber]] = {}
    for kernel in specs.graph.kernels:
        for index, value in kernel.data_ports():
            read.setdefault(value, []).append((kernel.region, index))
    for argument, entry in zip(program.entry.args, entries, strict=True):
        if argument in specs.graph.value_nodes:
            facts = _facts(argument, specs, read.get(argument, []))
            entry[FACTS] = ArrayAttr([fact.attribute() for fact in dict.fromkeys(facts)])
    function.properties["arg_attrs"] = ArrayAttr([DictionaryAttr(entry) for entry in entries])


def _facts(argument: SSAValue, specs: Specs, ports: list[PortNumber]) -> list[Fact]:
    """The facts of an argument's type; of each type if every kernel that reads it, at `ports`, quantizes it itself."""
    if not specs.graph.is_quantized_by_readers(argument):
        return _of_class(specs.value_class(argument))
    by_type = {specs.port_type(port): _of_port(port, specs) for port in reversed(ports)}
    return [fact for facts in reversed(by_type.values()) for fact in facts]


def _of_port(port: PortNumber, specs: Specs) -> list[Fact]:
    if port in specs.apart:
        made, source = specs.apart[port]
        return [Fact("parameters", str(made), "kernel", source)]
    return _of_class(specs.port_class(port))


def _of_class(found: ScaleClass) -> list[Fact]:
    decided = Fact("parameters", str(found.parameters()), "default", f"{found.rule} range")
    return [*found.facts, *([] if found.fixed is not None else [decided])]
