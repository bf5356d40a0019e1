// RUN: -p 'fuse,scale-parts' --split-input-file

// The second product is 1/100 of the first, and the third one's weights undo that: it is multiplied by 128.
func.func @main(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %p = stablehlo.constant dense<[[1.0, -0.5], [0.5, 1.0], [-1.0, 0.25], [0.75, -1.0]]> : tensor<4x2xf32>
  %q = stablehlo.constant dense<[[0.01, -0.005], [0.005, 0.01], [-0.01, 0.0025], [0.0075, -0.01]]> : tensor<4x2xf32>
  %w = stablehlo.constant dense<[[0.01, -0.01, 0.005, 0.0075], [0.005, 0.01, -0.01, 0.0025], [1.0, 0.5, -1.0, 0.25], [-0.5, 1.0, 0.75, -1.0]]> : tensor<4x4xf32>
  %i = "quant.stats"(%x) {layerStats = dense<[-40.0, 40.0]> : tensor<2xf32>} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %a0 = stablehlo.dot_general %i, %p, contracting_dims = [1] x [0] : (tensor<2x4xf32>, tensor<4x2xf32>) -> tensor<2x2xf32>
  %a = "quant.stats"(%a0) {layerStats = dense<[-100.0, 100.0]> : tensor<2xf32>} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %b0 = stablehlo.dot_general %i, %q, contracting_dims = [1] x [0] : (tensor<2x4xf32>, tensor<4x2xf32>) -> tensor<2x2xf32>
  %b = "quant.stats"(%b0) {layerStats = dense<[-1.0, 1.0]> : tensor<2xf32>} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %j = stablehlo.concatenate %a, %b, dim = 1 : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x4xf32>
  %v = "quant.stats"(%j) {layerStats = dense<[-100.0, 100.0]> : tensor<2xf32>} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %y0 = stablehlo.dot_general %v, %w, contracting_dims = [1] x [0] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %y = "quant.stats"(%y0) {layerStats = dense<[-3.0, 3.0]> : tensor<2xf32>} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:       %[[A:.*]] = quant.region "fully_connected"
// CHECK:       %[[W:.*]] = stablehlo.constant dense<{{\[\[}}1.280000e+00, -6.400000e-01]
// CHECK:       %[[B:.*]] = quant.region "fully_connected"(%{{.*}} = %i, %{{.*}} = %[[W]]) {{.*}}"all channels multiplied by 128"
// CHECK:       %[[S:.*]] = "quant.stats"(%[[B]]) {layerStats = dense<[-1.280000e+02, 1.280000e+02]>
// CHECK:       %[[J:.*]] = quant.region "concatenate"
// CHECK:       %[[V:.*]] = "quant.stats"(%[[J]]) {layerStats = dense<[-1.280000e+02, 1.280000e+02]>
// CHECK:       %[[U:.*]] = stablehlo.constant dense<{{.*}}[7.812500e-03, 3.906250e-03,
// CHECK:       quant.region "fully_connected"(%{{.*}} = %[[V]], %{{.*}} = %[[U]])

// -----

// An argument has no weights to multiply: it keeps its size.
func.func @main(%a: tensor<2x2xf32>, %b: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %w = stablehlo.constant dense<[[0.01, -0.01], [0.005, 0.0075], [1.0, 0.5], [-0.5, 1.0]]> : tensor<4x2xf32>
  %p = "quant.stats"(%a) {layerStats = dense<[-100.0, 100.0]> : tensor<2xf32>} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %q = "quant.stats"(%b) {layerStats = dense<[-1.0, 1.0]> : tensor<2xf32>} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %j = stablehlo.concatenate %p, %q, dim = 1 : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x4xf32>
  %v = "quant.stats"(%j) {layerStats = dense<[-100.0, 100.0]> : tensor<2xf32>} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %y = stablehlo.dot_general %v, %w, contracting_dims = [1] x [0] : (tensor<2x4xf32>, tensor<4x2xf32>) -> tensor<2x2xf32>
  return %y : tensor<2x2xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:       stablehlo.constant dense<{{\[\[}}0.00999999977, -0.00999999977]
// CHECK-NOT:   zeropoint.equalized
