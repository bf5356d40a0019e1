// RUN: -p 'convert-fake-quant' --split-input-file

func.func @layer(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = "quant.const_fake_quant"(%x) {min = 0.0 : f32, max = 7.9375 : f32, num_bits = 7 : i64} : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
// CHECK-LABEL: func.func @layer
// CHECK-NEXT:  %[[Q:.*]] = quant.qcast %x : tensor<8xf32> to tensor<8x!quant.uniform<u7:f32, 6.250000e-02>>
// CHECK-NEXT:  %[[R:.*]] = quant.dcast %[[Q]] : tensor<8x!quant.uniform<u7:f32, 6.250000e-02>> to tensor<8xf32>
// CHECK-NEXT:  return %[[R]]

// -----

func.func @narrow_channels(%x: tensor<?x2xf32>) -> tensor<?x2xf32> {
  %0 = "quant.const_fake_quant_per_axis"(%x) {min = [-1.75 : f32, -7.0 : f32], max = [1.75 : f32, 7.0 : f32], axis = 1 : i64, num_bits = 4 : i64, narrow_range = true, is_signed = true} : (tensor<?x2xf32>) -> tensor<?x2xf32>
  return %0 : tensor<?x2xf32>
}
// CHECK-LABEL: func.func @narrow_channels
// CHECK:       quant.qcast %x : tensor<?x2xf32> to tensor<?x2x!quant.uniform<i4<-7:7>:f32:1, {2.500000e-01,1.000000e+00}>>
