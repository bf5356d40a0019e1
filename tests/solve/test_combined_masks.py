"""Attention masks that are combined with each other before or after they are added to the scores."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import parser

import zeropoint as zp
from zeropoint import simplify

HEADS, LENGTH = 2, 4
TYPES = {
    **dict.fromkeys(("s", "u"), "float[2,4,4]"),
    **dict.fromkeys(("k", "j", "i"), "bool[2,4,4]"),
    **dict.fromkeys(("a", "b", "p", "q"), "float[2,1,4]"),
}
"""Inputs: scores, truth values, 1 for visible tokens, and 0 or -inf."""
HIDDEN = {"-inf": "{-inf}", "-1e9": "{-1e9}", "least": "{-3.4028234663852886e+38}"}
TWO = "m = Where(k, zero, hidden) n = Where(j, zero, hidden) "
PADDING = "o = Sub(one, a) m = Mul(o, hidden) "
END = " y = Softmax<axis=-1>(z)"

FORMS = {
    "sum": TWO + "c = Add(m, n) z = Add(s, c)",
    "sum of three": TWO + "l = Where(i, zero, hidden) d = Add(m, n) c = Add(d, l) z = Add(s, c)",
    "least": TWO + "c = Min(m, n) z = Add(s, c)",
    "greatest": TWO + "c = Max(m, n) z = Add(s, c)",
    "the same twice": "m = Where(k, zero, hidden) d = Add(s, m) z = Add(d, m)",
    "three in sequence": TWO + "l = Where(i, zero, hidden) d = Add(s, m) e = Add(d, n) z = Add(e, l)",
    "one of two": TWO + "c = Where(i, m, n) z = Add(s, c)",
    "in a sum and alone": TWO + "c = Add(m, n) d = Add(s, c) z = Add(d, m)",
    "bias": TWO + "d = Add(u, m) c = Add(d, n) z = Add(s, c)",
    "scaled": TWO + "c = Add(m, n) d = Add(s, c) z = Mul(d, half)",
    "clamped": TWO + "d = Add(m, n) c = Max(d, lowest) z = Add(s, c)",
    "inserted, then added": "t = Mul(s, u) d = Where(k, t, hidden) n = Where(j, zero, hidden) z = Add(d, n)",
    "inserted among inputs": "n = Where(j, zero, hidden) d = Where(k, s, hidden) z = Add(d, n)",
    "causal": "m = Where(k, zero, hidden) c = Add(m, causal) z = Add(s, c)",
}
FINITE = {
    "padding": PADDING + "r = Sub(one, b) n = Mul(r, hidden) c = Add(m, n) z = Add(s, c)",
    "causal and padding": PADDING + "c = Add(m, causal) z = Add(s, c)",
    "truth values": "o = Sub(one, a) g = Cast<to=9>(o) m = Where(g, hidden, o) c = Add(m, causal) z = Add(s, c)",
}
INPUTS = {
    "inputs, sum": "c = Add(p, q) z = Add(s, c)",
    "inputs, least": "c = Min(p, q) z = Add(s, c)",
    "logarithms": "m = Log(a) n = Log(b) c = Add(m, n) z = Add(s, c)",
}
TARGETS = ("cpu-integer", "litert", "onnxruntime")


def network(body: str, hidden: str = "-1e9", result: str = "float[2,4,4]") -> onnx.ModelProto:
    """A model of the nodes in `body`."""
    causal = ",".join("0.0" if row >= column else HIDDEN[hidden][1:-1] for row in range(4) for column in range(4))
    constants = f"float hidden = {HIDDEN[hidden]}, float lowest = {HIDDEN['least']}, float[4,4] causal = {{{causal}}}"
    constants += ", float zero = {0.0}, float one = {1.0}, float half = {0.5}"
    ports = ", ".join(f"{kind} {name}" for name, kind in TYPES.items() if reads(body, name))
    return parser.parse_model(
        f'<ir_version: 8, opset_import: ["":17]> g ({ports}) => ({result} y) <{constants}> {{ {body} }}'
    )


def reads(body: str, name: str) -> bool:
    """Whether a node reads a value."""
    return any(f"{before}{name}{after}" in body for before in ("(", ", ") for after in (",", ")"))


def samples(body: str, count: int = 8, seed: int = 0) -> list[dict[str, np.ndarray]]:
    """Random scores and masks; the first token is always visible."""
    random = np.random.default_rng(seed)
    found: list[dict[str, np.ndarray]] = []
    for _ in range(count):
        every: dict[str, np.ndarray] = {}
        for name, kind in TYPES.items():
            shape = (HEADS, LENGTH if name in "sukji" else 1, LENGTH)
            shown = random.random(shape) < 0.65
            shown[..., 0] = True
            every[name] = shown if kind.startswith("bool") else np.where(shown, 0, -np.inf).astype(np.float32)
            if name in "ab":
                every[name] = shown.astype(np.float32)
            elif name in "su":
                every[name] = random.normal(0, 2, shape).astype(np.float32)
        found.append({name: array for name, array in every.items() if reads(body, name)})
    return found


def sqnr(body: str, hidden: str, target: str) -> float:
    """The SQNR of the quantized model. Its native code has the bits of its reference."""
    model, data = network(body, hidden), samples(body)
    quantized = zp.quantize(model, data[:6], target=target, effort="none")
    native = quantized.native()
    for sample in data:
        np.testing.assert_array_equal(native(**sample)["y"], quantized(**sample)["y"])
    (output,) = zp.compare(model, quantized, data).outputs
    return output.sqnr


@pytest.mark.parametrize(
    ("form", "hidden", "target"),
    [
        *((form, "-inf", target) for form in (*FORMS, *INPUTS) for target in TARGETS),
        *((form, "-1e9", "onnxruntime") for form in FORMS),
        *((form, hidden, target) for form in FINITE for hidden in ("-1e9", "least") for target in TARGETS),
    ],
)
def test_combined_masks_leave_the_scores_their_precision(form: str, hidden: str, target: str) -> None:
    """1 to 8 dB were left. Infinite input masks could not be added, and a bias with a mask of -1e9 ended in an
    internal error."""
    assert sqnr(({**FORMS, **FINITE, **INPUTS})[form] + END, hidden, target) > 34


@pytest.mark.parametrize("target", ["cpu", "openvino", "tosa"])
@pytest.mark.parametrize("form", ["sum", "least", "greatest", "three in sequence", "inserted, then added"])
@pytest.mark.parametrize("hidden", ["-inf", "-1e9"])
def test_combined_masks_on_other_targets(form: str, hidden: str, target: str) -> None:
    """On cpu, a minimum of infinite masks left 4 dB."""
    assert sqnr(FORMS[form] + END, hidden, target) > 34


@pytest.mark.parametrize("target", ["cpu", "cpu-integer", "litert", "onnxruntime"])
@pytest.mark.parametrize("hidden", HIDDEN)
def test_a_mask_that_another_op_reads_hides_scores(hidden: str, target: str) -> None:
    """12 to 18 dB were left."""
    body = "m = Where(k, zero, hidden) z = Add(s, m) w = Softmax<axis=-1>(z) e = Exp(m) y = Add(w, e)"
    assert sqnr(body, hidden, target) > 40


@pytest.mark.parametrize("hidden", ["-inf", "-1e9"])
@pytest.mark.parametrize("target", ["cpu-integer", "litert"])
def test_two_softmaxes_share_a_part_of_a_mask(hidden: str, target: str) -> None:
    body = TWO + (
        "c = Add(m, n) z = Add(s, c) v = Softmax<axis=-1>(z) d = Add(u, m) w = Softmax<axis=-1>(d) y = Add(v, w)"
    )
    assert sqnr(body, hidden, target) > 34


@pytest.mark.parametrize("hidden", ["-inf", "-1e9"])
def test_scores_that_are_an_input_are_observed_where_others_are_hidden(hidden: str) -> None:
    """No kernel reads them, so they had no range, and -1e9 left 3 dB."""
    assert sqnr("z = Where(k, s, hidden)" + END, hidden, "litert") > 34


@pytest.mark.parametrize("target", ["cpu-integer", "litert"])
def test_a_bias_that_goes_far_down_and_up_is_no_mask(target: str) -> None:
    """Its numbers below the range of the scores were clamped, and with them the differences in such rows."""
    body = "t = Mul(s, half) v = Mul(u, one) z = Add(t, v)" + END
    model, data = network(body), samples(body)
    for sample in data:
        offsets = np.linspace(-30, 30, HEADS * LENGTH, dtype=np.float32).reshape(HEADS, LENGTH, 1)
        sample["u"] += offsets
    quantized = zp.quantize(model, data, target=target, effort="none")
    (output,) = zp.compare(model, quantized, data).outputs
    assert output.sqnr > 18


def combination(random: np.random.Generator, number: int) -> str:
    """A random tree of masks, added to the scores `s` and sometimes to a bias `u`, and its softmax."""
    nodes: list[str] = []
    values: list[str] = []
    for index, name in enumerate(random.permutation(["k", "j", "i"])):
        shown = "zero" if random.random() < 0.7 else "half"
        nodes.append(f"m{index} = Where({name}, {shown}, hidden)")
        values.append(f"m{index}")
    for index in range(int(random.integers(1, 4))):
        one, other = random.choice(values, 2)
        op = random.choice(["Add", "Min", "Max", "Where"])
        nodes.append(f"c{index} = Where(j, {one}, {other})" if op == "Where" else f"c{index} = {op}({one}, {other})")
        values.append(f"c{index}")
    nodes.append(f"d = Add(u, {values[-1]})" if number % 3 == 0 else f"d = Add({values[-1]}, {random.choice(values)})")
    nodes.append("e = Add(s, d)" if number % 2 else "e = Add(d, s)")
    nodes.append("z = Mul(e, half)" if number % 5 == 0 else "z = Add(e, m0)")
    return " ".join(nodes) + END


CASES = [(number, list(HIDDEN)[number % 3]) for number in range(24)]


@pytest.mark.parametrize(("number", "hidden"), CASES)
def test_simplified_masks_give_the_same_probabilities(number: int, hidden: str) -> None:
    body = combination(np.random.default_rng(number), number)
    before = zp.load(network(body, hidden))
    after = zp.Model(simplify.simplify(before.program))
    for sample in samples(body, seed=number):
        np.testing.assert_array_equal(after(**sample)["y"], before(**sample)["y"])


@pytest.mark.parametrize(("number", "hidden"), CASES[::3])
def test_random_combinations_of_masks_leave_the_scores_their_precision(number: int, hidden: str) -> None:
    """The 0.5 of some masks has the steps of a range of about -50 to 0.5."""
    assert sqnr(combination(np.random.default_rng(number), number), hidden, "cpu-integer") > 24


@pytest.mark.parametrize("hidden", ["-inf", "least"])
def test_a_hidden_row_is_that_of_the_model(hidden: str) -> None:
    """A row of -inf is NaN in the float program."""
    body = FORMS["sum"] + END
    sample = samples(body)[0]
    sample["k"][0, 1] = False
    found = zp.load(network(body, hidden))(**sample)["y"]
    assert np.isnan(found[0, 1]).all() == (hidden == "-inf" or bool((~sample["j"][0, 1]).all()))
    assert not np.isnan(np.delete(found[0], 1, axis=0)).any()
