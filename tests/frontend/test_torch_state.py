"""Modules whose forward changes buffers are refused if their results depend on earlier calls."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import zeropoint as zp

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

X = np.random.default_rng(3).normal(0, 1, (2, 3)).astype(np.float32)


class Stateful(torch.nn.Module):
    """`step` computes a result of the input, and may change `self.state` and `self.count`."""

    def __init__(self, step: Any, **buffers: Any) -> None:
        super().__init__()
        for name, value in buffers.items():
            self.register_buffer(name, value)
        self.step = step

    def forward(self, x: Any) -> Any:
        return self.step(self, x)


def averaged(module: Any, x: Any) -> Any:
    module.state.mul_(0.5).add_(x.mean(0))
    return x - module.state


def assigned(module: Any, x: Any) -> Any:
    module.state = torch.tanh(module.state + x)
    return module.state * x


def cached(module: Any, x: Any) -> Any:
    module.state.index_copy_(0, module.count, x[:1])
    module.count += 1
    return module.state @ x.T


def decomposed(module: Any, x: Any) -> Any:
    module.state += x
    return torch.special.polygamma(1, x.abs() + 1) * module.state


def counted(module: Any, x: Any) -> Any:
    module.count += 1
    return torch.tanh(x)


def kept(module: Any, x: Any) -> Any:
    module.state.copy_(torch.tanh(x))
    return module.state * 2


def zeros(*shape: int) -> Any:
    return torch.zeros(*shape)


def count() -> Any:
    return torch.zeros(1, dtype=torch.long)


REFUSED = [
    (averaged, {"state": zeros(3)}, "buffer 'state'"),
    (assigned, {"state": zeros(2, 3)}, "buffer 'state'"),
    (cached, {"state": zeros(4, 3), "count": count()}, "buffers 'state' and 'count'"),
    (decomposed, {"state": zeros(2, 3)}, "buffer 'state'"),
]


@pytest.mark.parametrize("exported", [False, True], ids=["module", "exported"])
@pytest.mark.parametrize(("step", "buffers", "named"), REFUSED, ids=[step.__name__ for step, _, _ in REFUSED])
def test_results_that_depend_on_earlier_calls_are_refused(
    step: Any, buffers: dict[str, Any], named: str, exported: bool
) -> None:
    module, example = Stateful(step, **buffers).eval(), torch.from_numpy(X)
    message = f"Stateful: found {named} that forward changes and the results depend on, expected results of the inputs"
    if exported:
        with pytest.raises(zp.Error, match=message.replace("Stateful", "ExportedProgram")):
            zp.load(torch.export.export(module, (example,)))
    else:
        with pytest.raises(zp.Error, match=message):
            zp.load(module, example)


def test_a_parameter_that_forward_changes_is_named() -> None:
    class Decayed(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(3))

        def forward(self, x: Any) -> Any:
            with torch.no_grad():
                self.weight.mul_(0.9)
            return x * self.weight

    with pytest.raises(zp.Error, match=r"Decayed: found parameter 'weight' that forward changes"):
        zp.load(Decayed(), torch.from_numpy(X))


@pytest.mark.parametrize(
    ("step", "buffers"), [(counted, {"count": count()}), (kept, {"state": zeros(2, 3)})], ids=["counted", "kept"]
)
def test_buffers_that_no_result_depends_on_may_be_changed(step: Any, buffers: dict[str, Any]) -> None:
    module = Stateful(step, **buffers).eval()
    (found,) = zp.load(module, torch.from_numpy(X))(X).values()
    np.testing.assert_allclose(found, module(torch.from_numpy(X)).numpy(), atol=1e-6)


def test_a_tensor_that_is_no_buffer_is_named_if_the_results_depend_on_it() -> None:
    class Plain(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.hidden = torch.zeros(3)

        def forward(self, x: Any) -> Any:
            self.hidden = torch.tanh(self.hidden + x.mean(0))
            return self.hidden * x

    with pytest.raises(zp.Error, match=r"Plain: found tensor 'hidden' that forward changes and the results depend on"):
        zp.load(Plain(), torch.from_numpy(X))
