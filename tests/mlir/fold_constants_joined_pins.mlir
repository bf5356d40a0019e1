// RUN: -p 'fold-constants' --split-input-file

// Weights that a concatenation along their output channels joins keep their scales, one for each channel.
func.func @main(%x: tensor<1x2xf32>) -> tensor<1x3xf32> {
  %a = stablehlo.constant {zeropoint.pinned = !quant.uniform<i8<-127:127>:f32, 0.5>} dense<[[1.0], [2.0]]> : tensor<2x1xf32>
  %b = stablehlo.constant {zeropoint.pinned = !quant.uniform<i8<-127:127>:f32:1, {0.25,0.125}>} dense<[[0.5, 0.125], [0.75, 0.25]]> : tensor<2x2xf32>
  %w = stablehlo.concatenate %a, %b, dim = 1 : (tensor<2x1xf32>, tensor<2x2xf32>) -> tensor<2x3xf32>
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<1x2xf32>, tensor<2x3xf32>) -> tensor<1x3xf32>
  return %0 : tensor<1x3xf32>
}
// CHECK-LABEL: func.func @main
// CHECK-NEXT:  %[[W:.*]] = stablehlo.constant {zeropoint.pinned = !quant.uniform<i8<-127:127>:f32:1, {5.000000e-01,2.500000e-01,1.250000e-01}>} dense<{{\[\[}}1.000000e+00, 5.000000e-01, 1.250000e-01], [2.000000e+00, 7.500000e-01, 2.500000e-01]]>
// CHECK-NEXT:  stablehlo.dot_general %x, %[[W]]

// -----

// A transpose between them moves the channels.
func.func @main(%x: tensor<1x2xf32>) -> tensor<1x2xf32> {
  %a = stablehlo.constant {zeropoint.pinned = !quant.uniform<i8<-127:127>:f32, 0.5>} dense<[[1.0, 2.0]]> : tensor<1x2xf32>
  %b = stablehlo.constant {zeropoint.pinned = !quant.uniform<i8<-127:127>:f32, 0.25>} dense<[[0.5, 0.75]]> : tensor<1x2xf32>
  %w = stablehlo.concatenate %a, %b, dim = 0 : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<2x2xf32>
  %t = stablehlo.transpose %w, dims = [1, 0] : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %0 = stablehlo.dot_general %x, %t, contracting_dims = [1] x [0] : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  return %0 : tensor<1x2xf32>
}
// CHECK-LABEL: func.func @main
// CHECK-NEXT:  %[[W:.*]] = stablehlo.constant {zeropoint.pinned = !quant.uniform<i8<-127:127>:f32:1, {5.000000e-01,2.500000e-01}>}
// CHECK-NEXT:  stablehlo.dot_general %x, %[[W]]

// -----

// Scales that differ along the terms of a sum stay apart.
func.func @main(%x: tensor<1x2xf32>) -> tensor<1x2xf32> {
  %a = stablehlo.constant {zeropoint.pinned = !quant.uniform<i8<-127:127>:f32, 0.5>} dense<[[1.0, 2.0]]> : tensor<1x2xf32>
  %b = stablehlo.constant {zeropoint.pinned = !quant.uniform<i8<-127:127>:f32, 0.25>} dense<[[0.5, 0.75]]> : tensor<1x2xf32>
  %w = stablehlo.concatenate %a, %b, dim = 0 : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<2x2xf32>
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  return %0 : tensor<1x2xf32>
}
// CHECK-LABEL: func.func @main
// CHECK: stablehlo.concatenate

// -----

// One type for all joins along any dimension.
func.func @main(%x: tensor<1x2xf32>) -> tensor<1x2xf32> {
  %a = stablehlo.constant {zeropoint.pinned = !quant.uniform<i8<-127:127>:f32, 0.5>} dense<[[1.0, 2.0]]> : tensor<1x2xf32>
  %b = stablehlo.constant {zeropoint.pinned = !quant.uniform<i8<-127:127>:f32, 0.5>} dense<[[0.5, 1.5]]> : tensor<1x2xf32>
  %w = stablehlo.concatenate %a, %b, dim = 0 : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<2x2xf32>
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  return %0 : tensor<1x2xf32>
}
// CHECK-LABEL: func.func @main
// CHECK-NEXT:  %[[W:.*]] = stablehlo.constant {zeropoint.pinned = !quant.uniform<i8<-127:127>:f32, 5.000000e-01>}
// CHECK-NEXT:  stablehlo.dot_general %x, %[[W]]
