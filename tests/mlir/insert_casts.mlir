// RUN: -p 'fuse,propagate,insert-casts'

// A pair of casts at each port: the region computes in float what the quantized kernel would.
func.func @main(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %s = "quant.stats"(%x) {layerStats = dense<[0.0, 63.75]> : tensor<2xf32>} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %0 = stablehlo.logistic %s : tensor<2x2xf32>
  return %0 : tensor<2x2xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:       %[[Q:.*]] = quant.qcast %x : tensor<2x2xf32> to tensor<2x2x!quant.uniform<i8:f32, 2.500000e-01:-128>>
// CHECK-NEXT:  %[[D:.*]] = quant.dcast %[[Q]]
// CHECK-NEXT:  %[[Y:.*]] = quant.region "logistic"(%{{.*}} = %[[D]] as
// CHECK:       %[[R:.*]] = quant.qcast %[[Y]] : tensor<2x2xf32> to tensor<2x2x!quant.uniform<i8:f32, 3.906250e-03:-128>>
// CHECK-NEXT:  %[[S:.*]] = quant.dcast %[[R]]
// CHECK-NEXT:  func.return %[[S]]
