// RUN: -p 'pin-constants'

// The constant is pinned where the casts were, per channel of its own axis. Folding the transpose is another pass.
func.func @main(%x: tensor<1x2xf32>) -> tensor<1x2xf32> {
  %w = stablehlo.constant dense<[[1.0, -128.0], [1.0, 2.0]]> : tensor<2x2xf32>
  %q = quant.qcast %w : tensor<2x2xf32> to tensor<2x2x!quant.uniform<i8:f32:0, {1.0,0.5}>>
  %d = quant.dcast %q : tensor<2x2x!quant.uniform<i8:f32:0, {1.0,0.5}>> to tensor<2x2xf32>
  %t = stablehlo.transpose %d, dims = [1, 0] : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %0 = stablehlo.dot_general %x, %t, contracting_dims = [1] x [0] : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  return %0 : tensor<1x2xf32>
}
// CHECK-LABEL: func.func @main
// CHECK-NEXT:  %[[W:.*]] = stablehlo.constant {zeropoint.pinned = !quant.uniform<i8:f32:0, {1.000000e+00,5.000000e-01}>} dense<{{\[\[}}1.000000e+00, -1.280000e+02], [1.000000e+00, 2.000000e+00]]>
// CHECK-NEXT:  %[[T:.*]] = stablehlo.transpose %[[W]], dims = [1, 0]
// CHECK-NEXT:  stablehlo.dot_general %x, %[[T]]
