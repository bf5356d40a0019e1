// RUN: -p 'fuse{target=onnxruntime},keep-unquantized{target=onnxruntime}' --split-input-file

// The model quantizes the operand and the product, not the tanh. onnxruntime computes both kernels in floats.
func.func @main(%x: tensor<1x4xf32>) -> tensor<1x4xf32> {
  %q = quant.qcast %x : tensor<1x4xf32> to tensor<1x4x!quant.uniform<i8:f32, 0.1>>
  %a = quant.dcast %q : tensor<1x4x!quant.uniform<i8:f32, 0.1>> to tensor<1x4xf32>
  %t = stablehlo.tanh %a : tensor<1x4xf32>
  %m = stablehlo.multiply %a, %t : tensor<1x4xf32>
  %r = quant.qcast %m : tensor<1x4xf32> to tensor<1x4x!quant.uniform<i8:f32, 0.2>>
  %b = quant.dcast %r : tensor<1x4x!quant.uniform<i8:f32, 0.2>> to tensor<1x4xf32>
  return %b : tensor<1x4xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:       %[[A:.*]] = quant.dcast
// CHECK:       %[[T:.*]] = quant.region "tanh"({{.*}} = %[[A]] as !quant.none<f32>) -> tensor<1x4xf32> as !quant.none<f32> attributes {zeropoint.float_reason = "the model does not quantize all that it reads and returns"}
// CHECK:       %[[M:.*]] = quant.region "multiply"({{.*}} = %[[A]] as !quant.none<f32>, {{.*}} = %[[T]] as !quant.none<f32>) -> tensor<1x4xf32> as !quant.none<f32> attributes {zeropoint.float_reason = "the model does not quantize all that it reads and returns"}
// CHECK:       quant.qcast %[[M]]

// -----

// The model quantizes every value, so every kernel is one of integers.
func.func @main(%x: tensor<1x4xf32>) -> tensor<1x4xf32> {
  %q = quant.qcast %x : tensor<1x4xf32> to tensor<1x4x!quant.uniform<i8:f32, 0.1>>
  %a = quant.dcast %q : tensor<1x4x!quant.uniform<i8:f32, 0.1>> to tensor<1x4xf32>
  %m = stablehlo.multiply %a, %a : tensor<1x4xf32>
  %r = quant.qcast %m : tensor<1x4xf32> to tensor<1x4x!quant.uniform<i8:f32, 0.2>>
  %b = quant.dcast %r : tensor<1x4x!quant.uniform<i8:f32, 0.2>> to tensor<1x4xf32>
  return %b : tensor<1x4xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:       quant.region "multiply"
// CHECK-NOT:   float_reason
