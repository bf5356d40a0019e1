"""The state of PyTorch modules. A program has none, so modules whose results depend on earlier calls are refused.

```python
def forward(self, x):
    self.mean.mul_(0.9).add_(x)  # the next call reads it
    return x - self.mean
```
`torch.export` gives such a graph a result of kind `BUFFER_MUTATION`, which `torch.onnx.export` drops. A buffer that no
result of the user depends on, such as a counter, may be changed.

Source: `torch.export.graph_signature`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Any

from zeropoint.frontend.errors import ModelError

_ASSIGNED = re.compile(r"The tensor attributes? (.+) (?:was|were) assigned during export")
_KINDS = {"BUFFER": "buffer", "PARAMETER": "parameter", "CONSTANT_TENSOR": "tensor"}
"""What an input of an exported graph is called in an error, by its kind."""


def assigned_tensors(messages: Iterable[str]) -> set[str]:
    """The tensors that are no buffers, and that forward assigns, by PyTorch's warnings about them."""
    found = [match[1] for match in map(_ASSIGNED.search, messages) if match]
    return {name.removeprefix("self.") for names in found for name in names.split(", ")}


def check_stateless(name: str, exported: Any, assigned: Collection[str]) -> None:
    """Check that the results of an exported program do not depend on what forward changes.

    `assigned` has the names of further tensors that forward changes. Raises ModelError, which names the state.
    """
    if exported is None:
        return
    signature = exported.graph_signature
    changed = {*signature.buffers_to_mutate.values(), *signature.parameters_to_mutate.values(), *assigned}
    state = [spec for spec in signature.input_specs if spec.target in changed and spec.kind.name in _KINDS]
    read = _read_by_results(exported) if state else set[str]()
    state = [spec for spec in state if spec.arg.name in read]
    if state:
        kinds = {_KINDS[spec.kind.name] for spec in state}
        kind = (kinds.pop() if len(kinds) == 1 else "tensor") + ("s" if len(state) > 1 else "")
        *first, last = (f"'{spec.target}'" for spec in state)
        names = f"{', '.join(first)} and {last}" if first else last
        raise ModelError(
            f"{name}: found {kind} {names} that forward changes and the results depend on, expected results of the "
            f"inputs only, because a program has no state; pass {names} as inputs and return the new values"
        )


def _read_by_results(exported: Any) -> set[str]:
    """The names of the nodes of the graph that results of the user are computed from."""
    results = {
        spec.arg.name for spec in exported.graph_signature.output_specs
        if spec.kind.name == "USER_OUTPUT" and hasattr(spec.arg, "name")
    }  # fmt: skip
    for node in reversed(exported.graph.nodes):
        if node.name in results:
            results.update(each.name for each in node.all_input_nodes)
    return results
