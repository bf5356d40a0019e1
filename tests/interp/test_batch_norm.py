"""Batch normalisations: literal values, the specification's formulas in f64, and the gradient against differences."""

from __future__ import annotations

import numpy as np

from oracle.mlir import checked
from zeropoint.interp import Interpreter
from zeropoint.ir.quant import evaluate
from zeropoint.ir.tensors import Array, element_of
from zeropoint.ir.text import parse_program


def text(kind: str, element: str, epsilon: str = "0.0") -> str:
    whole, features = f"tensor<2x3x2x{element}>", f"tensor<3x{element}>"
    names = {"inference": "xsomv", "training": "xso", "grad": "xsmvg"}[kind]
    types = {name: whole if name in "xg" else features for name in names}
    results = [whole] if kind == "inference" else [whole, features, features]
    arguments = ", ".join(f"%{name}: {found}" for name, found in types.items())
    count = len(results)
    given = f"({', '.join(types.values())}) -> ({', '.join(results)})"
    returned = ", ".join(f"%0#{i}" for i in range(count)) if count > 1 else "%0"
    return f"""func.func @main({arguments}) -> ({", ".join(results)}) {{
      %0{f":{count}" if count > 1 else ""} = "stablehlo.batch_norm_{kind}"({", ".join(f"%{name}" for name in names)})
        <{{epsilon = {epsilon} : f32, feature_index = 1 : i64}}> : {given}
      return {returned} : {", ".join(results)}
    }}"""


def run(kind: str, *values: Array, element: str = "f64", epsilon: str = "0.0") -> list[Array]:
    return Interpreter(checked(text(kind, element, epsilon))).run_values(list(values))


def spread(values: Array) -> Array:
    return values.reshape(1, 3, 1)


def values(seed: int = 0) -> tuple[Array, Array, Array]:
    random = np.random.default_rng(seed)
    return random.normal(size=(2, 3, 2)), random.normal(size=3) + 2, random.normal(size=3)


def test_inference_of_round_numbers():
    x = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
    ones = np.ones(3, np.float32)
    found = run("inference", x, 2 * ones, 3 * ones, ones, 4 * ones, element="f32")[0]
    assert found.tolist() == (2 * (x - 1) / 2 + 3).tolist()


def test_inference_is_the_formula():
    x, scale, offset = values()
    mean, variance = np.array([0.5, -1.0, 2.0]), np.array([1.0, 0.25, 3.0])
    found = run("inference", x, scale, offset, mean, variance, epsilon="0.125")[0]
    expected = spread(scale) * (x - spread(mean)) / np.sqrt(spread(variance) + 0.125) + spread(offset)
    np.testing.assert_allclose(found, expected, rtol=1e-14)


def test_training_gives_mean_and_variance_and_normalises_by_them():
    x, scale, offset = values()
    output, mean, variance = run("training", x, scale, offset, epsilon="0.125")
    np.testing.assert_allclose(mean, x.mean((0, 2)), rtol=1e-14)
    np.testing.assert_allclose(variance, x.var((0, 2)), rtol=1e-13)
    expected = spread(scale) * (x - spread(mean)) / np.sqrt(spread(variance) + 0.125) + spread(offset)
    np.testing.assert_allclose(output, expected, rtol=1e-13)


def test_grad_is_the_derivative_of_training():
    x, scale, offset = values()
    grad_output = np.random.default_rng(5).normal(size=x.shape)
    mean, variance = x.mean((0, 2)), x.var((0, 2))
    found = run("grad", x, scale, mean, variance, grad_output, epsilon="0.125")

    def loss(x: Array, scale: Array, offset: Array) -> float:
        output = run("training", x, scale, offset, epsilon="0.125")[0]
        return float((output * grad_output).sum())

    for index, (value, gradient) in enumerate(zip((x, scale, offset), found, strict=True)):
        place = tuple(size // 2 for size in value.shape)
        sides: list[float] = []
        for step in (1e-5, -1e-5):
            moved = [x.copy(), scale.copy(), offset.copy()]
            moved[index][place] += step
            sides.append(loss(moved[0], moved[1], moved[2]))
        np.testing.assert_allclose(gradient[place], (sides[0] - sides[1]) / 2e-5, rtol=1e-6, atol=1e-8)


def test_quantized_operands_are_dequantized_and_results_quantized():
    element = "!quant.uniform<i8:f32, 0.0625:3>"
    program = parse_program(text("training", element, "0.125"))
    quantized = element_of(program.inputs[0].type)
    x, scale, offset = (value.astype(np.float32) for value in values())
    stored = [evaluate.quantize(value, quantized) for value in (x, scale, offset)]  # pyright: ignore (evaluate takes plain arrays, too)
    reals = [evaluate.dequantize(value, quantized) for value in stored]  # pyright: ignore (evaluate takes plain arrays, too)
    expected = run("training", *reals, element="f32", epsilon="0.125")
    found = Interpreter(program).run_values(stored)
    for value, real in zip(found, expected, strict=True):
        assert np.array_equal(value, evaluate.quantize(real, quantized))  # pyright: ignore (evaluate takes plain arrays, too)
