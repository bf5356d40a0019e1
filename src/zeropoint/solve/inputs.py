"""Record the origin of the parameters of floats that kernels read: arguments of `@main` and results of float ops."""

from __future__ import annotations

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr
from xdsl.ir import Attribute, OpResult, SSAValue

from zeropoint.ir.annotations import FACTS, Fact, facts_name, state_facts
from zeropoint.ir.constants import is_constant
from zeropoint.ir.program import Program
from zeropoint.solve.classes import ScaleClass
from zeropoint.solve.rescale import is_rescale
from zeropoint.solve.specs import Specs
from zeropoint.solve.termination import PortNumber


def state_input_facts(program: Program, specs: Specs) -> None:
    """Set `zeropoint.facts` on every argument that a kernel reads, in place: the facts of each type it is read as."""
    function = program.main
    given = function.arg_attrs
    known = [DictionaryAttr({})] * len(program.entry.args) if given is None else given.data
    entries = [dict[str, Attribute](entry.data) for entry in known]
    read = _readers(specs)
    for argument, entry in zip(program.entry.args, entries, strict=True):
        if argument in specs.graph.value_nodes:
            facts = _facts(argument, specs, read.get(argument, []))
            entry[FACTS] = ArrayAttr([fact.attribute() for fact in dict.fromkeys(facts)])
    function.properties["arg_attrs"] = ArrayAttr([DictionaryAttr(entry) for entry in entries])


def state_float_facts(specs: Specs) -> None:
    """Set facts on every op whose float results kernels read, in place: the facts of each type they are read as."""
    for value, ports in _readers(specs).items():
        if not isinstance(value, OpResult) or is_constant(value) or is_rescale(value.op):
            continue
        if specs.graph.is_quantized_by_readers(value):
            state_facts(value.op, dict.fromkeys(_facts(value, specs, ports)), facts_name(value.index))


def _readers(specs: Specs) -> dict[SSAValue, list[PortNumber]]:
    """The ports of kernels that read each value."""
    read: dict[SSAValue, list[PortNumber]] = {}
    for kernel in specs.graph.kernels:
        for index, value in kernel.data_ports():
            read.setdefault(value, []).append((kernel.region, index))
    return read


def _facts(argument: SSAValue, specs: Specs, ports: list[PortNumber]) -> list[Fact]:
    """The facts of a value's type. If every reader quantizes the value for itself, the facts of each reader's type at
    `ports`."""
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
