// RUN: -p 'fold-empty'

// A value without elements is a constant; a reduction of it is the number that it starts with.
func.func @main(%x: tensor<2x0x4xf32>) -> (tensor<2x4xf32>, tensor<0xf32>) {
  %start = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %0 = stablehlo.exponential %x : tensor<2x0x4xf32>
  %1 = "stablehlo.reduce"(%0, %start) <{dimensions = array<i64: 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %m = stablehlo.maximum %a, %b : tensor<f32>
    stablehlo.return %m : tensor<f32>
  }) : (tensor<2x0x4xf32>, tensor<f32>) -> tensor<2x4xf32>
  %2 = stablehlo.reshape %x : (tensor<2x0x4xf32>) -> tensor<0xf32>
  return %1, %2 : tensor<2x4xf32>, tensor<0xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:       %[[START:.*]] = stablehlo.constant dense<0xFF800000> : tensor<f32>
// CHECK-NEXT:  %[[M:.*]] = stablehlo.broadcast_in_dim %[[START]], dims = [] : (tensor<f32>) -> tensor<2x4xf32>
// CHECK-NEXT:  %[[E:.*]] = stablehlo.constant dense<> : tensor<0xf32>
// CHECK-NEXT:  return %[[M]], %[[E]]

// -----

// A product over a dimension without elements is 0; what has elements stays.
func.func @products(%x: tensor<2x0xf32>, %w: tensor<0x3xf32>, %y: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<2x0xf32>, tensor<0x3xf32>) -> tensor<2x3xf32>
  %1 = stablehlo.add %0, %y : tensor<2x3xf32>
  return %1 : tensor<2x3xf32>
}
// CHECK-LABEL: func.func @products
// CHECK:       %[[Z:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<f32>
// CHECK-NEXT:  %[[B:.*]] = stablehlo.broadcast_in_dim %[[Z]], dims = []
// CHECK-NEXT:  stablehlo.add %[[B]], %y

// -----

// A concatenation has no operands without elements, and is not needed for one operand.
func.func @concatenations(%x: tensor<2x3xf32>, %y: tensor<2x1xf32>, %e: tensor<2x0xf32>) -> (tensor<2x4xf32>, tensor<2x3xf32>) {
  %0 = stablehlo.concatenate %x, %e, %y, dim = 1 : (tensor<2x3xf32>, tensor<2x0xf32>, tensor<2x1xf32>) -> tensor<2x4xf32>
  %1 = stablehlo.concatenate %e, %x, dim = 1 : (tensor<2x0xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0, %1 : tensor<2x4xf32>, tensor<2x3xf32>
}
// CHECK-LABEL: func.func @concatenations
// CHECK-NEXT:  %[[J:.*]] = stablehlo.concatenate %x, %y, dim = 1
// CHECK-NEXT:  return %[[J]], %x
