// RUN: -p 'unfuse' --split-input-file

// What the specs decided stays as casts; a float spec leaves none, and two regions that agree leave one pair.
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "quant.region"(%x) ({
  ^bb0(%a: tensor<4xf32>):
    %1 = stablehlo.tanh %a : tensor<4xf32>
    "quant.return"(%1) : (tensor<4xf32>) -> ()
  }) {input_specs = [f32], logical_kernel = "tanh", output_specs = [!quant.uniform<i8:f32, 7.812500e-03>]} : (tensor<4xf32>) -> tensor<4xf32>
  %2 = "quant.region"(%0) ({
  ^bb0(%a: tensor<4xf32>):
    %3 = stablehlo.abs %a : tensor<4xf32>
    "quant.return"(%3) : (tensor<4xf32>) -> ()
  }) {input_specs = [!quant.uniform<i8:f32, 7.812500e-03>], logical_kernel = "abs", output_specs = [!quant.any<i16:f32>]} : (tensor<4xf32>) -> tensor<4xf32>
  return %2 : tensor<4xf32>
}
// CHECK-LABEL: func.func @main(%x: tensor<4xf32>)
// CHECK-NEXT:  %[[T:.*]] = stablehlo.tanh %x
// CHECK-NEXT:  %[[Q:.*]] = quant.qcast %[[T]] : tensor<4xf32> to tensor<4x!quant.uniform<i8:f32, 7.812500e-03>>
// CHECK-NEXT:  %[[D:.*]] = quant.dcast %[[Q]]
// CHECK-NEXT:  %[[A:.*]] = stablehlo.abs %[[D]]
// CHECK-NEXT:  quant.qcast %[[A]] : tensor<4xf32> to tensor<4x!quant.any<i16:f32>>
// CHECK-NEXT:  quant.dcast
// CHECK-NEXT:  return
