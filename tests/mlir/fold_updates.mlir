// RUN: -p 'unroll-loops,fold-updates'

// CHECK-LABEL: func.func @main(
func.func @main(%x: tensor<3x2xf32>, %w: tensor<2x2xf32>, %n: tensor<i32>) -> (tensor<3x2xf32>, tensor<1x2xf32>, tensor<1x2xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %start = stablehlo.constant dense<0.0> : tensor<1x2xf32>
  %none = stablehlo.constant dense<0.0> : tensor<3x2xf32>
  // A scan over the rows of %x, backwards: three products, and their results joined.
  // CHECK: %[[ROW2:.*]] = stablehlo.slice %x [2:3, 0:2]
  // CHECK: %[[H2:.*]] = stablehlo.dot_general %[[ROW2]], %w
  // CHECK: %[[ROW1:.*]] = stablehlo.slice %x [1:2, 0:2]
  // CHECK: %[[SUM1:.*]] = stablehlo.add %[[ROW1]], %[[H2]]
  // CHECK: %[[H1:.*]] = stablehlo.dot_general %[[SUM1]], %w
  // CHECK: %[[ROW0:.*]] = stablehlo.slice %x [0:1, 0:2]
  // CHECK: %[[SUM0:.*]] = stablehlo.add %[[ROW0]], %[[H1]]
  // CHECK: %[[H0:.*]] = stablehlo.dot_general %[[SUM0]], %w
  // CHECK: stablehlo.concatenate %[[H0]], %[[H1]], %[[H2]], dim = 0
  %first = stablehlo.slice %x [2:3, 0:2] : (tensor<3x2xf32>) -> tensor<1x2xf32>
  %h = stablehlo.dot_general %first, %w, contracting_dims = [1] x [0] : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  %ys = stablehlo.dynamic_update_slice %none, %h, %two, %zero : (tensor<3x2xf32>, tensor<1x2xf32>, tensor<i32>, tensor<i32>) -> tensor<3x2xf32>
  %0:3 = stablehlo.while(%i = %zero, %state = %h, %rows = %ys) : tensor<i32>, tensor<1x2xf32>, tensor<3x2xf32>
  cond {
    %again = stablehlo.compare LT, %i, %two : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %again : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %origin = stablehlo.constant dense<0> : tensor<i32>
    %at = stablehlo.subtract %one, %i : tensor<i32>
    %row = stablehlo.dynamic_slice %x, %at, %origin, sizes = [1, 2] : (tensor<3x2xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
    %sum = stablehlo.add %row, %state : tensor<1x2xf32>
    %new = stablehlo.dot_general %sum, %w, contracting_dims = [1] x [0] : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
    %updated = stablehlo.dynamic_update_slice %rows, %new, %at, %origin : (tensor<3x2xf32>, tensor<1x2xf32>, tensor<i32>, tensor<i32>) -> tensor<3x2xf32>
    %next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next, %new, %updated : tensor<i32>, tensor<1x2xf32>, tensor<3x2xf32>
  }
  // The number of trips depends on an input.
  // CHECK: stablehlo.while
  %1:2 = stablehlo.while(%i = %zero, %state = %h) : tensor<i32>, tensor<1x2xf32>
  cond {
    %again = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %again : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %new = stablehlo.dot_general %state, %w, contracting_dims = [1] x [0] : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
    %next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next, %new : tensor<i32>, tensor<1x2xf32>
  }
  // Nothing in the body is a contraction.
  // CHECK: stablehlo.while
  %2:2 = stablehlo.while(%i = %zero, %state = %h) : tensor<i32>, tensor<1x2xf32>
  cond {
    %again = stablehlo.compare LT, %i, %two : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %again : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %new = stablehlo.multiply %state, %h : tensor<1x2xf32>
    %next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next, %new : tensor<i32>, tensor<1x2xf32>
  }
  return %0#2, %1#1, %2#1 : tensor<3x2xf32>, tensor<1x2xf32>, tensor<1x2xf32>
}
