// RUN: -p 'merge-sums' --verify-diagnostics

// expected-error {{stablehlo.add 'fc': found a bias with zero-point correction up to 2147483648, expected at most 2147483647 (i32)}}
func.func @main(%x: tensor<1x1xi32>) -> tensor<1x1xi32> {
  %a = stablehlo.constant dense<2147483647> : tensor<1xi32>
  %b = stablehlo.constant dense<1> : tensor<1xi32>
  %0 = stablehlo.broadcast_in_dim %a, dims = [1] : (tensor<1xi32>) -> tensor<1x1xi32>
  %1 = stablehlo.add %x, %0 : tensor<1x1xi32>
  %2 = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<1xi32>) -> tensor<1x1xi32>
  %3 = stablehlo.add %1, %2 : tensor<1x1xi32> loc("fc")
  return %3 : tensor<1x1xi32>
}
