// RUN: -p 'legalize-real-math' --split-input-file

// A product, its bias, and a clamp, which may have one bound or two.
func.func @main(%x: tensor<2x3xf32>, %w: tensor<3x4xf32>, %b: tensor<4xf32>) -> tensor<2x4xf32> {
  %0 = "fxpmath.real_matmul_bias"(%x, %w, %b) <{clamp_min = 0.0 : f64, clamp_max = 6.0 : f64}> : (tensor<2x3xf32>, tensor<3x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}
// CHECK-LABEL: func.func @main
// CHECK-NEXT:  %[[P:.*]] = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
// CHECK-NEXT:  %[[B:.*]] = stablehlo.broadcast_in_dim %b, dims = [1]
// CHECK-NEXT:  %[[S:.*]] = stablehlo.add %[[P]], %[[B]]
// CHECK-NEXT:  %[[Z:.*]] = stablehlo.constant dense<0.000000e+00>
// CHECK-NEXT:  %[[LOW:.*]] = stablehlo.broadcast_in_dim %[[Z]]
// CHECK-NEXT:  %[[M:.*]] = stablehlo.maximum %[[S]], %[[LOW]]
// CHECK-NEXT:  %[[SIX:.*]] = stablehlo.constant dense<6.000000e+00>
// CHECK-NEXT:  %[[HIGH:.*]] = stablehlo.broadcast_in_dim %[[SIX]]
// CHECK-NEXT:  %[[R:.*]] = stablehlo.minimum %[[M]], %[[HIGH]]
// CHECK-NEXT:  return %[[R]]

// -----

// Functions have StableHLO's names, a square is a product, and comparisons are with zero.
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xi1>) {
  %0 = "fxpmath.real_unary_ew"(%x) <{fn = "SQUARE"}> : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "fxpmath.real_unary_ew"(%0) <{fn = "CMPLZ"}> : (tensor<4xf32>) -> tensor<4xi1>
  %2 = "fxpmath.real_unary_ew"(%0) <{fn = "SIGMOID"}> : (tensor<4xf32>) -> tensor<4xf32>
  return %2, %1 : tensor<4xf32>, tensor<4xi1>
}
// CHECK-LABEL: func.func @main
// CHECK-NEXT:  %[[Q:.*]] = stablehlo.multiply %x, %x
// CHECK-NEXT:  %[[ZERO:.*]] = stablehlo.constant dense<0.000000e+00>
// CHECK-NEXT:  %[[ZEROS:.*]] = stablehlo.broadcast_in_dim %[[ZERO]]
// CHECK-NEXT:  %[[C:.*]] = stablehlo.compare LT, %[[Q]], %[[ZEROS]]
// CHECK-NEXT:  %[[L:.*]] = stablehlo.logistic %[[Q]]
// CHECK-NEXT:  return %[[L]], %[[C]]

// -----

// Quantized values are left to `lower`.
func.func @main(%a: tensor<4x!quant.uniform<i8:f32, 0.5>>, %b: tensor<4x!quant.uniform<i8:f32, 0.25>>) -> tensor<4x!quant.uniform<i8:f32, 0.5>> {
  %0 = "fxpmath.real_add_ew"(%a, %b) : (tensor<4x!quant.uniform<i8:f32, 0.5>>, tensor<4x!quant.uniform<i8:f32, 0.25>>) -> tensor<4x!quant.uniform<i8:f32, 0.5>>
  return %0 : tensor<4x!quant.uniform<i8:f32, 0.5>>
}
// CHECK-LABEL: func.func @main
// CHECK-NEXT:  %[[S:.*]] = "fxpmath.real_add_ew"(%a, %b)
// CHECK-NEXT:  return %[[S]]
