// RUN: -p 'fold-decided'

// Whether a number of a mask is not 0 is what the mask was made from, or its opposite.
func.func @main(%seen: tensor<1x4xi1>) -> (tensor<1x4xi1>, tensor<1x4xi1>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %lowest = stablehlo.constant dense<-3.40282347E+38> : tensor<f32>
  %z = stablehlo.broadcast_in_dim %zero, dims = [] : (tensor<f32>) -> tensor<1x4xf32>
  %l = stablehlo.broadcast_in_dim %lowest, dims = [] : (tensor<f32>) -> tensor<1x4xf32>
  %m = stablehlo.select %seen, %z, %l : tensor<1x4xi1>, tensor<1x4xf32>
  %n = stablehlo.select %seen, %l, %z : tensor<1x4xi1>, tensor<1x4xf32>
  %0 = stablehlo.convert %m : (tensor<1x4xf32>) -> tensor<1x4xi1>
  %1 = stablehlo.convert %n : (tensor<1x4xf32>) -> tensor<1x4xi1>
  return %0, %1 : tensor<1x4xi1>, tensor<1x4xi1>
}
// CHECK-LABEL: func.func @main
// CHECK-NEXT:  %[[NOT:.*]] = stablehlo.not %seen
// CHECK-NEXT:  return %[[NOT]], %seen

// -----

// A comparison with a number, from either side.
func.func @compared(%seen: tensor<1x4xi1>) -> (tensor<1x4xi1>, tensor<1x4xi1>) {
  %z = stablehlo.constant dense<0.0> : tensor<1x4xf32>
  %l = stablehlo.constant dense<-1.0> : tensor<1x4xf32>
  %m = stablehlo.select %seen, %z, %l : tensor<1x4xi1>, tensor<1x4xf32>
  %0 = stablehlo.compare LT, %m, %z : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<1x4xi1>
  %1 = stablehlo.compare GT, %m, %l : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<1x4xi1>
  return %0, %1 : tensor<1x4xi1>, tensor<1x4xi1>
}
// CHECK-LABEL: func.func @compared
// CHECK:       %[[NOT:.*]] = stablehlo.not %seen
// CHECK-NEXT:  return %[[NOT]], %seen

// -----

// Left: the same answer for both numbers, a choice between computed numbers, one truth value for all elements, the total order.
func.func @left(%seen: tensor<1x4xi1>, %one: tensor<i1>, %x: tensor<1x4xf32>) -> (tensor<1x4xi1>, tensor<1x4xi1>, tensor<1x4xi1>, tensor<1x4xi1>) {
  %z = stablehlo.constant dense<0.0> : tensor<1x4xf32>
  %l = stablehlo.constant dense<-1.0> : tensor<1x4xf32>
  %m = stablehlo.select %seen, %z, %l : tensor<1x4xi1>, tensor<1x4xf32>
  %n = stablehlo.select %seen, %x, %l : tensor<1x4xi1>, tensor<1x4xf32>
  %k = stablehlo.select %one, %z, %l : tensor<i1>, tensor<1x4xf32>
  %0 = stablehlo.compare LE, %m, %z : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<1x4xi1>
  %1 = stablehlo.convert %n : (tensor<1x4xf32>) -> tensor<1x4xi1>
  %2 = stablehlo.convert %k : (tensor<1x4xf32>) -> tensor<1x4xi1>
  %3 = stablehlo.compare LT, %m, %z, TOTALORDER : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<1x4xi1>
  return %0, %1, %2, %3 : tensor<1x4xi1>, tensor<1x4xi1>, tensor<1x4xi1>, tensor<1x4xi1>
}
// CHECK-LABEL: func.func @left
// CHECK:       stablehlo.compare LE
// CHECK-NEXT:  stablehlo.convert
// CHECK-NEXT:  stablehlo.convert
// CHECK-NEXT:  stablehlo.compare LT
