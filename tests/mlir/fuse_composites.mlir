// RUN: -p 'fuse'

// A composite that reads the result of another one.
func.func private @first(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.tanh %a : tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @second(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.logistic %a : tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.composite "my.tanh" %x {decomposition = @first} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = stablehlo.composite "my.sigmoid" %0 {decomposition = @second} : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
// CHECK:      func.func @main
// CHECK-NEXT:   %[[FIRST:.*]] = quant.region "tanh"({{.*}} = %x)
// CHECK:        quant.region "logistic"({{.*}} = %[[FIRST]])
