// RUN: -p 'state-statistics{file=%S/state_statistics.json}'

// The file has the range of the value that the key names.
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "quant.stats_ref"(%x) {statsKey = "image"} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = stablehlo.logistic %0 : tensor<4xf32>
  return %1 : tensor<4xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:       %[[S:.*]] = "quant.stats"(%x) {layerStats = dense<[-1.500000e+00, 2.500000e+00]> : tensor<2xf32>}
// CHECK-NEXT:  stablehlo.logistic %[[S]]
