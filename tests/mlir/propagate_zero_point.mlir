// RUN: -p 'fuse,propagate' --split-input-file

// The right operand of a product of two activations has zero point 0; nothing else reads it, so it takes it itself.
func.func @main(%x: tensor<2x4xf32>, %y: tensor<4x3xf32>) -> tensor<2x3xf32> {
  %sx = "quant.stats"(%x) {layerStats = dense<[0.0, 2.55]> : tensor<2xf32>} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %sy = "quant.stats"(%y) {layerStats = dense<[0.0, 127.0]> : tensor<2xf32>} : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %0 = stablehlo.dot_general %sx, %sy, contracting_dims = [1] x [0] : (tensor<2x4xf32>, tensor<4x3xf32>) -> tensor<2x3xf32>
  %1 = "quant.stats"(%0) {layerStats = dense<[-128.0, 127.0]> : tensor<2xf32>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %1 : tensor<2x3xf32>
}
// CHECK-LABEL: func.func @main
// CHECK-NOT:   "rescale"
// CHECK:       quant.region "batch_matmul"({{.*}} as !quant.uniform<i8:f32, 0.0{{.*}}:-128>, {{.*}} as !quant.uniform<i8:f32, 1.000000e+00>)

// -----

// An input that is both operands is quantized twice.
func.func @main(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %s = "quant.stats"(%x) {layerStats = dense<[0.0, 127.0]> : tensor<2xf32>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %0 = stablehlo.dot_general %s, %s, contracting_dims = [1] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = "quant.stats"(%0) {layerStats = dense<[-128.0, 127.0]> : tensor<2xf32>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %1 : tensor<4x4xf32>
}
// CHECK-LABEL: func.func @main
// CHECK-NOT:   "rescale"
// CHECK:       quant.region "batch_matmul"({{.*}} = %x as !quant.uniform<i8:f32, 0.498{{[0-9]*}}:-128>, {{.*}} = %x as !quant.uniform<i8:f32, 1.000000e+00>)

// -----

// The right operand is the left one, too, which keeps its zero point: a rescale in between.
func.func @main(%x: tensor<4x4xf32>, %y: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %sx = "quant.stats"(%x) {layerStats = dense<[0.0, 64.0]> : tensor<2xf32>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %sy = "quant.stats"(%y) {layerStats = dense<[0.0, 63.0]> : tensor<2xf32>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %sum = stablehlo.add %sx, %sy : tensor<4x4xf32> loc("image")
  %s = "quant.stats"(%sum) {layerStats = dense<[0.0, 127.0]> : tensor<2xf32>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %0 = stablehlo.dot_general %s, %s, contracting_dims = [1] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = "quant.stats"(%0) {layerStats = dense<[-128.0, 127.0]> : tensor<2xf32>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %1 : tensor<4x4xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:       %[[R:.*]] = quant.region "rescale"({{.*}} as !quant.uniform<i8:f32, [[S:0.[0-9]*]]:-128>) -> {{.*}} as !quant.uniform<i8:f32, 1.000000e+00>
// CHECK-SAME:  zeropoint.rescale = "'image': any zero point (other users of 'image'); zero point 0 (kernel batch_matmul)"
// CHECK:       quant.region "batch_matmul"({{.*}} as !quant.uniform<i8:f32, [[S]]:-128>, %{{.*}} = %[[R]] as !quant.uniform<i8:f32, 1.000000e+00>)

// -----

// tanh is fixed to zero point 0, which suits the product.
func.func @main(%x: tensor<4x4xf32>, %y: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %sx = "quant.stats"(%x) {layerStats = dense<[0.0, 2.55]> : tensor<2xf32>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %sy = "quant.stats"(%y) {layerStats = dense<[0.0, 2.55]> : tensor<2xf32>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %t = stablehlo.tanh %sy : tensor<4x4xf32>
  %0 = stablehlo.dot_general %sx, %t, contracting_dims = [1] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = "quant.stats"(%0) {layerStats = dense<[-128.0, 127.0]> : tensor<2xf32>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %1 : tensor<4x4xf32>
}
// CHECK-LABEL: func.func @main
// CHECK-NOT:   "rescale"
// CHECK:       quant.region "batch_matmul"({{.*}} as !quant.uniform<i8:f32, 7.812500e-03>)
