// RUN: -p 'fold-batch-norm' --locations
// An op that replaces two has the locations of both.

func.func @main(%arg0: tensor<1x2xf32>) -> tensor<1x2xf32> {
  %w = stablehlo.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32> loc("weight")
  %s = stablehlo.constant dense<[2.0, 10.0]> : tensor<2xf32> loc("scale")
  %a = stablehlo.constant dense<[1.0, 1.0]> : tensor<2xf32> loc("shift")
  %0 = stablehlo.dot_general %arg0, %w, contracting_dims = [1] x [0] : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32> loc("dense")
  %1 = stablehlo.broadcast_in_dim %a, dims = [1] : (tensor<2xf32>) -> tensor<1x2xf32> loc("bias")
  %2 = stablehlo.add %0, %1 : tensor<1x2xf32> loc("bias")
  %3 = stablehlo.broadcast_in_dim %s, dims = [1] : (tensor<2xf32>) -> tensor<1x2xf32> loc("norm")
  %4 = stablehlo.multiply %2, %3 : tensor<1x2xf32> loc("norm")
  %5 = stablehlo.broadcast_in_dim %a, dims = [1] : (tensor<2xf32>) -> tensor<1x2xf32> loc("beta")
  %6 = stablehlo.add %4, %5 : tensor<1x2xf32> loc("beta")
  return %6 : tensor<1x2xf32>
}
// CHECK: stablehlo.dot_general {{.*}} loc(fused["dense", "norm"])
// CHECK: stablehlo.add {{.*}} loc(fused["bias", "norm", "beta"])
// CHECK-NEXT: return
