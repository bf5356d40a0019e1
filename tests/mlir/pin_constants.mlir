// RUN: -p 'pin-constants,fold-constants' --split-input-file

// Values are what quantization rounds them to. No value has the least integer: the range goes without it.
func.func @main(%x: tensor<3xf32>) -> (tensor<3xf32>) {
  %w = stablehlo.constant dense<[1.0, -0.6, 900.0]> : tensor<3xf32>
  %q = quant.qcast %w : tensor<3xf32> to tensor<3x!quant.uniform<i8:f32, 0.5>>
  %d = quant.dcast %q : tensor<3x!quant.uniform<i8:f32, 0.5>> to tensor<3xf32>
  %0 = stablehlo.add %x, %d : tensor<3xf32>
  return %0 : tensor<3xf32>
}
// CHECK-LABEL: func.func @main
// CHECK-NEXT:  stablehlo.constant {zeropoint.pinned = !quant.uniform<i8<-127:127>:f32, 5.000000e-01>} dense<[1.000000e+00, -5.000000e-01, 6.350000e+01]> : tensor<3xf32>
// CHECK-NEXT:  stablehlo.add
// CHECK-NEXT:  return

// -----

// Per channel, through a transpose: the axis goes along. The first channel uses -128.
func.func @main(%x: tensor<1x2xf32>) -> tensor<1x2xf32> {
  %w = stablehlo.constant dense<[[1.0, -128.0], [1.0, 2.0]]> : tensor<2x2xf32>
  %q = quant.qcast %w : tensor<2x2xf32> to tensor<2x2x!quant.uniform<i8:f32:0, {1.0,0.5}>>
  %d = quant.dcast %q : tensor<2x2x!quant.uniform<i8:f32:0, {1.0,0.5}>> to tensor<2x2xf32>
  %t = stablehlo.transpose %d, dims = [1, 0] : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %0 = stablehlo.dot_general %x, %t, contracting_dims = [1] x [0] : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  return %0 : tensor<1x2xf32>
}
// CHECK-LABEL: func.func @main
// CHECK-NEXT:  stablehlo.constant {zeropoint.pinned = !quant.uniform<i8:f32:1, {1.000000e+00,5.000000e-01}>} dense<{{\[\[}}1.000000e+00, 1.000000e+00], [-1.280000e+02, 2.000000e+00]]>

// -----

// A constant that already stores integers, as the weight of a float contraction.
func.func @main(%x: tensor<1x2xf32>) -> tensor<1x2xf32> {
  %w = "stablehlo.constant"() {value = dense<[[4, -100], [1, 2]]> : tensor<2x2xi8>} : () -> tensor<2x2x!quant.uniform<i8:f32:1, {0.25,0.5}>>
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<1x2xf32>, tensor<2x2x!quant.uniform<i8:f32:1, {0.25,0.5}>>) -> tensor<1x2xf32>
  return %0 : tensor<1x2xf32>
}
// CHECK-LABEL: func.func @main
// CHECK-NEXT:  stablehlo.constant {zeropoint.pinned = !quant.uniform<i8<-127:127>:f32:1, {2.500000e-01,5.000000e-01}>} dense<{{\[\[}}1.000000e+00, -5.000000e+01], [2.500000e-01, 1.000000e+00]]> : tensor<2x2xf32>
// CHECK-NEXT:  stablehlo.dot_general {{.*}} : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>

// -----

// Integers that a cast makes a quantized weight of, also transposed.
func.func @main(%x: tensor<1x2xf32>) -> tensor<1x2xf32> {
  %c = stablehlo.constant dense<[[4, 1], [-100, 2]]> : tensor<2x2xi8>
  %q = quant.scast %c : tensor<2x2xi8> to tensor<2x2x!quant.uniform<i8:f32:0, {0.25,0.5}>>
  %t = stablehlo.transpose %q, dims = [1, 0] : (tensor<2x2x!quant.uniform<i8:f32:0, {0.25,0.5}>>) -> tensor<2x2x!quant.uniform<i8:f32:1, {0.25,0.5}>>
  %d = quant.dcast %t : tensor<2x2x!quant.uniform<i8:f32:1, {0.25,0.5}>> to tensor<2x2xf32>
  %0 = stablehlo.dot_general %x, %d, contracting_dims = [1] x [0] : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  return %0 : tensor<1x2xf32>
}
// CHECK-LABEL: func.func @main
// CHECK-NEXT:  stablehlo.constant {zeropoint.pinned = !quant.uniform<i8<-127:127>:f32:1, {2.500000e-01,5.000000e-01}>} dense<{{\[\[}}1.000000e+00, -5.000000e+01], [2.500000e-01, 1.000000e+00]]> : tensor<2x2xf32>
// CHECK-NEXT:  stablehlo.dot_general
