// RUN: -p 'fuse,propagate,express-accumulators' --split-input-file

// Only floats read the product: its spec becomes its accumulators. A sum that only floats read loses its specs.
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
// CHECK:       %[[P:.*]] = quant.region "fully_connected"(%{{.*}} = %x as !quant.uniform<i8:f32, 2.500000e-01:-128>, {{.*}}) -> tensor<2x2xf32> as !quant.uniform<i32:f32:1, {2.500000e-01,5.000000e-01}> {{.*}}"floats read it", value = "accumulators in i32"
// CHECK:       quant.region "add"(%{{.*}}: tensor<2x2xf32> = %[[P]], %{{.*}}: tensor<2x2xf32> = %y) -> tensor<2x2xf32> attributes {zeropoint.float_reason = "a sum that only floats read"}

// -----

// A kernel reads the product, too: it keeps its storage.
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
// CHECK:       quant.region "fully_connected"({{.*}}) -> tensor<2x2xf32> as !quant.uniform<i8:f32, 1.000000e+00:-128>
// CHECK:       quant.region "add"({{.*}}) -> tensor<2x2xf32> as !quant.uniform<i8:f32, 1.000000e+00:-128>
// CHECK-NOT:   float_reason
