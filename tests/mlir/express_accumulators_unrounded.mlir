// RUN: -p 'fuse,propagate{target=onnxruntime products=integers},express-accumulators{target=onnxruntime},materialize'

// 8 bits are too coarse for a logarithm of values that span decades: it gets the accumulators. The other reader of the
// product is a kernel of bytes, so a cast is before it.
func.func @main(%x: tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<2x2xf32>) {
  %w = stablehlo.constant dense<[[127.0, 254.0], [1.0, 3.0]]> : tensor<2x2xf32>
  %s = "quant.stats"(%x) {layerStats = dense<[0.0, 63.75]> : tensor<2xf32>} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %0 = stablehlo.dot_general %s, %w, contracting_dims = [1] x [0] : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %1 = "quant.stats"(%0) {layerStats = dense<[0.001, 255.0]> : tensor<2xf32>} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %2 = stablehlo.log %1 : tensor<2x2xf32>
  %3 = stablehlo.logistic %1 : tensor<2x2xf32>
  %4 = "quant.stats"(%3) {layerStats = dense<[0.0, 1.0]> : tensor<2xf32>} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  return %2, %4 : tensor<2x2xf32>, tensor<2x2xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:       %[[SUM:.*]] = stablehlo.dot_general
// CHECK:       %[[REAL:.*]] = stablehlo.uniform_dequantize %[[SUM]]
// CHECK:       %[[CAST:.*]] = quant.qcast %[[REAL]] : tensor<2x2xf32> to tensor<2x2x!quant.uniform<u8:f32, 1.000000e+00>>
// CHECK:       stablehlo.log %[[REAL]]
// CHECK:       %[[READ:.*]] = stablehlo.uniform_dequantize %[[CAST]]
// CHECK:       stablehlo.logistic %[[READ]]
