// RUN: -p 'unroll-loops'

// CHECK-LABEL: func.func @main(
func.func @main(%x: tensor<1x2xf32>, %w: tensor<2x2xf32>) -> tensor<1x2xf32> {
  // CHECK: %[[FIRST:.*]] = stablehlo.dot_general %x, %w
  // CHECK: %[[SECOND:.*]] = stablehlo.dot_general %[[FIRST]], %w
  // CHECK-NOT: stablehlo.while
  // CHECK: return %[[SECOND]]
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %0:2 = stablehlo.while(%i = %zero, %h = %x) : tensor<i32>, tensor<1x2xf32>
  cond {
    %two = stablehlo.constant dense<2> : tensor<i32>
    %again = stablehlo.compare LT, %i, %two : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %again : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %new = stablehlo.dot_general %h, %w, contracting_dims = [1] x [0] : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
    %next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next, %new : tensor<i32>, tensor<1x2xf32>
  }
  return %0#1 : tensor<1x2xf32>
}
