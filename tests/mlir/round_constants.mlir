// RUN: -p 'round-constants{target=onnxruntime}' --split-input-file

// In f32, -0.58 / 0.00454901904 is -127.5, which is rounded to -128. The exact ratio is -127.4999992.
func.func @main() -> tensor<2xf32> {
  %w = stablehlo.constant dense<[-0.5799999, 0.25]> : tensor<2xf32>
  %0 = "quant.qcast"(%w) : (tensor<2xf32>) -> tensor<2x!quant.uniform<i8:f32, 4.549019038677216e-03>>
  %1 = "quant.dcast"(%0) : (tensor<2x!quant.uniform<i8:f32, 4.549019038677216e-03>>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:       %[[W:.*]] = stablehlo.constant dense<[-0.582274437, 0.25019604]> : tensor<2xf32>
// CHECK:       quant.qcast{{.*}}%[[W]]

// -----

// Constants with the same integers in both ways stay as they are.
func.func @main() -> tensor<2xf32> {
  %w = stablehlo.constant dense<[-0.57, 0.25]> : tensor<2xf32>
  %0 = "quant.qcast"(%w) : (tensor<2xf32>) -> tensor<2x!quant.uniform<i8:f32, 4.549019038677216e-03>>
  %1 = "quant.dcast"(%0) : (tensor<2x!quant.uniform<i8:f32, 4.549019038677216e-03>>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:       stablehlo.constant dense<[-5.700000e-01, 2.500000e-01]> : tensor<2xf32>
