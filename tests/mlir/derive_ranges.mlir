// RUN: -p 'fuse,instrument{target=cpu},derive-ranges' --split-input-file

// A maximum has the greater of the ends, a reversal the same ones, a relu those that the function has.
func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %b = "quant.stats"(%x) {layerStats = dense<[-3.0, 1.0]> : tensor<2xf32>} : (tensor<4xf32>) -> tensor<4xf32>
  %d = "quant.stats"(%y) {layerStats = dense<[-1.0, 2.0]> : tensor<2xf32>} : (tensor<4xf32>) -> tensor<4xf32>
  %0 = stablehlo.maximum %b, %d : tensor<4xf32>
  %1 = stablehlo.reverse %0, dims = [0] : tensor<4xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<4xf32>
  %2 = stablehlo.maximum %1, %zero : tensor<4xf32>
  return %2 : tensor<4xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:       quant.region "maximum"
// CHECK:       "quant.stats"{{.*}}layerStats = dense<[-1.{{0+e?\+?0*}}, 2.{{0+e?\+?0*}}]>
// CHECK-SAME:  zeropoint.derived
// CHECK-NOT:   quant.stats_ref
// CHECK:       "quant.stats"{{.*}}layerStats = dense<[0.{{0+e?\+?0*}}, 2.{{0+e?\+?0*}}]>
// CHECK-NOT:   quant.stats_ref

// -----

// A sum needs a range. What is computed from it does not.
func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %b = "quant.stats"(%x) {layerStats = dense<[-3.0, 1.0]> : tensor<2xf32>} : (tensor<4xf32>) -> tensor<4xf32>
  %d = "quant.stats"(%y) {layerStats = dense<[-1.0, 2.0]> : tensor<2xf32>} : (tensor<4xf32>) -> tensor<4xf32>
  %sum = stablehlo.add %b, %d : tensor<4xf32>
  %1 = stablehlo.maximum %sum, %b : tensor<4xf32>
  return %1 : tensor<4xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:       quant.stats_ref{{.*}}statsKey = "sum"
// CHECK-NOT:   quant.stats_ref
