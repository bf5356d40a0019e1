"""JAX functions as models, by the names of their parameters; and inputs of StableHLO text as constants."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zeropoint as zp
from zeropoint.frontend import ModelError

# As `jax.jit(apply).lower(params, image).as_text(debug_info=True)` prints it (JAX 0.10), without what repeats.
TEXT = """#loc1 = loc("params['b']")
#loc2 = loc("params['w']")
#loc3 = loc("image")
module @jit_apply attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<3xf32> loc("params['b']"), %arg1: tensor<4x3xf32> loc("params['w']"),
      %arg2: tensor<2x4xf32> loc("image")) -> (tensor<2x3xf32> {jax.result_info = "result['scores']"}) {
    %0 = stablehlo.dot_general %arg2, %arg1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] :
      (tensor<2x4xf32>, tensor<4x3xf32>) -> tensor<2x3xf32> loc(#loc19)
    %1 = stablehlo.broadcast_in_dim %arg0, dims = [1] : (tensor<3xf32>) -> tensor<2x3xf32> loc(#loc19)
    %2 = stablehlo.add %0, %1 : tensor<2x3xf32> loc(#loc21)
    return %2 : tensor<2x3xf32> loc(#loc18)
  } loc(#loc)
} loc(#loc)
#loc = loc(unknown)
#loc4 = loc("network.py":3:34 to :53)
#loc5 = loc("network.py":3:2 to 5:66)
#loc10 = loc("apply"(#loc4))
#loc15 = loc(callsite(#loc10 at #loc5))
#loc18 = loc("jit(apply)"(#loc5))
#loc19 = loc("jit(apply)/dot_general"(#loc15))
#loc21 = loc("jit(apply)/add"(#loc15))
"""
IMAGE = np.arange(8, dtype=np.float32).reshape(2, 4)
WEIGHTS = {"params.b": np.float32([1, 2, 3]), "params.w": np.arange(12, dtype=np.float32).reshape(4, 3)}


def expected() -> Any:
    return IMAGE @ WEIGHTS["params.w"] + WEIGHTS["params.b"]


# As JAX 0.10 prints a call of LAPACK, without what repeats.
CALL = """func.func @main(%arg0: tensor<3x3xf32>) -> tensor<3x3xf32> {
  %0:2 = stablehlo.custom_call @lapack_spotrf_ffi(%arg0) {backend_config = "", mhlo.backend_config = {uplo = 76 : ui8},
      operand_layouts = [dense<[0, 1]> : tensor<2xindex>], output_operand_aliases = [#stablehlo.output_operand_alias<
      output_tuple_indices = [0], operand_index = 0, operand_tuple_indices = []>], result_layouts = [dense<[0, 1]> :
      tensor<2xindex>, dense<> : tensor<0xindex>], sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([k, l], [])
      {i=3, j=3, k=3, l=3}, custom>} : (tensor<3x3xf32>) -> (tensor<3x3xf32>, tensor<i32>) loc("jit(f)/cholesky")
  return %0#0 : tensor<3x3xf32>
}"""
REFUSED = {
    CALL: "stablehlo.custom_call 'jit(f)/cholesky': found a call of 'lapack_spotrf_ffi', expected ops of StableHLO; "
    "JAX computes matrix decompositions with LAPACK: compute it outside of the function, and give the function its",
    CALL.replace("lapack_spotrf_ffi", "xla_ffi_python_cpu_callback"): "expected ops of StableHLO; leave callbacks",
    CALL.replace("lapack_spotrf_ffi", "mine"): "found a call of 'mine', expected ops of StableHLO; write the function",
    """func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
      %0 = chlo.zeta %x, %x : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>
      return %0 : tensor<2xf32>
    }""": "text:2:12: custom op 'chlo.zeta' is unknown, expected an op that zeropoint has; jax.export replaces",
    """module {
      sdy.mesh @empty = <["x"=1]>
    }""": "text:2:7: Dialect `sdy' not found for custom op 'sdy.mesh', expected StableHLO; if JAX wrote it, leave",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_only_jax_runs_is_refused_with_what_to_do(text: str) -> None:
    with pytest.raises(ModelError, match=re.escape(REFUSED[text])):
        zp.load(text)


def test_an_artifact_with_a_call_of_lapack_is_refused_with_what_to_do() -> None:
    """`jax.export.export(jax.jit(jnp.linalg.eigvals))(...).mlir_module_serialized` of JAX 0.10."""
    pytest.importorskip("torch_mlir", reason="C++ StableHLO comes with torch-mlir")
    with pytest.raises(ModelError, match="found ops or attributes of dialect 'sdy', expected StableHLO; JAX writes"):
        zp.load(Path(__file__).parent / "jax" / "call.mlirbc")


def test_inputs_and_outputs_have_the_names_of_the_function() -> None:
    model = zp.load(TEXT)
    assert [port.name for port in model.inputs] == ["params.b", "params.w", "image"]
    assert [port.name for port in model.outputs] == ["scores"]
    np.testing.assert_array_equal(model(image=IMAGE, **WEIGHTS)["scores"], expected())


def test_names_that_repeat_and_results_without_names_are_numbered() -> None:
    text = TEXT.replace("result['scores']", "result[0]").replace("params['w']", "params['b']")
    model = zp.load(text)
    assert [port.name for port in model.inputs] == ["arg0", "arg1", "image"]
    assert [port.name for port in model.outputs] == ["result0"]


@pytest.mark.parametrize(
    ("info", "name"),
    [("result", "result"), ("", "result"), ("result[1]['box'][0]", "result1.box.0"), ("result.logits", "logits")],
)
def test_an_output_is_named_by_its_place_in_what_the_function_returns(info: str, name: str) -> None:
    model = zp.load(TEXT.replace("result['scores']", info))
    assert [port.name for port in model.outputs] == [name]


def test_parameters_become_constants() -> None:
    model = zp.load(TEXT, constants=WEIGHTS)
    assert [port.name for port in model.inputs] == ["image"]
    np.testing.assert_array_equal(model(IMAGE)["scores"], expected())


@pytest.mark.parametrize(
    ("constants", "message"),
    [
        ({"w": np.zeros(3)}, "found a value for 'w', expected one of the inputs: params.b, params.w, image"),
        ({"params.b": np.zeros(3)}, r"input 'params.b': found a value of float64\[3\], expected tensor<3xf32>"),
        ({"params.b": np.zeros((3, 1), np.float32)}, r"found a value of float32\[3, 1\], expected tensor<3xf32>"),
    ],
)
def test_constants_that_do_not_fit_are_refused(constants: dict[str, Any], message: str) -> None:
    with pytest.raises(zp.Error, match=message):
        zp.load(TEXT, constants=constants)


def test_a_lowered_function_states_its_inputs_as_a_tree() -> None:
    """`jax.stages.Lowered` has `in_avals`, too: the pair of its positional and keyword arguments, not a list."""

    class Lowered:
        in_avals: Any = ((object(),), {})
        args_info = compile = None

        def as_text(self, *, dialect: str, debug_info: bool) -> str:
            return TEXT if dialect == "stablehlo" and debug_info else ""

    Lowered.__module__ = "jax._src.stages"
    assert [port.name for port in zp.load(Lowered()).inputs] == ["params.b", "params.w", "image"]


def test_what_jax_lowers_or_exports_is_a_model() -> None:
    jax = pytest.importorskip("jax")

    def apply(params: Any, image: Any) -> Any:
        return {"scores": image @ params["w"] + params["b"]}

    params = {name.removeprefix("params."): array for name, array in WEIGHTS.items()}
    for source in (jax.jit(apply).lower(params, IMAGE), jax.export.export(jax.jit(apply))(params, IMAGE)):
        model = zp.load(source, constants=WEIGHTS)
        np.testing.assert_allclose(model(image=IMAGE)["scores"], expected())
    with pytest.raises(zp.Error, match=r"of JAX, expected a function with its arguments' shapes: jax.jit\(f\)"):
        zp.load(jax.jit(apply))
