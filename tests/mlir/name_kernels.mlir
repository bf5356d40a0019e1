// RUN: -p 'fuse,name-kernels'

// A cell whose kernels have one location: the first keeps its name, the others get numbers. `tail` is alone.
func.func @main(%x: tensor<1x2xf32>) -> tensor<1x2xf32> {
  %w = stablehlo.constant dense<0.5> : tensor<2x2xf32>
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32> loc("cell")
  %1 = stablehlo.tanh %0 : tensor<1x2xf32> loc("cell")
  %2 = stablehlo.dot_general %1, %w, contracting_dims = [1] x [0] : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32> loc("tail")
  return %2 : tensor<1x2xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:       quant.region "fully_connected"
// CHECK-NOT:   zeropoint.unique_name
// CHECK:       quant.region "tanh"
// CHECK:       zeropoint.unique_name = "cell_1"
// CHECK:       quant.region "fully_connected"
// CHECK-NOT:   zeropoint.unique_name
