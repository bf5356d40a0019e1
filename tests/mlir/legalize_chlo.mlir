// RUN: -p 'legalize-chlo' --split-input-file

func.func @main(%x: tensor<2x3xf32>, %y: tensor<3xf32>, %z: tensor<2xf32>, %w: tensor<2x1xf32>) -> tensor<2x3xf32> {
  %0 = chlo.broadcast_add %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %1 = chlo.broadcast_multiply %z, %0 {broadcast_dimensions = array<i64: 0>} : (tensor<2xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %2 = chlo.broadcast_subtract %w, %1 : (tensor<2x1xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  return %2 : tensor<2x3xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:       [[Y:%.*]] = stablehlo.broadcast_in_dim %y, dims = [1] : (tensor<3xf32>) -> tensor<2x3xf32>
// CHECK-NEXT:  [[S:%.*]] = stablehlo.add %x, [[Y]] : tensor<2x3xf32>
// CHECK-NEXT:  [[Z:%.*]] = stablehlo.broadcast_in_dim %z, dims = [0] : (tensor<2xf32>) -> tensor<2x3xf32>
// CHECK-NEXT:  [[P:%.*]] = stablehlo.multiply [[Z]], [[S]] : tensor<2x3xf32>
// CHECK-NEXT:  [[W:%.*]] = stablehlo.broadcast_in_dim %w, dims = [0, 1] : (tensor<2x1xf32>) -> tensor<2x3xf32>
// CHECK-NEXT:  stablehlo.subtract [[W]], [[P]] : tensor<2x3xf32>

// -----

func.func @main(%x: tensor<3xf32>, %p: tensor<i1>) -> tensor<3xf32> {
  %0 = chlo.broadcast_compare %x, %x {comparison_direction = #chlo<comparison_direction LT>, compare_type = #chlo<comparison_type TOTALORDER>} : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
  %1 = chlo.square %x : tensor<3xf32> -> tensor<3xf32>
  %2 = chlo.broadcast_select %p, %1, %x : (tensor<i1>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %3 = chlo.tan %2 : tensor<3xf32> -> tensor<3xf32>
  %4 = chlo.erf %3 : tensor<3xf32> -> tensor<3xf32>
  return %4 : tensor<3xf32>
}
// A function that StableHLO has no op for stays.
// CHECK-LABEL: func.func @main
// CHECK:       stablehlo.compare LT, %x, %x, TOTALORDER
// CHECK:       stablehlo.multiply %x, %x
// CHECK:       stablehlo.select
// CHECK:       stablehlo.tan
// CHECK:       chlo.erf

// -----

func.func @main(%x: tensor<4x7xf32>) -> (tensor<4x2xf32>, tensor<4x2xi32>) {
  %0, %1 = chlo.top_k(%x, k = 2) : tensor<4x7xf32> -> (tensor<4x2xf32>, tensor<4x2xi32>)
  return %0, %1 : tensor<4x2xf32>, tensor<4x2xi32>
}
// CHECK-LABEL: func.func @main
// CHECK:       [[I:%.*]] = stablehlo.iota dim = 1 : tensor<4x7xi32>
// CHECK:       "stablehlo.sort"(%x, [[I]]) <{dimension = 1 : i64, is_stable = true}>
// CHECK:         stablehlo.compare GT, {{.*}}, TOTALORDER
// CHECK:       stablehlo.slice {{.*}} [0:4, 0:2] : (tensor<4x7xf32>) -> tensor<4x2xf32>
// CHECK:       stablehlo.slice {{.*}} [0:4, 0:2] : (tensor<4x7xi32>) -> tensor<4x2xi32>

// -----

func.func @main(%x: tensor<3xcomplex<f32>>, %y: tensor<3xf32>) -> (tensor<3xcomplex<f32>>, tensor<3xi1>, tensor<3xf32>) {
  %0 = chlo.conj %x : tensor<3xcomplex<f32>> -> tensor<3xcomplex<f32>>
  %1 = chlo.is_inf %y : tensor<3xf32> -> tensor<3xi1>
  %2 = "chlo.constant_like"(%y) <{value = 2.5 : f32}> : (tensor<3xf32>) -> tensor<3xf32>
  return %0, %1, %2 : tensor<3xcomplex<f32>>, tensor<3xi1>, tensor<3xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:       stablehlo.imag
// CHECK-NEXT:  stablehlo.negate
// CHECK-NEXT:  stablehlo.complex
// CHECK:       stablehlo.abs %y
// CHECK:       stablehlo.constant dense<0x7F800000> : tensor<f32>
// CHECK:       stablehlo.compare EQ
// CHECK:       stablehlo.constant dense<2.500000e+00> : tensor<f32>
