// RUN: -p 'fuse,propagate{target=onnxruntime},exact-sums{target=onnxruntime}' --split-input-file

// The sum of a value that a kernel rounds is that of its integers, times the scale.
func.func @main(%x: tensor<2x5xf32>) -> tensor<2xf32> {
  %s = "quant.stats"(%x) {layerStats = dense<[-8.0, 55.75]> : tensor<2xf32>} : (tensor<2x5xf32>) -> tensor<2x5xf32>
  %a = stablehlo.logistic %s : tensor<2x5xf32>
  %t = "quant.stats"(%a) {layerStats = dense<[0.0, 1.0]> : tensor<2xf32>} : (tensor<2x5xf32>) -> tensor<2x5xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.reduce(%t init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<2x5xf32>, tensor<f32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:       quant.region "sum"(%[[X:[0-9a-z]*]]: tensor<2x5xf32>
// CHECK:       %[[INVERSE:[0-9a-z_]*]] = stablehlo.constant dense<254.999985>
// CHECK:       %[[BY:[0-9a-z_]*]] = stablehlo.broadcast_in_dim %[[INVERSE]]
// CHECK:       %[[NEAR:[0-9a-z_]*]] = stablehlo.multiply %[[X]], %[[BY]]
// CHECK:       %[[SHIFTED:[0-9a-z_]*]] = stablehlo.add %[[NEAR]]
// CHECK:       %[[U:[0-9a-z_]*]] = stablehlo.floor %[[SHIFTED]]
// CHECK:       %[[SUM:[0-9a-z_]*]] = stablehlo.reduce(%[[U]] init: %{{[0-9a-z_]*}}) applies stablehlo.add across dimensions = [1]
// CHECK:       stablehlo.constant dense<0.00392156886>
// CHECK:       %[[REAL:[0-9a-z_]*]] = stablehlo.multiply %[[SUM]]
// CHECK:       quant.return %[[REAL]]

// -----

// A layer norm: mean and variance come from integers, and the quotient is divided by a square root.
func.func @main(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %s = "quant.stats"(%x) {layerStats = dense<[0.0, 127.5]> : tensor<2xf32>} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %a = stablehlo.logistic %s : tensor<2x4xf32>
  %t = "quant.stats"(%a) {layerStats = dense<[0.0, 1.0]> : tensor<2xf32>} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %n = stablehlo.constant dense<4.0> : tensor<2xf32>
  %e = stablehlo.constant dense<0.25> : tensor<2xf32>
  %gamma = stablehlo.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  %0 = stablehlo.reduce(%t init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<2x4xf32>, tensor<f32>) -> tensor<2xf32>
  %1 = stablehlo.divide %0, %n : tensor<2xf32>
  %2 = stablehlo.broadcast_in_dim %1, dims = [0] : (tensor<2xf32>) -> tensor<2x4xf32>
  %3 = stablehlo.subtract %t, %2 : tensor<2x4xf32>
  %4 = stablehlo.multiply %3, %3 : tensor<2x4xf32>
  %5 = stablehlo.reduce(%4 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<2x4xf32>, tensor<f32>) -> tensor<2xf32>
  %6 = stablehlo.divide %5, %n : tensor<2xf32>
  %7 = stablehlo.add %6, %e : tensor<2xf32>
  %8 = stablehlo.rsqrt %7 : tensor<2xf32>
  %9 = stablehlo.broadcast_in_dim %8, dims = [0] : (tensor<2xf32>) -> tensor<2x4xf32>
  %10 = stablehlo.multiply %3, %9 : tensor<2x4xf32>
  %11 = stablehlo.broadcast_in_dim %gamma, dims = [1] : (tensor<4xf32>) -> tensor<2x4xf32>
  %12 = stablehlo.multiply %10, %11 : tensor<2x4xf32>
  return %12 : tensor<2x4xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:       quant.region "layer_norm"
// CHECK:       %[[GAMMA:[0-9a-z_]*]] = stablehlo.broadcast_in_dim %{{[0-9a-z_]*}}, dims = [1] : (tensor<4xf32>)
// CHECK:       %[[U:[0-9a-z_]*]] = stablehlo.floor
// CHECK:       stablehlo.reduce(%[[U]] init: %{{[0-9a-z_]*}}) applies stablehlo.add across dimensions = [1]
// CHECK:       %[[NEAR:[0-9a-z_]*]] = stablehlo.floor
// CHECK:       %[[C:[0-9a-z_]*]] = stablehlo.broadcast_in_dim %[[NEAR]], dims = [0, 1]
// CHECK:       %[[D:[0-9a-z_]*]] = stablehlo.subtract %[[U]], %[[C]]
// CHECK:       %[[SQUARE:[0-9a-z_]*]] = stablehlo.multiply %[[D]], %[[D]]
// CHECK:       stablehlo.reduce(%[[SQUARE]] init: %{{[0-9a-z_]*}}) applies stablehlo.add across dimensions = [1]
// CHECK:       %[[PRODUCT:[0-9a-z_]*]] = stablehlo.multiply %{{[0-9a-z_]*}}, %[[GAMMA]] {
// CHECK:       %[[ROOT:[0-9a-z_]*]] = stablehlo.sqrt
// CHECK:       %[[BY:[0-9a-z_]*]] = stablehlo.broadcast_in_dim %[[ROOT]], dims = [0, 1]
// CHECK:       %[[NORM:[0-9a-z_]*]] = stablehlo.divide %[[PRODUCT]], %[[BY]] {
// CHECK:       quant.return %[[NORM]]

// -----

// An RMS norm: the sum of the squares of the integers.
func.func @main(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %s = "quant.stats"(%x) {layerStats = dense<[0.0, 127.5]> : tensor<2xf32>} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %a = stablehlo.logistic %s : tensor<2x4xf32>
  %t = "quant.stats"(%a) {layerStats = dense<[0.0, 1.0]> : tensor<2xf32>} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %n = stablehlo.constant dense<4.0> : tensor<2xf32>
  %e = stablehlo.constant dense<0.25> : tensor<2xf32>
  %0 = stablehlo.multiply %t, %t : tensor<2x4xf32>
  %1 = stablehlo.reduce(%0 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<2x4xf32>, tensor<f32>) -> tensor<2xf32>
  %2 = stablehlo.divide %1, %n : tensor<2xf32>
  %3 = stablehlo.add %2, %e : tensor<2xf32>
  %4 = stablehlo.rsqrt %3 : tensor<2xf32>
  %5 = stablehlo.broadcast_in_dim %4, dims = [0] : (tensor<2xf32>) -> tensor<2x4xf32>
  %6 = stablehlo.multiply %t, %5 : tensor<2x4xf32>
  return %6 : tensor<2x4xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:       quant.region "rms_norm"
// CHECK:       %[[U:[0-9a-z_]*]] = stablehlo.floor
// CHECK:       %[[SQUARE:[0-9a-z_]*]] = stablehlo.multiply %[[U]], %[[U]]
// CHECK:       stablehlo.reduce(%[[SQUARE]] init: %{{[0-9a-z_]*}}) applies stablehlo.add across dimensions = [1]
// CHECK:       %[[ROOT:[0-9a-z_]*]] = stablehlo.sqrt
// CHECK:       %[[BY:[0-9a-z_]*]] = stablehlo.broadcast_in_dim %[[ROOT]], dims = [0, 1]
// CHECK:       %[[NORM:[0-9a-z_]*]] = stablehlo.divide %[[U]], %[[BY]] {
// CHECK:       quant.return %[[NORM]]

// -----

// 70,000 integers of 8 bits: sums along one dimension, which are added in two halves.
func.func @main(%x: tensor<2x100x700xf32>) -> tensor<2xf32> {
  %s = "quant.stats"(%x) {layerStats = dense<[-8.0, 55.75]> : tensor<2xf32>} : (tensor<2x100x700xf32>) -> tensor<2x100x700xf32>
  %a = stablehlo.logistic %s : tensor<2x100x700xf32>
  %t = "quant.stats"(%a) {layerStats = dense<[0.0, 1.0]> : tensor<2xf32>} : (tensor<2x100x700xf32>) -> tensor<2x100x700xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.reduce(%t init: %zero) applies stablehlo.add across dimensions = [1, 2] : (tensor<2x100x700xf32>, tensor<f32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:       %[[U:[0-9a-z_]*]] = stablehlo.floor
// CHECK:       %[[S:[0-9a-z_]*]] = stablehlo.reduce(%[[U]] init: %{{[0-9a-z_]*}}) applies stablehlo.add across dimensions = [2]
// CHECK:       stablehlo.constant dense<2.44140625E-4>
// CHECK:       %[[HIGH:[0-9a-z_]*]] = stablehlo.floor
// CHECK:       %[[LOW:[0-9a-z_]*]] = stablehlo.add %[[S]]
// CHECK:       stablehlo.reduce(%[[HIGH]] init: %{{[0-9a-z_]*}}) applies stablehlo.add across dimensions = [1]
// CHECK:       stablehlo.reduce(%[[LOW]] init: %{{[0-9a-z_]*}}) applies stablehlo.add across dimensions = [1]

// -----

// f32 does not hold the inverse of every scale: a very small one is left alone.
func.func @main(%x: tensor<2x5xf32>) -> tensor<2xf32> {
  %s = "quant.stats"(%x) {layerStats = dense<[0.0, 1.0e-30]> : tensor<2xf32>} : (tensor<2x5xf32>) -> tensor<2x5xf32>
  %q = "quant.qcast"(%s) : (tensor<2x5xf32>) -> tensor<2x5x!quant.uniform<u8:f32, 1.0e-39>>
  %d = "quant.dcast"(%q) : (tensor<2x5x!quant.uniform<u8:f32, 1.0e-39>>) -> tensor<2x5xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.reduce(%d init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<2x5xf32>, tensor<f32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
// CHECK-LABEL: func.func @main
// CHECK-NOT:   stablehlo.floor
// CHECK:       return
