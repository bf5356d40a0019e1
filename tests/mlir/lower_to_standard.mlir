// RUN: -p 'lower-to-standard' --split-input-file

// A named op, and one generic for bias, requantization and clamp. Equal shifts of all channels are one plain shift.
func.func @matmul(%x: tensor<2x3xi8>, %w: tensor<3x4xi8>) -> tensor<2x4xi8> {
  %b = stablehlo.constant dense<[1, 2, 3, 4]> : tensor<4xi32>
  %m = stablehlo.constant dense<[1073741824, 1073741825, 1073741826, 1073741827]> : tensor<4xi32>
  %n = stablehlo.constant dense<32> : tensor<4xi32>
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<2x3xi8>, tensor<3x4xi8>) -> tensor<2x4xi32>
  %1 = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<4xi32>) -> tensor<2x4xi32>
  %2 = stablehlo.add %0, %1 : tensor<2x4xi32>
  %3 = "fxpmath.requantize"(%2, %m, %n) <{axis = 1 : i64, behaviour = "fixed32", zero_point = 3 : i64, storage_min = -128 : i64, storage_max = 127 : i64}> : (tensor<2x4xi32>, tensor<4xi32>, tensor<4xi32>) -> tensor<2x4xi8>
  return %3 : tensor<2x4xi8>
}
// CHECK-LABEL: func.func @matmul
// CHECK:       %[[ZERO:.*]] = arith.constant 0 : i32
// CHECK:       %[[INIT:.*]] = linalg.fill ins(%[[ZERO]] : i32)
// CHECK:       %[[ACC:.*]] = linalg.matmul ins(%x, %w : tensor<2x3xi8>, tensor<3x4xi8>) outs(%[[INIT]] : tensor<2x4xi32>) -> tensor<2x4xi32>
// CHECK:       %[[B:.*]] = arith.constant dense<[1, 2, 3, 4]> : tensor<4xi32>
// CHECK:       %[[M:.*]] = arith.constant dense<[1073741824, 1073741825, 1073741826, 1073741827]> : tensor<4xi64>
// CHECK:       linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%[[ACC]], %[[B]], %[[M]]
// CHECK-NEXT:  ^bb0(%[[A:.*]]: i32, %[[BIAS:.*]]: i32, %[[F:.*]]: i64, %{{.*}}: i8):
// CHECK:         %[[SHIFT:.*]] = arith.constant 32 : i64
// CHECK:         %[[S:.*]] = arith.addi %[[A]], %[[BIAS]] : i32
// CHECK-NEXT:    %[[W:.*]] = arith.extsi %[[S]] : i32 to i64
// CHECK-NEXT:    %[[P:.*]] = arith.muli %[[W]], %[[F]] : i64
// CHECK-NEXT:    %[[R:.*]] = arith.addi %[[P]], %{{.*}} : i64
// CHECK-NEXT:    %[[Q:.*]] = arith.shrsi %[[R]], %[[SHIFT]] : i64
// CHECK-NEXT:    %[[Z:.*]] = arith.addi %[[Q]], %{{.*}} : i64
// CHECK-NEXT:    %[[L:.*]] = arith.maxsi %[[Z]], %{{.*}} : i64
// CHECK-NEXT:    %[[C:.*]] = arith.minsi %[[L]], %{{.*}} : i64
// CHECK-NEXT:    %[[T:.*]] = arith.trunci %[[C]] : i64 to i8
// CHECK-NEXT:    linalg.yield %[[T]] : i8
// CHECK-NOT:   linalg.generic

// -----

// Weights of a transposed product are transposed here.
func.func @transposed(%x: tensor<1x2xi8>) -> tensor<1x3xi32> {
  %w = stablehlo.constant dense<[[1, 2], [3, 4], [5, 6]]> : tensor<3x2xi8>
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [1] : (tensor<1x2xi8>, tensor<3x2xi8>) -> tensor<1x3xi32>
  return %0 : tensor<1x3xi32>
}
// CHECK-LABEL: func.func @transposed
// CHECK:       arith.constant dense<{{\[\[}}1, 3, 5], [2, 4, 6]]> : tensor<2x3xi8>
// CHECK:       linalg.matmul

// -----

// Padding with the zero point, a convolution, a pooling.
func.func @windows(%x: tensor<1x2x5x5xi8>, %w: tensor<2x1x3x3xi8>) -> tensor<1x2x2x2xi32> {
  %z = stablehlo.constant dense<-128> : tensor<i8>
  %i = stablehlo.constant dense<-2147483648> : tensor<i32>
  %0 = stablehlo.pad %x, %z, low = [0, 0, 1, 1], high = [0, 0, 1, 1], interior = [0, 0, 0, 0] : (tensor<1x2x5x5xi8>, tensor<i8>) -> tensor<1x2x7x7xi8>
  %1 = stablehlo.convolution(%0, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {} {batch_group_count = 1 : i64, feature_group_count = 2 : i64} : (tensor<1x2x7x7xi8>, tensor<2x1x3x3xi8>) -> tensor<1x2x5x5xi32>
  %2 = "stablehlo.reduce_window"(%1, %i) <{window_dimensions = array<i64: 1, 1, 2, 2>, window_strides = array<i64: 1, 1, 2, 2>}> ({
  ^bb0(%a: tensor<i32>, %b: tensor<i32>):
    %3 = stablehlo.maximum %a, %b : tensor<i32>
    stablehlo.return %3 : tensor<i32>
  }) : (tensor<1x2x5x5xi32>, tensor<i32>) -> tensor<1x2x2x2xi32>
  return %2 : tensor<1x2x2x2xi32>
}
// CHECK-LABEL: func.func @windows
// CHECK:       tensor.pad %x low[0, 0, 1, 1] high[0, 0, 1, 1]
// CHECK:       tensor.yield %{{.*}} : i8
// CHECK:       tensor.collapse_shape %w {{\[\[}}0 : i64], [1 : i64, 2 : i64], [3 : i64]] : tensor<2x1x3x3xi8> into tensor<2x3x3xi8>
// CHECK:       linalg.depthwise_conv_2d_nchw_chw
// CHECK:       linalg.pooling_nchw_max
// CHECK-NOT:   stablehlo

// -----

// Floats at the edge are quantized as the profile says; casts between a type and its storage are nothing.
module attributes {zeropoint.profile = "fixed32"} {
  func.func @edge(%x: tensor<4xf32>) -> tensor<4xi8> {
    %0 = stablehlo.uniform_quantize %x : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 0.5:3>>
    %1 = quant.scast %0 : tensor<4x!quant.uniform<i8:f32, 0.5:3>> to tensor<4xi8>
    return %1 : tensor<4xi8>
  }
}
// CHECK-LABEL: func.func @edge
// CHECK:       linalg.generic
// CHECK:         arith.divf
// CHECK:         arith.addf
// CHECK:         math.roundeven
// CHECK:         arith.fptosi
// CHECK-NEXT:    linalg.yield
// CHECK-NOT:   quant.
