// RUN: -p 'fuse,split-contractions' --split-input-file

// The caller reads the concatenation, so its operands keep their sizes. The product of the first one has the bias, the
// sum has the clamp. Ranges of parts are bounds.
func.func @main(%a: tensor<2x2xf32>, %b: tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<2x4xf32>) {
  %w = stablehlo.constant dense<[[0.01, -0.01], [0.005, 0.0075], [1.0, 0.5], [-0.5, 1.0]]> : tensor<4x2xf32>
  %k = stablehlo.constant dense<[1.0, -2.0]> : tensor<2xf32>
  %z = stablehlo.constant dense<0.0> : tensor<2x2xf32>
  %p = "quant.stats"(%a) {layerStats = dense<[-100.0, 100.0]> : tensor<2xf32>} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %q = "quant.stats"(%b) {layerStats = dense<[-1.0, 1.0]> : tensor<2xf32>} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %j = stablehlo.concatenate %p, %q, dim = 1 : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x4xf32>
  %v = "quant.stats"(%j) {layerStats = dense<[-100.0, 100.0]> : tensor<2xf32>} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %d = stablehlo.dot_general %v, %w, contracting_dims = [1] x [0] : (tensor<2x4xf32>, tensor<4x2xf32>) -> tensor<2x2xf32>
  %c = stablehlo.broadcast_in_dim %k, dims = [1] : (tensor<2xf32>) -> tensor<2x2xf32>
  %s = stablehlo.add %d, %c : tensor<2x2xf32>
  %r = stablehlo.maximum %s, %z : tensor<2x2xf32>
  %y = "quant.stats"(%r) {layerStats = dense<[0.0, 3.0]> : tensor<2xf32>} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  return %y, %v : tensor<2x2xf32>, tensor<2x4xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:       %[[W:.*]] = stablehlo.constant dense<{{\[\[}}1.000000e+00, 5.000000e-01], [-5.000000e-01, 1.000000e+00]]>
// CHECK:       %[[P:.*]] = quant.region "fully_connected"(%{{.*}} = %q, %{{.*}} = %[[W]], %{{.*}} = %k)
// CHECK:       stablehlo.add
// CHECK:       %[[PS:.*]] = "quant.stats"(%[[P]]) {layerStats = dense<[-3.500000e+00, 2.500000e+00]> : tensor<2xf32>, zeropoint.bounded}
// CHECK:       %[[U:.*]] = stablehlo.constant dense<{{\[\[}}0.00999999977, -0.00999999977]
// CHECK:       %[[Q:.*]] = quant.region "fully_connected"(%{{.*}} = %p, %{{.*}} = %[[U]])
// CHECK:       %[[QS:.*]] = "quant.stats"(%[[Q]]) {{.*}}zeropoint.bounded
// CHECK:       %[[Y:.*]] = quant.region "add"(%{{.*}} = %[[PS]], %{{.*}} = %[[QS]])
// CHECK:       stablehlo.maximum
// CHECK:       "quant.stats"(%[[Y]]) {layerStats = dense<[0.000000e+00, 3.000000e+00]> : tensor<2xf32>}

// -----

// One scale costs nothing: the weights are as large for both parts.
func.func @even(%a: tensor<2x2xf32>, %b: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %w = stablehlo.constant dense<[[1.0, -1.0], [0.5, 0.75], [1.0, 0.5], [-0.5, 1.0]]> : tensor<4x2xf32>
  %p = "quant.stats"(%a) {layerStats = dense<[-100.0, 100.0]> : tensor<2xf32>} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %q = "quant.stats"(%b) {layerStats = dense<[-1.0, 1.0]> : tensor<2xf32>} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %j = stablehlo.concatenate %p, %q, dim = 1 : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x4xf32>
  %v = "quant.stats"(%j) {layerStats = dense<[-100.0, 100.0]> : tensor<2xf32>} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %d = stablehlo.dot_general %v, %w, contracting_dims = [1] x [0] : (tensor<2x4xf32>, tensor<4x2xf32>) -> tensor<2x2xf32>
  %y = "quant.stats"(%d) {layerStats = dense<[-300.0, 300.0]> : tensor<2xf32>} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  return %y : tensor<2x2xf32>
}
// CHECK-LABEL: func.func @even
// CHECK:         quant.region "fully_connected"
// CHECK-NOT:     quant.region "fully_connected"
// CHECK:         return
