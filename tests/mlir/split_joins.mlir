// RUN: -p 'fuse,split-joins' --split-input-file

// The product gives both operands one size: it is computed for each, and the sum after it for both.
func.func @main(%x: tensor<1x2xf32>, %y: tensor<1x1xf32>, %z: tensor<1x1xf32>) -> tensor<1x4xf32> {
  %scale = stablehlo.constant dense<[0.01, 0.02, 1.0, 2.0]> : tensor<4xf32>
  %shift = stablehlo.constant dense<[0.1, 0.2, 0.3, 0.4]> : tensor<4xf32>
  %a = "quant.stats"(%x) {layerStats = dense<[-100.0, 100.0]> : tensor<2xf32>} : (tensor<1x2xf32>) -> tensor<1x2xf32>
  %b = "quant.stats"(%y) {layerStats = dense<[-1.0, 1.0]> : tensor<2xf32>} : (tensor<1x1xf32>) -> tensor<1x1xf32>
  %c = "quant.stats"(%z) {layerStats = dense<[-0.9, 0.5]> : tensor<2xf32>} : (tensor<1x1xf32>) -> tensor<1x1xf32>
  %j = stablehlo.concatenate %a, %b, %c, dim = 1 : (tensor<1x2xf32>, tensor<1x1xf32>, tensor<1x1xf32>) -> tensor<1x4xf32>
  %v = "quant.stats"(%j) {layerStats = dense<[-100.0, 100.0]> : tensor<2xf32>} : (tensor<1x4xf32>) -> tensor<1x4xf32>
  %s = stablehlo.broadcast_in_dim %scale, dims = [1] : (tensor<4xf32>) -> tensor<1x4xf32>
  %m = stablehlo.multiply %v, %s : tensor<1x4xf32>
  %n = "quant.stats"(%m) {layerStats = dense<[-2.0, 2.0]> : tensor<2xf32>} : (tensor<1x4xf32>) -> tensor<1x4xf32>
  %t = stablehlo.broadcast_in_dim %shift, dims = [1] : (tensor<4xf32>) -> tensor<1x4xf32>
  %r = stablehlo.add %n, %t : tensor<1x4xf32>
  return %r : tensor<1x4xf32>
}
// CHECK-LABEL: func.func @main
// CHECK-DAG:   %[[A:.*]] = "quant.stats"(%x)
// CHECK-DAG:   %[[B:.*]] = "quant.stats"(%y)
// CHECK-DAG:   %[[C:.*]] = "quant.stats"(%z)
// CHECK:       %[[S:.*]] = stablehlo.constant dense<[0.00999999977, 2.000000e-02]>
// CHECK:       %[[M:.*]] = quant.region "multiply"(%{{.*}} = %[[A]], %{{.*}} = %[[S]]) -> tensor<1x2xf32>
// CHECK:       %[[P:.*]] = "quant.stats"(%[[M]]) {layerStats = dense<[-2.000000e+00, 2.000000e+00]>
// CHECK:       %[[J:.*]] = quant.region "concatenate"(%{{.*}} = %[[B]], %{{.*}} = %[[C]]) -> tensor<1x2xf32>
// CHECK:       %[[K:.*]] = "quant.stats"(%[[J]]) {layerStats = dense<[-1.000000e+00, 1.000000e+00]>
// CHECK:       %[[T:.*]] = stablehlo.constant dense<[1.000000e+00, 2.000000e+00]>
// CHECK:       %[[N:.*]] = quant.region "multiply"(%{{.*}} = %[[K]], %{{.*}} = %[[T]]) -> tensor<1x2xf32>
// CHECK:       %[[Q:.*]] = "quant.stats"(%[[N]])
// CHECK:       %[[W:.*]] = quant.region "concatenate"(%{{.*}} = %[[P]], %{{.*}} = %[[Q]]) -> tensor<1x4xf32>
// CHECK:       %[[V:.*]] = "quant.stats"(%[[W]]) {layerStats = dense<[-2.000000e+00, 2.000000e+00]>
// CHECK:       quant.region "add"(%{{.*}} = %[[V]], %{{.*}}) -> tensor<1x4xf32>
// CHECK-NOT:   quant.region

// -----

// The result of a product by one number has the sizes of its operand: its own scale is as coarse.
func.func @main(%x: tensor<1x2xf32>, %y: tensor<1x2xf32>) -> tensor<1x4xf32> {
  %half = stablehlo.constant dense<0.5> : tensor<f32>
  %a = "quant.stats"(%x) {layerStats = dense<[-100.0, 100.0]> : tensor<2xf32>} : (tensor<1x2xf32>) -> tensor<1x2xf32>
  %b = "quant.stats"(%y) {layerStats = dense<[-1.0, 1.0]> : tensor<2xf32>} : (tensor<1x2xf32>) -> tensor<1x2xf32>
  %j = stablehlo.concatenate %a, %b, dim = 1 : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x4xf32>
  %v = "quant.stats"(%j) {layerStats = dense<[-100.0, 100.0]> : tensor<2xf32>} : (tensor<1x4xf32>) -> tensor<1x4xf32>
  %s = stablehlo.broadcast_in_dim %half, dims = [] : (tensor<f32>) -> tensor<1x4xf32>
  %m = stablehlo.multiply %v, %s : tensor<1x4xf32>
  %n = "quant.stats"(%m) {layerStats = dense<[-50.0, 50.0]> : tensor<2xf32>} : (tensor<1x4xf32>) -> tensor<1x4xf32>
  return %n : tensor<1x4xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:       %[[J:.*]] = quant.region "concatenate"(%{{.*}}, %{{.*}}) -> tensor<1x4xf32>
// CHECK:       %[[V:.*]] = "quant.stats"(%[[J]])
// CHECK:       quant.region "{{.*}}"(%{{.*}} = %[[V]]
// CHECK-NOT:   concatenate
