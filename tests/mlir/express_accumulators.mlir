// RUN: -p 'fuse,propagate,express-accumulators,materialize' --split-input-file

// Only floats read the product: they get its accumulators. A sum that only floats read is left to them.
func.func @main(%x: tensor<2x2xf32>, %y: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %w = stablehlo.constant dense<[[127.0, -254.0], [1.0, 3.0]]> : tensor<2x2xf32>
  %b = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %s = "quant.stats"(%x) {layerStats = dense<[0.0, 63.75]> : tensor<2xf32>} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %0 = stablehlo.dot_general %s, %w, contracting_dims = [1] x [0] : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %1 = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<2xf32>) -> tensor<2x2xf32>
  %2 = stablehlo.add %0, %1 : tensor<2x2xf32>
  %3 = "quant.stats"(%2) {layerStats = dense<[0.0, 255.0]> : tensor<2xf32>} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %4 = stablehlo.add %3, %y : tensor<2x2xf32>
  %5 = stablehlo.atan2 %4, %y : tensor<2x2xf32>
  return %5 : tensor<2x2xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:       %[[SUM:.*]] = stablehlo.add %{{.*}}parameters{{.*}}"floats read it"{{.*}} tensor<2x2x!quant.uniform<i32:f32:1, {2.500000e-01,5.000000e-01}>>
// CHECK-NOT:   stablehlo.uniform_quantize
// CHECK:       %[[REAL:.*]] = stablehlo.uniform_dequantize %[[SUM]]
// CHECK:       %[[ADDED:.*]] = stablehlo.add %[[REAL]], %{{.*}} {zeropoint.float_reason = "a sum that only floats read", zeropoint.kernel = "add"}
// CHECK:       stablehlo.atan2 %[[ADDED]]

// -----

// What the program returns, and what a kernel reads as well, keeps its storage.
func.func @main(%x: tensor<2x2xf32>, %y: tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<2x2xf32>) {
  %w = stablehlo.constant dense<[[127.0, -254.0], [1.0, 3.0]]> : tensor<2x2xf32>
  %s = "quant.stats"(%x) {layerStats = dense<[0.0, 63.75]> : tensor<2xf32>} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %0 = stablehlo.dot_general %s, %w, contracting_dims = [1] x [0] : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %1 = "quant.stats"(%0) {layerStats = dense<[0.0, 255.0]> : tensor<2xf32>} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %2 = stablehlo.add %1, %s : tensor<2x2xf32>
  %3 = "quant.stats"(%2) {layerStats = dense<[0.0, 255.0]> : tensor<2xf32>} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %4 = stablehlo.atan2 %1, %y : tensor<2x2xf32>
  return %3, %4 : tensor<2x2xf32>, tensor<2x2xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:       %[[P:.*]] = stablehlo.dot_general
// CHECK:       %[[Q:.*]] = stablehlo.uniform_quantize %[[P]]
// CHECK:       stablehlo.add %[[Q]]

// -----

// A bounded result keeps its storage, too: the bound is a clamp of stored integers.
func.func @main(%x: tensor<2x2xf32>, %y: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %w = stablehlo.constant dense<[[127.0, -254.0], [1.0, 3.0]]> : tensor<2x2xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<2x2xf32>
  %s = "quant.stats"(%x) {layerStats = dense<[0.0, 63.75]> : tensor<2xf32>} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %0 = stablehlo.dot_general %s, %w, contracting_dims = [1] x [0] : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %1 = stablehlo.maximum %0, %zero : tensor<2x2xf32>
  %2 = "quant.stats"(%1) {layerStats = dense<[0.0, 255.0]> : tensor<2xf32>} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %3 = stablehlo.atan2 %2, %y : tensor<2x2xf32>
  return %3 : tensor<2x2xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:       stablehlo.dot_general
// CHECK:       stablehlo.uniform_quantize
// CHECK:       stablehlo.uniform_dequantize

// -----

// The model states the type of the product: it is rounded to it, also for floats.
func.func @main(%x: tensor<2x2xf32>, %y: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %w = stablehlo.constant dense<[[127.0, -254.0], [1.0, 3.0]]> : tensor<2x2xf32>
  %s = "quant.stats"(%x) {layerStats = dense<[0.0, 63.75]> : tensor<2xf32>} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %0 = stablehlo.dot_general %s, %w, contracting_dims = [1] x [0] : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %1 = quant.qcast %0 : tensor<2x2xf32> to tensor<2x2x!quant.uniform<i8:f32, 2.0:-7>>
  %2 = quant.dcast %1 : tensor<2x2x!quant.uniform<i8:f32, 2.0:-7>> to tensor<2x2xf32>
  %3 = stablehlo.atan2 %2, %y : tensor<2x2xf32>
  return %3 : tensor<2x2xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:       %[[STORED:.*]] = stablehlo.uniform_quantize {{.*}} tensor<2x2x!quant.uniform<i8:f32, 2.000000e+00:-7>>
// CHECK:       %[[REAL:.*]] = stablehlo.uniform_dequantize %[[STORED]]
// CHECK:       stablehlo.atan2 %[[REAL]]
