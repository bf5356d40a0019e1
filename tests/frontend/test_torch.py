"""PyTorch modules and exported programs; skipped where PyTorch is not installed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zeropoint as zp

torch = pytest.importorskip("torch")


def network() -> Any:
    torch.manual_seed(0)
    nn = torch.nn
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.5),
        nn.Linear(8 * 4 * 4, 5),
    )


IMAGE = np.random.default_rng(0).normal(0, 1, (16, 3, 8, 8)).astype(np.float32)


def expected(module: Any, array: np.ndarray) -> np.ndarray:
    module.eval()
    with torch.no_grad():
        return module(torch.from_numpy(array)).numpy()


def test_a_module_with_example_inputs_is_a_model_in_eval_mode() -> None:
    module = network().train()
    model = zp.load(module, example=torch.from_numpy(IMAGE[:1]))
    assert module.training
    (output,) = model(torch.from_numpy(IMAGE)).values()
    np.testing.assert_allclose(output, expected(module, IMAGE), atol=1e-4)


def test_examples_may_be_arrays() -> None:
    model = zp.load(network(), IMAGE[:1])
    (name,) = (port.name for port in zp.load(network(), example={"input": IMAGE[:1]}).inputs)
    assert name == model.inputs[0].name


def test_an_exported_program_is_a_model_and_keeps_the_names_of_its_parameters() -> None:
    module = network().eval()
    exported = torch.export.export(module, (torch.from_numpy(IMAGE[:1]),))
    model = zp.load(exported)
    (output,) = model(IMAGE).values()
    np.testing.assert_allclose(output, expected(module, IMAGE), atol=1e-4)


class Named(torch.nn.Module):
    """A dict of outputs, one of them None."""

    def __init__(self) -> None:
        super().__init__()
        self.head = torch.nn.Linear(4, 3)

    def forward(self, x: Any) -> dict[str, Any]:
        found = self.head(x)
        return {"logits": found, "loss": None, "hidden": [found.relu()]}


@pytest.mark.parametrize("exported", [False, True])
def test_attention_with_a_learned_bias_of_positions_is_loaded(exported: bool) -> None:
    # As in T5. Traced with gradients, torch.onnx.export makes a view of it that does not fit the decomposed attention.
    class Biased(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.project = torch.nn.Linear(8, 8)
            self.table = torch.nn.Embedding(16, 2)

        def forward(self, x: Any) -> Any:
            heads = self.project(x).view(1, 4, 2, 4).transpose(1, 2)
            bias = self.table(torch.arange(16).reshape(4, 4)).permute(2, 0, 1).unsqueeze(0)
            mixed = torch.nn.functional.scaled_dot_product_attention(heads, heads, heads, attn_mask=bias)
            return mixed.transpose(1, 2).contiguous().reshape(1, 4, -1)

    torch.manual_seed(0)
    module, array = Biased().eval(), IMAGE[0, 0, :4].reshape(1, 4, 8)
    example = torch.from_numpy(array)
    model = zp.load(torch.export.export(module, (example,))) if exported else zp.load(module, example)
    (output,) = model(array).values()
    np.testing.assert_allclose(output, expected(module, array), atol=1e-5)


def test_outputs_in_a_dict_have_its_keys_as_names() -> None:
    example = torch.zeros(1, 4)
    for model in (zp.load(Named(), example=example), zp.load(torch.export.export(Named().eval(), (example,)))):
        assert [port.name for port in model.outputs] == ["logits", "hidden.0"]
    integers = zp.quantize(Named(), IMAGE[:, 0, 0, :4], example=example, effort="none")
    assert list(integers(IMAGE[0, 0, 0, :4])) == ["logits", "hidden.0"]


def test_a_module_is_quantized_from_a_data_loader() -> None:
    module = network().eval()
    dataset = torch.utils.data.TensorDataset(torch.from_numpy(IMAGE), torch.zeros(16))
    loader = torch.utils.data.DataLoader(dataset, batch_size=5)
    integers = zp.quantize(module, loader, example=torch.from_numpy(IMAGE[:1]), integer_only=True)
    (output,) = integers(IMAGE).values()
    real = expected(module, IMAGE)
    assert 10 * np.log10((real**2).sum() / ((real - output) ** 2).sum()) > 25


def test_what_cannot_be_traced_is_refused(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(zp.Error, match=r"found Sequential without inputs, expected example=\(tensor, ...\)"):
        zp.load(network())
    with pytest.raises(zp.Error, match=r"Sequential: torch.onnx.export cannot export it: "):
        zp.load(network(), example=torch.zeros(1, 4, 8, 8))
    with pytest.raises(zp.Error, match=r"expected input.* to have 3 channels, but got 4 channels"):
        zp.load(network(), example=torch.zeros(1, 4, 8, 8))
    assert capfd.readouterr().err == ""
    with pytest.raises(zp.Error, match=r"found Tensor, expected a torch.nn.Module or an ExportedProgram"):
        zp.load(torch.zeros(3))


def test_an_operation_that_the_exporter_lacks_is_named_in_a_line_with_a_fix() -> None:
    class Bessel(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.special.i1(x)

    with pytest.raises(zp.Error, match=r"^Bessel.*bessel_i1.*; write that part of the module with other operations$"):
        zp.load(Bessel(), example=torch.zeros(3, 4))


def test_a_branch_on_a_value_says_how_to_write_it(capfd: pytest.CaptureFixture[str]) -> None:
    class Branch(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x * 2 if x.sum() > 0 else x

    with pytest.raises(zp.Error, match=r"data-dependent.*; write branches on values with torch.where or torch.cond$"):
        zp.load(Branch(), example=torch.ones(3))
    assert capfd.readouterr().err == ""


def test_a_graph_that_was_prepared_for_training_says_how_to_convert_it() -> None:
    class Prepared(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            whole, real = torch.ones(1, dtype=torch.int32), torch.ones(1)
            observe = torch.fused_moving_avg_obs_fake_quant
            return observe(x, whole, whole, real, real.clone(), real.clone(), whole.clone(), 0.1, 0, 255, 0)

    with pytest.raises(zp.Error, match=r"fused_moving_avg_obs.*; convert the prepared module with convert_pt2e$"):
        zp.load(Prepared(), example=torch.ones(2, 3))


class Eager(torch.nn.Module):
    """A convolution with a batch norm and a linear layer, with the stubs of eager mode."""

    def __init__(self) -> None:
        super().__init__()
        quantization = torch.ao.quantization
        self.enter, self.leave = quantization.QuantStub(), quantization.DeQuantStub()
        self.conv, self.norm, self.relu = torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU()
        self.linear = torch.nn.Linear(4, 2)

    def forward(self, x: Any) -> Any:
        return self.leave(self.linear(self.relu(self.norm(self.conv(self.enter(x)))).mean((2, 3))))


def prepared(*, training: bool) -> Any:
    """The module with observers, or trained with fake quantization, after some inputs."""
    quantization = torch.ao.quantization
    torch.manual_seed(0)
    fused, names = Eager().train(training), [["conv", "norm", "relu"]]
    fused = (quantization.fuse_modules_qat if training else quantization.fuse_modules)(fused, names)
    get = quantization.get_default_qat_qconfig if training else quantization.get_default_qconfig
    fused.qconfig = get("qnnpack")
    made = (quantization.prepare_qat if training else quantization.prepare)(fused)
    for _ in range(4):
        made(torch.randn(2, 3, 6, 6))
    return made.eval()


def test_fake_quantization_of_eager_mode_keeps_its_scales(tmp_path: Path) -> None:
    """It was refused: a branch on a value, which is whether its observers are enabled."""
    module, x = prepared(training=True), torch.randn(1, 3, 6, 6)
    with pytest.raises(zp.Error, match=r"observers are enabled.*; disable them: model.apply\(.*disable_observer\)$"):
        zp.load(module, example=x)
    module.apply(torch.ao.quantization.disable_observer)
    model, expected = zp.load(module, example=x), module(x).detach().numpy()
    np.testing.assert_allclose(next(iter(model(x.numpy()).values())), expected, rtol=1e-5)
    np.testing.assert_array_equal(module(x).detach().numpy(), expected)  # the module is as it was
    stated = module.enter.activation_post_process
    zp.quantize(model, [{model.inputs[0].name: x.numpy()}]).save(tmp_path / "m.mlir")
    kind = re.search(r"uniform_quantize %x .*uniform<i8:f32, ([^:]+):(-?\d+)>>", (tmp_path / "m.mlir").read_text())
    assert kind is not None
    assert float(kind[1]) == float(stated.scale)
    assert int(kind[2]) == int(stated.zero_point) - 128


def test_other_modules_of_eager_mode_say_what_to_load_instead() -> None:
    quantization = torch.ao.quantization
    torch.backends.quantized.engine = "qnnpack"
    observed, x = prepared(training=False), torch.randn(1, 3, 6, 6)
    with pytest.raises(zp.Error, match=r"^Eager: found observers \(HistogramObserver.*; load the module from before"):
        zp.load(observed, example=x)
    with pytest.raises(
        zp.Error, match=r"^Eager: found .*Conv.*, whose weights PyTorch cannot export; quantize the float"
    ):
        zp.load(quantization.convert(observed), example=x)
    dynamic = quantization.quantize_dynamic(torch.nn.Sequential(torch.nn.Linear(3, 2)), {torch.nn.Linear})
    with pytest.raises(zp.Error, match=r"^Sequential: found Linear, .* of torch.ao.quantization, whose weights"):
        zp.load(dynamic, example=torch.ones(1, 3))
