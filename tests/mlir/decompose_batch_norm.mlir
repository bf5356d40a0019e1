// RUN: -p 'decompose-batch-norm' --split-input-file

// 6 / sqrt(3.75 + 0.25) = 3, 1 - 2 * 3 = -5; 1 / sqrt(0.75 + 0.25) = 1, 0.5 - 0.25 * 1 = 0.25.
func.func @main(%x: tensor<4x2xf32>) -> tensor<4x2xf32> {
  %scale = stablehlo.constant dense<[6.0, 1.0]> : tensor<2xf32>
  %offset = stablehlo.constant dense<[1.0, 0.5]> : tensor<2xf32>
  %mean = stablehlo.constant dense<[2.0, 0.25]> : tensor<2xf32>
  %variance = stablehlo.constant dense<[3.75, 0.75]> : tensor<2xf32>
  %0 = "stablehlo.batch_norm_inference"(%x, %scale, %offset, %mean, %variance) <{epsilon = 0.25 : f32, feature_index = 1 : i64}> : (tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<4x2xf32>
  return %0 : tensor<4x2xf32>
}
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    %[[A:.*]] = stablehlo.constant dense<[3.000000e+00, 1.000000e+00]>
// CHECK-NEXT:    %[[AS:.*]] = stablehlo.broadcast_in_dim %[[A]], dims = [1]
// CHECK-NEXT:    %[[P:.*]] = stablehlo.multiply %x, %[[AS]]
// CHECK-NEXT:    %[[B:.*]] = stablehlo.constant dense<[-5.000000e+00, 2.500000e-01]>
// CHECK-NEXT:    %[[BS:.*]] = stablehlo.broadcast_in_dim %[[B]], dims = [1]
// CHECK-NEXT:    stablehlo.add %[[P]], %[[BS]]

// -----

// Parameters that are computed, quantized values, and a variance that gives no number.
func.func @main(%x: tensor<4x1xf32>, %s: tensor<1xf32>, %q: tensor<4x1x!quant.uniform<i8:f32, 0.5>>) -> (tensor<4x1xf32>, tensor<4x1xf32>, tensor<4x1x!quant.uniform<i8:f32, 0.5>>) {
  %one = stablehlo.constant dense<1.0> : tensor<1xf32>
  %minus = stablehlo.constant dense<-1.0> : tensor<1xf32>
  %c = stablehlo.constant() <{value = dense<2> : tensor<1xi8>}> : () -> tensor<1x!quant.uniform<i8:f32, 0.5>>
  %0 = "stablehlo.batch_norm_inference"(%x, %s, %one, %one, %one) <{epsilon = 0.25 : f32, feature_index = 1 : i64}> : (tensor<4x1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<4x1xf32>
  %1 = "stablehlo.batch_norm_inference"(%x, %one, %one, %one, %minus) <{epsilon = 0.25 : f32, feature_index = 1 : i64}> : (tensor<4x1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<4x1xf32>
  %2 = "stablehlo.batch_norm_inference"(%q, %c, %c, %c, %c) <{epsilon = 0.25 : f32, feature_index = 1 : i64}> : (tensor<4x1x!quant.uniform<i8:f32, 0.5>>, tensor<1x!quant.uniform<i8:f32, 0.5>>, tensor<1x!quant.uniform<i8:f32, 0.5>>, tensor<1x!quant.uniform<i8:f32, 0.5>>, tensor<1x!quant.uniform<i8:f32, 0.5>>) -> tensor<4x1x!quant.uniform<i8:f32, 0.5>>
  return %0, %1, %2 : tensor<4x1xf32>, tensor<4x1xf32>, tensor<4x1x!quant.uniform<i8:f32, 0.5>>
}
// CHECK-LABEL:  func.func @main
// CHECK-COUNT-3: "stablehlo.batch_norm_inference"
