// RUN: -p 'simplify,fuse,propagate' --locations

// The two calls of one function see ranges of their own, and get parameters of their own.
func.func private @block(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.add %a, %b : tensor<4xf32> loc("sum")
  return %0 : tensor<4xf32>
}
func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %s = "quant.stats"(%x) {layerStats = dense<[0.0, 2.55]> : tensor<2xf32>} : (tensor<4xf32>) -> tensor<4xf32>
  %t = "quant.stats"(%y) {layerStats = dense<[0.0, 2.55]> : tensor<2xf32>} : (tensor<4xf32>) -> tensor<4xf32>
  %0 = func.call @block(%s, %t) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("first")
  %1 = "quant.stats"(%0) {layerStats = dense<[0.0, 5.1]> : tensor<2xf32>} : (tensor<4xf32>) -> tensor<4xf32>
  %2 = func.call @block(%1, %t) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("second")
  %3 = "quant.stats"(%2) {layerStats = dense<[0.0, 10.2]> : tensor<2xf32>} : (tensor<4xf32>) -> tensor<4xf32>
  return %3 : tensor<4xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:       -> {{.*}} as !quant.uniform<i8:f32, 0.01999{{.*}}:-128> attributes
// CHECK:       } loc("first/sum")
// CHECK:       -> {{.*}} as !quant.uniform<i8:f32, 0.03999{{.*}}:-128> attributes
// CHECK:       } loc("second/sum")
