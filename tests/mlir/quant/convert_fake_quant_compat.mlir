// RUN: -p 'convert-fake-quant{compat=true}' --split-input-file

// 8 bits of storage for 4 of fake quantization, as the converter of 2019 had it.
func.func @layer(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = "quant.const_fake_quant"(%x) {min = 0.0 : f32, max = 15.9375 : f32, num_bits = 4 : i64} : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
// CHECK-LABEL: func.func @layer
// CHECK:       quant.qcast %x : tensor<8xf32> to tensor<8x!quant.uniform<u8:f32, 6.250000e-02>>
