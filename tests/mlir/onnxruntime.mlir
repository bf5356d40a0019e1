// RUN: -p 'materialize'

// A sum as onnxruntime's QLinearAdd has it: two fused multiply-adds of the stored integers.
builtin.module attributes {zeropoint.profile = "onnxruntime"} {
  func.func @main(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
    %0 = "quant.region"(%a, %b) ({
    ^bb0(%x: tensor<4xf32>, %y: tensor<4xf32>):
      %1 = stablehlo.add %x, %y : tensor<4xf32>
      "quant.return"(%1) : (tensor<4xf32>) -> ()
    }) {input_specs = [!quant.uniform<u8:f32, 0.5:2>, !quant.uniform<u8:f32, 0.25:4>], logical_kernel = "add", output_specs = [!quant.uniform<u8:f32, 1.0:8>]} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
// CHECK-LABEL: func.func @main
// CHECK:       quant.scast {{.*}} : tensor<4x!quant.uniform<i32:f32, 5.000000e-01>> to tensor<4xi32>
// CHECK:       quant.scast {{.*}} : tensor<4x!quant.uniform<i32:f32, 2.500000e-01>> to tensor<4xi32>
// CHECK:       stablehlo.constant dense<2.500000e-01> : tensor<f64>
// CHECK:       stablehlo.multiply {{.*}} : tensor<4xf64>
// CHECK:       stablehlo.constant dense<6.000000e+00> : tensor<f64>
// CHECK:       stablehlo.add {{.*}} : tensor<4xf64>
// CHECK:       stablehlo.convert {{.*}} : (tensor<4xf64>) -> tensor<4xf32>
// CHECK:       stablehlo.constant dense<5.000000e-01> : tensor<f64>
// CHECK:       stablehlo.round_nearest_even {{.*}} : tensor<4xf32>
// CHECK:       stablehlo.uniform_quantize {{.*}} -> tensor<4x!quant.uniform<u8:f32, 1.000000e+00:8>>
