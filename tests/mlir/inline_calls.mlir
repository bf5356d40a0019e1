// RUN: -p 'inline-calls' --split-input-file --locations

// Each call site gets ops of its own, under its name; calls inside are inlined as well.
func.func private @twice(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = func.call @half(%a) : (tensor<4xf32>) -> tensor<4xf32> loc("half")
  %1 = stablehlo.add %0, %0 : tensor<4xf32> loc("sum")
  return %1 : tensor<4xf32>
}
func.func private @half(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.negate %a : tensor<4xf32> loc("minus")
  return %0 : tensor<4xf32>
}
func.func @other(%a: tensor<4xf32>) -> tensor<4xf32> {
  return %a : tensor<4xf32>
}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = func.call @twice(%x) : (tensor<4xf32>) -> tensor<4xf32> loc("first")
  %1 = func.call @twice(%0) : (tensor<4xf32>) -> tensor<4xf32> loc("second")
  return %1 : tensor<4xf32>
}
// CHECK-NOT:   private
// CHECK:       func.func @other
// CHECK-LABEL: func.func @main
// CHECK-SAME:  (%[[X:.*]]: tensor<4xf32>
// CHECK-NEXT:  %[[A:.*]] = stablehlo.negate %[[X]] : tensor<4xf32> loc("first/half/minus")
// CHECK-NEXT:  %[[B:.*]] = stablehlo.add %[[A]], %[[A]] : tensor<4xf32> loc("first/sum")
// CHECK-NEXT:  %[[C:.*]] = stablehlo.negate %[[B]] : tensor<4xf32> loc("second/half/minus")
// CHECK-NEXT:  %[[D:.*]] = stablehlo.add %[[C]], %[[C]] : tensor<4xf32> loc("second/sum")
// CHECK-NEXT:  return %[[D]]

// -----

// Several results, in any order; an argument that is handed out as it is.
func.func private @swap(%a: tensor<4xf32>, %b: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  return %b, %a : tensor<4xf32>, tensor<4xf32>
}
func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0:2 = func.call @swap(%x, %y) : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  return %0#0, %0#1 : tensor<4xf32>, tensor<4xf32>
}
// CHECK-LABEL: func.func @main
// CHECK-SAME:  (%[[X:.*]]: tensor<4xf32>{{.*}}, %[[Y:.*]]: tensor<4xf32>
// CHECK-NEXT:  return %[[Y]], %[[X]]
