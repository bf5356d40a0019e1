// RUN: -p 'merge-sums'

// A sum of two constants that 32 bits do not hold stays two sums.
// CHECK: %[[FIRST:.*]] = stablehlo.add %x, {{.*}} : tensor<1x1xi32>
// CHECK: %{{.*}} = stablehlo.add %[[FIRST]], {{.*}} : tensor<1x1xi32>
func.func @main(%x: tensor<1x1xi32>) -> tensor<1x1xi32> {
  %a = stablehlo.constant dense<2147483647> : tensor<1xi32>
  %b = stablehlo.constant dense<1> : tensor<1xi32>
  %0 = stablehlo.broadcast_in_dim %a, dims = [1] : (tensor<1xi32>) -> tensor<1x1xi32>
  %1 = stablehlo.add %x, %0 : tensor<1x1xi32>
  %2 = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<1xi32>) -> tensor<1x1xi32>
  %3 = stablehlo.add %1, %2 : tensor<1x1xi32> loc("fc")
  return %3 : tensor<1x1xi32>
}
