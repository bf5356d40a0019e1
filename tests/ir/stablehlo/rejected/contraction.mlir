// conv rank<2
// expected-error {{expects convolution arguments to have >= 2 dimensions. Got: 'tensor<3xf32>' and 'tensor<3xf32>'.}}
func.func @main(%a: tensor<3xf32>, %b: tensor<3xf32>) {
  %0 = "stablehlo.convolution"(%a, %b) <{dimension_numbers = #stablehlo.conv<[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]>, feature_group_count = 1 : i64, batch_group_count = 1 : i64}> : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  return
}

// -----

// conv rank
// expected-error {{expects convolution arguments to have same number of dimensions. Got: 'tensor<1x3x4x4xf32>' and 'tensor<2x3x3xf32>'.}}
func.func @main(%a: tensor<1x3x4x4xf32>, %b: tensor<2x3x3xf32>) {
  %0 = "stablehlo.convolution"(%a, %b) <{dimension_numbers = #stablehlo.conv<[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]>, feature_group_count = 1 : i64, batch_group_count = 1 : i64}> : (tensor<1x3x4x4xf32>, tensor<2x3x3xf32>) -> tensor<1x2x2x2xf32>
  return
}

// -----

// conv elt
// expected-error {{expects lhs and rhs to have compatible element type. Got: 'f32' and 'i32'}}
func.func @main(%a: tensor<1x3x4x4xf32>, %b: tensor<2x3x3x3xi32>) {
  %0 = "stablehlo.convolution"(%a, %b) <{dimension_numbers = #stablehlo.conv<[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]>, feature_group_count = 1 : i64, batch_group_count = 1 : i64}> : (tensor<1x3x4x4xf32>, tensor<2x3x3x3xi32>) -> tensor<1x2x2x2xf32>
  return
}

// -----

// conv dims
// expected-error {{expects convolution arguments to have 3 dimensions. Got: 4}}
func.func @main(%a: tensor<1x3x4x4xf32>, %b: tensor<2x3x3x3xf32>) {
  %0 = "stablehlo.convolution"(%a, %b) <{dimension_numbers = #stablehlo.conv<[b, f, 0]x[o, i, 0]->[b, f, 0]>, feature_group_count = 1 : i64, batch_group_count = 1 : i64}> : (tensor<1x3x4x4xf32>, tensor<2x3x3x3xf32>) -> tensor<1x2x2x2xf32>
  return
}

// -----

// conv sp sizes
// expected-error {{expects the same size for input, kernel and output spatial-dimensions, but got 2, 1, and 2 resp.}}
func.func @main(%a: tensor<1x3x4x4xf32>, %b: tensor<2x3x3x3xf32>) {
  %0 = "stablehlo.convolution"(%a, %b) <{dimension_numbers = #stablehlo.conv<[b, f, 0, 1]x[o, i, 0]->[b, f, 0, 1]>, feature_group_count = 1 : i64, batch_group_count = 1 : i64}> : (tensor<1x3x4x4xf32>, tensor<2x3x3x3xf32>) -> tensor<1x2x2x2xf32>
  return
}

// -----

// conv both groups
// expected-error {{expects batch_group_count and feature_group_count not to be both greater than 1. Got 2 and 3 resp.}}
func.func @main(%a: tensor<1x3x4x4xf32>, %b: tensor<2x3x3x3xf32>) {
  %0 = "stablehlo.convolution"(%a, %b) <{dimension_numbers = #stablehlo.conv<[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]>, feature_group_count = 3 : i64, batch_group_count = 2 : i64}> : (tensor<1x3x4x4xf32>, tensor<2x3x3x3xf32>) -> tensor<1x2x2x2xf32>
  return
}

// -----

// conv bgc0
// expected-error {{attribute 'batch_group_count' failed to satisfy constraint: 64-bit signless integer attribute whose value is positive}}
func.func @main(%a: tensor<1x3x4x4xf32>, %b: tensor<2x3x3x3xf32>) {
  %0 = "stablehlo.convolution"(%a, %b) <{dimension_numbers = #stablehlo.conv<[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]>, feature_group_count = 1 : i64, batch_group_count = 0 : i64}> : (tensor<1x3x4x4xf32>, tensor<2x3x3x3xf32>) -> tensor<1x2x2x2xf32>
  return
}

// -----

// conv fgc0
// expected-error {{attribute 'feature_group_count' failed to satisfy constraint: 64-bit signless integer attribute whose value is positive}}
func.func @main(%a: tensor<1x3x4x4xf32>, %b: tensor<2x3x3x3xf32>) {
  %0 = "stablehlo.convolution"(%a, %b) <{dimension_numbers = #stablehlo.conv<[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]>, feature_group_count = 0 : i64, batch_group_count = 1 : i64}> : (tensor<1x3x4x4xf32>, tensor<2x3x3x3xf32>) -> tensor<1x2x2x2xf32>
  return
}

// -----

// conv bgc batch
// expected-error {{expects input batch dimension (1) to be divisible by batch_group_count. Got batch_group_count = 2.}}
func.func @main(%a: tensor<1x3x4x4xf32>, %b: tensor<2x3x3x3xf32>) {
  %0 = "stablehlo.convolution"(%a, %b) <{dimension_numbers = #stablehlo.conv<[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]>, feature_group_count = 1 : i64, batch_group_count = 2 : i64}> : (tensor<1x3x4x4xf32>, tensor<2x3x3x3xf32>) -> tensor<1x2x2x2xf32>
  return
}

// -----

// conv fgc in
// expected-error {{expects input feature dimension (3) to be a multiple of feature_group_count. Got feature_group_count = 2.}}
func.func @main(%a: tensor<1x3x4x4xf32>, %b: tensor<2x3x3x3xf32>) {
  %0 = "stablehlo.convolution"(%a, %b) <{dimension_numbers = #stablehlo.conv<[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]>, feature_group_count = 2 : i64, batch_group_count = 1 : i64}> : (tensor<1x3x4x4xf32>, tensor<2x3x3x3xf32>) -> tensor<1x2x2x2xf32>
  return
}

// -----

// conv kin
// expected-error {{expects input feature dimension (3) / feature_group_count = kernel input feature dimension (2). Got feature_group_count = 1.}}
func.func @main(%a: tensor<1x3x4x4xf32>, %b: tensor<2x2x3x3xf32>) {
  %0 = "stablehlo.convolution"(%a, %b) <{dimension_numbers = #stablehlo.conv<[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]>, feature_group_count = 1 : i64, batch_group_count = 1 : i64}> : (tensor<1x3x4x4xf32>, tensor<2x2x3x3xf32>) -> tensor<1x2x2x2xf32>
  return
}

// -----

// conv bgc out
// expected-error {{expects output feature dimension size (2) to be a multiple of batch_group_count. Got batch_group_count = 3.}}
func.func @main(%a: tensor<3x3x4x4xf32>, %b: tensor<2x3x3x3xf32>) {
  %0 = "stablehlo.convolution"(%a, %b) <{dimension_numbers = #stablehlo.conv<[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]>, feature_group_count = 1 : i64, batch_group_count = 3 : i64}> : (tensor<3x3x4x4xf32>, tensor<2x3x3x3xf32>) -> tensor<1x2x2x2xf32>
  return
}

// -----

// conv fgc out
// expected-error {{expects kernel output feature dimension (2) to be divisible by feature_group_count. For feature_group_count = 3.}}
func.func @main(%a: tensor<1x3x4x4xf32>, %b: tensor<2x1x3x3xf32>) {
  %0 = "stablehlo.convolution"(%a, %b) <{dimension_numbers = #stablehlo.conv<[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]>, feature_group_count = 3 : i64, batch_group_count = 1 : i64}> : (tensor<1x3x4x4xf32>, tensor<2x1x3x3xf32>) -> tensor<1x2x2x2xf32>
  return
}

// -----

// conv prec
// expected-error {{expects precision config to be empty or have <= 2 elements, got 3}}
func.func @main(%a: tensor<1x3x4x4xf32>, %b: tensor<2x3x3x3xf32>) {
  %0 = "stablehlo.convolution"(%a, %b) <{precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>], dimension_numbers = #stablehlo.conv<[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]>, feature_group_count = 1 : i64, batch_group_count = 1 : i64}> : (tensor<1x3x4x4xf32>, tensor<2x3x3x3xf32>) -> tensor<1x2x2x2xf32>
  return
}

// -----

// conv padshape
// expected-error {{expects the shape of padding-attribute to be {N, 2}, but got {2}.}}
func.func @main(%a: tensor<1x3x4x4xf32>, %b: tensor<2x3x3x3xf32>) {
  %0 = "stablehlo.convolution"(%a, %b) <{padding = dense<0> : tensor<2xi64>, dimension_numbers = #stablehlo.conv<[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]>, feature_group_count = 1 : i64, batch_group_count = 1 : i64}> : (tensor<1x3x4x4xf32>, tensor<2x3x3x3xf32>) -> tensor<1x2x2x2xf32>
  return
}

// -----

// conv padshape2
// expected-error {{expects the shape of padding-attribute to be {N, 2}, but got {2, 3}.}}
func.func @main(%a: tensor<1x3x4x4xf32>, %b: tensor<2x3x3x3xf32>) {
  %0 = "stablehlo.convolution"(%a, %b) <{padding = dense<0> : tensor<2x3xi64>, dimension_numbers = #stablehlo.conv<[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]>, feature_group_count = 1 : i64, batch_group_count = 1 : i64}> : (tensor<1x3x4x4xf32>, tensor<2x3x3x3xf32>) -> tensor<1x2x2x2xf32>
  return
}

// -----

// conv padsize
// expected-error {{expects padding-entries to have same dimension-size as size of window dimensions (2), but got: 3.}}
func.func @main(%a: tensor<1x3x4x4xf32>, %b: tensor<2x3x3x3xf32>) {
  %0 = "stablehlo.convolution"(%a, %b) <{padding = dense<0> : tensor<3x2xi64>, dimension_numbers = #stablehlo.conv<[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]>, feature_group_count = 1 : i64, batch_group_count = 1 : i64}> : (tensor<1x3x4x4xf32>, tensor<2x3x3x3xf32>) -> tensor<1x2x2x2xf32>
  return
}

// -----

// conv strides size
// expected-error {{expects window-strides to have same dimension-size as size of window dimensions (2), but got: 1.}}
func.func @main(%a: tensor<1x3x4x4xf32>, %b: tensor<2x3x3x3xf32>) {
  %0 = "stablehlo.convolution"(%a, %b) <{window_strides = array<i64: 1>, dimension_numbers = #stablehlo.conv<[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]>, feature_group_count = 1 : i64, batch_group_count = 1 : i64}> : (tensor<1x3x4x4xf32>, tensor<2x3x3x3xf32>) -> tensor<1x2x2x2xf32>
  return
}

// -----

// conv lhsd size
// expected-error {{expects base-dilation factors to have same dimension-size as size of window dimensions (2), but got: 1.}}
func.func @main(%a: tensor<1x3x4x4xf32>, %b: tensor<2x3x3x3xf32>) {
  %0 = "stablehlo.convolution"(%a, %b) <{lhs_dilation = array<i64: 1>, dimension_numbers = #stablehlo.conv<[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]>, feature_group_count = 1 : i64, batch_group_count = 1 : i64}> : (tensor<1x3x4x4xf32>, tensor<2x3x3x3xf32>) -> tensor<1x2x2x2xf32>
  return
}

// -----

// conv rhsd size
// expected-error {{expects window-dilation factors to have same dimension-size as size of window dimensions (2), but got: 1.}}
func.func @main(%a: tensor<1x3x4x4xf32>, %b: tensor<2x3x3x3xf32>) {
  %0 = "stablehlo.convolution"(%a, %b) <{rhs_dilation = array<i64: 1>, dimension_numbers = #stablehlo.conv<[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]>, feature_group_count = 1 : i64, batch_group_count = 1 : i64}> : (tensor<1x3x4x4xf32>, tensor<2x3x3x3xf32>) -> tensor<1x2x2x2xf32>
  return
}

// -----

// conv rev size
// expected-error {{expects window-reversal to have same dimension-size as size of window dimensions (2), but got: 1.}}
func.func @main(%a: tensor<1x3x4x4xf32>, %b: tensor<2x3x3x3xf32>) {
  %0 = "stablehlo.convolution"(%a, %b) <{window_reversal = array<i1: false>, dimension_numbers = #stablehlo.conv<[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]>, feature_group_count = 1 : i64, batch_group_count = 1 : i64}> : (tensor<1x3x4x4xf32>, tensor<2x3x3x3xf32>) -> tensor<1x2x2x2xf32>
  return
}

// -----

// conv stride 0
// expected-error {{expects window to have positive stride for 1-th window dimension, but got 0.}}
func.func @main(%a: tensor<1x3x4x4xf32>, %b: tensor<2x3x3x3xf32>) {
  %0 = "stablehlo.convolution"(%a, %b) <{window_strides = array<i64: 1, 0>, dimension_numbers = #stablehlo.conv<[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]>, feature_group_count = 1 : i64, batch_group_count = 1 : i64}> : (tensor<1x3x4x4xf32>, tensor<2x3x3x3xf32>) -> tensor<1x2x2x2xf32>
  return
}

// -----

// conv lhsd 0
// expected-error {{expects window to have positive base dilation factor for 0-th window dimension, but got 0.}}
func.func @main(%a: tensor<1x3x4x4xf32>, %b: tensor<2x3x3x3xf32>) {
  %0 = "stablehlo.convolution"(%a, %b) <{lhs_dilation = array<i64: 0, 1>, dimension_numbers = #stablehlo.conv<[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]>, feature_group_count = 1 : i64, batch_group_count = 1 : i64}> : (tensor<1x3x4x4xf32>, tensor<2x3x3x3xf32>) -> tensor<1x2x2x2xf32>
  return
}

// -----

// conv rhsd 0
// expected-error {{expects window to have positive window dilation factor for 1-th window dimension, but got 0.}}
func.func @main(%a: tensor<1x3x4x4xf32>, %b: tensor<2x3x3x3xf32>) {
  %0 = "stablehlo.convolution"(%a, %b) <{rhs_dilation = array<i64: 1, 0>, dimension_numbers = #stablehlo.conv<[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]>, feature_group_count = 1 : i64, batch_group_count = 1 : i64}> : (tensor<1x3x4x4xf32>, tensor<2x3x3x3xf32>) -> tensor<1x2x2x2xf32>
  return
}

// -----

// conv win 0
// expected-error {{expects window to have positive value for 0-th window dimension, but got 0.}}
func.func @main(%a: tensor<1x3x4x4xf32>, %b: tensor<2x3x0x3xf32>) {
  %0 = "stablehlo.convolution"(%a, %b) <{dimension_numbers = #stablehlo.conv<[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]>, feature_group_count = 1 : i64, batch_group_count = 1 : i64}> : (tensor<1x3x4x4xf32>, tensor<2x3x0x3xf32>) -> tensor<1x2x2x2xf32>
  return
}

// -----

// conv shape
// expected-error {{inferred shape '[1, 2, 2, 2]' is incompatible with return type of operation 'tensor<1x2x3x2xf32>'}}
func.func @main(%a: tensor<1x3x4x4xf32>, %b: tensor<2x3x3x3xf32>) {
  %0 = "stablehlo.convolution"(%a, %b) <{dimension_numbers = #stablehlo.conv<[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]>, feature_group_count = 1 : i64, batch_group_count = 1 : i64}> : (tensor<1x3x4x4xf32>, tensor<2x3x3x3xf32>) -> tensor<1x2x3x2xf32>
  return
}

// -----

// conv out rank
// expected-error {{inferred shape '[1, 2, 2, 2]' is incompatible with return type of operation 'tensor<1x2x2xf32>'}}
func.func @main(%a: tensor<1x3x4x4xf32>, %b: tensor<2x3x3x3xf32>) {
  %0 = "stablehlo.convolution"(%a, %b) <{dimension_numbers = #stablehlo.conv<[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]>, feature_group_count = 1 : i64, batch_group_count = 1 : i64}> : (tensor<1x3x4x4xf32>, tensor<2x3x3x3xf32>) -> tensor<1x2x2xf32>
  return
}

// -----

// conv pad type i32
// expected-error {{attribute 'padding' failed to satisfy constraint: 64-bit signless integer elements attribute}}
func.func @main(%a: tensor<1x3x4x4xf32>, %b: tensor<2x3x3x3xf32>) {
  %0 = "stablehlo.convolution"(%a, %b) <{padding = dense<0> : tensor<2x2xi32>, dimension_numbers = #stablehlo.conv<[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]>, feature_group_count = 1 : i64, batch_group_count = 1 : i64}> : (tensor<1x3x4x4xf32>, tensor<2x3x3x3xf32>) -> tensor<1x2x2x2xf32>
  return
}

// -----

// qconv rhs axis
// expected-error {{quantization dimension of rhs should be same with kernel_output_feature_dimension}}
!layer = !quant.uniform<i8:f32, 0.5:3>
!kernel1 = !quant.uniform<i8<-127:127>:f32:1, {0.5,0.25}>
!sum = !quant.uniform<i32:f32:1, {0.25,0.125}>
func.func @main(%a: tensor<1x2x4x4x!layer>, %b: tensor<2x2x3x3x!kernel1>) {
  %0 = "stablehlo.convolution"(%a, %b) <{dimension_numbers = #stablehlo.conv<[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]>, feature_group_count = 1 : i64, batch_group_count = 1 : i64}> : (tensor<1x2x4x4x!layer>, tensor<2x2x3x3x!kernel1>) -> tensor<1x2x2x2x!sum>
  return
}

// -----

// qconv out axis
// expected-error {{result #0 must be ranked tensor of 4/6/8/16/32/64-bit float or bool or 2/4/8/16/32/64-bit integer or complex type with 32/64-bit float elements or per-tensor integer quantized or per-axis integer quantized values, but got 'tensor<1x2x2x2x!quant.uniform<i32:f32:0, {2.500000e-01,1.250000e-01}>>'}}
!layer = !quant.uniform<i8:f32, 0.5:3>
!kernel = !quant.uniform<i8<-127:127>:f32:0, {0.5,0.25}>
!sum0 = !quant.uniform<i32:f32:0, {0.25,0.125}>
func.func @main(%a: tensor<1x3x4x4x!layer>, %b: tensor<2x3x3x3x!kernel>) {
  %0 = "stablehlo.convolution"(%a, %b) <{dimension_numbers = #stablehlo.conv<[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]>, feature_group_count = 1 : i64, batch_group_count = 1 : i64}> : (tensor<1x3x4x4x!layer>, tensor<2x3x3x3x!kernel>) -> tensor<1x2x2x2x!sum0>
  return
}

// -----

// qconv rhs f
// expected-error {{rhs should be quantized for quantized operations and is_quantized(lhs)=is_quantized(result) should hold}}
!layer = !quant.uniform<i8:f32, 0.5:3>
!sum = !quant.uniform<i32:f32:1, {0.25,0.125}>
func.func @main(%a: tensor<1x3x4x4x!layer>, %b: tensor<2x3x3x3xf32>) {
  %0 = "stablehlo.convolution"(%a, %b) <{dimension_numbers = #stablehlo.conv<[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]>, feature_group_count = 1 : i64, batch_group_count = 1 : i64}> : (tensor<1x3x4x4x!layer>, tensor<2x3x3x3xf32>) -> tensor<1x2x2x2x!sum>
  return
}

// -----

// qconv lhs f result q
// expected-error {{rhs should be quantized for quantized operations and is_quantized(lhs)=is_quantized(result) should hold}}
!kernel = !quant.uniform<i8<-127:127>:f32:0, {0.5,0.25}>
!sum = !quant.uniform<i32:f32:1, {0.25,0.125}>
func.func @main(%a: tensor<1x3x4x4xf32>, %b: tensor<2x3x3x3x!kernel>) {
  %0 = "stablehlo.convolution"(%a, %b) <{dimension_numbers = #stablehlo.conv<[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]>, feature_group_count = 1 : i64, batch_group_count = 1 : i64}> : (tensor<1x3x4x4xf32>, tensor<2x3x3x3x!kernel>) -> tensor<1x2x2x2x!sum>
  return
}

// -----

// qconv result f
// expected-error {{rhs should be quantized for quantized operations and is_quantized(lhs)=is_quantized(result) should hold}}
!layer = !quant.uniform<i8:f32, 0.5:3>
!kernel = !quant.uniform<i8<-127:127>:f32:0, {0.5,0.25}>
func.func @main(%a: tensor<1x3x4x4x!layer>, %b: tensor<2x3x3x3x!kernel>) {
  %0 = "stablehlo.convolution"(%a, %b) <{dimension_numbers = #stablehlo.conv<[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]>, feature_group_count = 1 : i64, batch_group_count = 1 : i64}> : (tensor<1x3x4x4x!layer>, tensor<2x3x3x3x!kernel>) -> tensor<1x2x2x2xf32>
  return
}

// -----

// qconv storage
// expected-error {{mismatched lhs and rhs quantization storage types}}
!layer = !quant.uniform<i8:f32, 0.5:3>
!wide = !quant.uniform<i16:f32, 0.5>
func.func @main(%a: tensor<1x3x4x4x!layer>, %b: tensor<2x3x3x3x!wide>) {
  %0 = "stablehlo.convolution"(%a, %b) <{dimension_numbers = #stablehlo.conv<[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]>, feature_group_count = 1 : i64, batch_group_count = 1 : i64}> : (tensor<1x3x4x4x!layer>, tensor<2x3x3x3x!wide>) -> tensor<1x2x2x2x!layer>
  return
}

// -----

// qconv expressed
// expected-error {{mismatched lhs, rhs and result quantization expressed types}}
!layer = !quant.uniform<i8:f32, 0.5:3>
!half = !quant.uniform<i8:f16, 0.5>
func.func @main(%a: tensor<1x3x4x4x!layer>, %b: tensor<2x3x3x3x!half>) {
  %0 = "stablehlo.convolution"(%a, %b) <{dimension_numbers = #stablehlo.conv<[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]>, feature_group_count = 1 : i64, batch_group_count = 1 : i64}> : (tensor<1x3x4x4x!layer>, tensor<2x3x3x3x!half>) -> tensor<1x2x2x2x!layer>
  return
}

// -----

// qconv granularity
// expected-error {{mismatched rhs and result quantization granularity}}
!layer = !quant.uniform<i8:f32, 0.5:3>
!other = !quant.uniform<i8:f32, 0.25>
!sum = !quant.uniform<i32:f32:1, {0.25,0.125}>
func.func @main(%a: tensor<1x3x4x4x!layer>, %b: tensor<2x3x3x3x!other>) {
  %0 = "stablehlo.convolution"(%a, %b) <{dimension_numbers = #stablehlo.conv<[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]>, feature_group_count = 1 : i64, batch_group_count = 1 : i64}> : (tensor<1x3x4x4x!layer>, tensor<2x3x3x3x!other>) -> tensor<1x2x2x2x!sum>
  return
}

// -----

// qconv hybrid
// expected-error {{mismatched rhs quantization expressed type and lhs and result element type}}
!kernel = !quant.uniform<i8<-127:127>:f32:0, {0.5,0.25}>
func.func @main(%a: tensor<1x3x4x4xf16>, %b: tensor<2x3x3x3x!kernel>) {
  %0 = "stablehlo.convolution"(%a, %b) <{dimension_numbers = #stablehlo.conv<[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]>, feature_group_count = 1 : i64, batch_group_count = 1 : i64}> : (tensor<1x3x4x4xf16>, tensor<2x3x3x3x!kernel>) -> tensor<1x2x2x2xf16>
  return
}

// -----

// qconv int lhs
// expected-error {{mismatched rhs quantization expressed type and lhs and result element type}}
!kernel = !quant.uniform<i8<-127:127>:f32:0, {0.5,0.25}>
func.func @main(%a: tensor<1x3x4x4xi8>, %b: tensor<2x3x3x3x!kernel>) {
  %0 = "stablehlo.convolution"(%a, %b) <{dimension_numbers = #stablehlo.conv<[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]>, feature_group_count = 1 : i64, batch_group_count = 1 : i64}> : (tensor<1x3x4x4xi8>, tensor<2x3x3x3x!kernel>) -> tensor<1x2x2x2xi8>
  return
}

// -----

// qconv lhs peraxis
// expected-error {{operand #0 must be ranked tensor of 4/6/8/16/32/64-bit float or bool or 2/4/8/16/32/64-bit integer or complex type with 32/64-bit float elements or per-tensor integer quantized values, but got 'tensor<1x2x4x4x!quant.uniform<i8<-127:127>:f32:1, {5.000000e-01,2.500000e-01}>>'}}
!kernel = !quant.uniform<i8<-127:127>:f32:0, {0.5,0.25}>
!kernel1 = !quant.uniform<i8<-127:127>:f32:1, {0.5,0.25}>
!sum = !quant.uniform<i32:f32:1, {0.25,0.125}>
func.func @main(%a: tensor<1x2x4x4x!kernel1>, %b: tensor<2x2x3x3x!kernel>) {
  %0 = "stablehlo.convolution"(%a, %b) <{dimension_numbers = #stablehlo.conv<[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]>, feature_group_count = 1 : i64, batch_group_count = 1 : i64}> : (tensor<1x2x4x4x!kernel1>, tensor<2x2x3x3x!kernel>) -> tensor<1x2x2x2x!sum>
  return
}

// -----

// dot prec
// expected-error {{expects precision config to be empty or have <= 2 elements, got 3}}
func.func @main(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>) {
  %0 = "stablehlo.dot_general"(%a, %b) <{precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>], dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>}> : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  return
}

// -----

// dot batch n
// expected-error {{lhs and rhs should have the same number of batching dimensions}}
func.func @main(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>) {
  %0 = "stablehlo.dot_general"(%a, %b) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>}> : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  return
}

// -----

// dot contr n
// expected-error {{lhs and rhs should have the same number of contracting dimensions}}
func.func @main(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>) {
  %0 = "stablehlo.dot_general"(%a, %b) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [], rhs_contracting_dimensions = [0]>}> : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  return
}

// -----

// dot lhs dup
// expected-error {{has duplicated dimension from lhs_batching_dimensions and lhs_contracting_dimensions: 1}}
func.func @main(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>) {
  %0 = "stablehlo.dot_general"(%a, %b) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [1], rhs_batching_dimensions = [1], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>}> : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  return
}

// -----

// dot rhs dup
// expected-error {{has duplicated dimension from rhs_batching_dimensions and rhs_contracting_dimensions: 0}}
func.func @main(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>) {
  %0 = "stablehlo.dot_general"(%a, %b) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>}> : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  return
}

// -----

// dot range lb
// expected-error {{lhs_batching_dimensions value: 5 is out of range: [0, 2)}}
func.func @main(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>) {
  %0 = "stablehlo.dot_general"(%a, %b) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [5], rhs_batching_dimensions = [1], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>}> : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  return
}

// -----

// dot range lc
// expected-error {{lhs_contracting_dimensions value: 5 is out of range: [0, 2)}}
func.func @main(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>) {
  %0 = "stablehlo.dot_general"(%a, %b) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [5], rhs_contracting_dimensions = [0]>}> : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  return
}

// -----

// dot range rb
// expected-error {{rhs_batching_dimensions value: 5 is out of range: [0, 2)}}
func.func @main(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>) {
  %0 = "stablehlo.dot_general"(%a, %b) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [5], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>}> : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  return
}

// -----

// dot range rc
// expected-error {{rhs_contracting_dimensions value: -1 is out of range: [0, 2)}}
func.func @main(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>) {
  %0 = "stablehlo.dot_general"(%a, %b) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [-1]>}> : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  return
}

// -----

// dot batch size
// expected-error {{batching dimension sizes must match for lhs/rhs}}
func.func @main(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>) {
  %0 = "stablehlo.dot_general"(%a, %b) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [1], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>}> : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  return
}

// -----

// dot contr size
// expected-error {{contracting dimension sizes must match for lhs/rhs}}
func.func @main(%a: tensor<2x5xf32>, %b: tensor<3x4xf32>) {
  %0 = "stablehlo.dot_general"(%a, %b) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>}> : (tensor<2x5xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  return
}

// -----

// dot shape
// expected-error {{inferred shape '[2, 4]' is incompatible with return type of operation 'tensor<2x5xf32>'}}
func.func @main(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>) {
  %0 = "stablehlo.dot_general"(%a, %b) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>}> : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x5xf32>
  return
}

// -----

// qdot zp
// expected-error {{Zero point of rhs should be 0}}
!layer = !quant.uniform<i8:f32, 0.5:3>
func.func @main(%a: tensor<2x3x!layer>, %b: tensor<3x2x!layer>) {
  %0 = "stablehlo.dot_general"(%a, %b) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>}> : (tensor<2x3x!layer>, tensor<3x2x!layer>) -> tensor<2x2x!layer>
  return
}

// -----

// qdot zps
// expected-error {{Zero points of rhs should be 0}}
!layer = !quant.uniform<i8:f32, 0.5:3>
!sum = !quant.uniform<i32:f32:1, {0.25,0.125}>
func.func @main(%a: tensor<2x3x!layer>, %b: tensor<3x2x!quant.uniform<i8:f32:1, {0.5:1,0.5}>>) {
  %0 = "stablehlo.dot_general"(%a, %b) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>}> : (tensor<2x3x!layer>, tensor<3x2x!quant.uniform<i8:f32:1, {0.5:1,0.5}>>) -> tensor<2x2x!sum>
  return
}

// -----

// qdot axis
// expected-error {{Quantization dimension of rhs should not be in the contracting dimension of rhs}}
!layer = !quant.uniform<i8:f32, 0.5:3>
!kernel = !quant.uniform<i8<-127:127>:f32:0, {0.5,0.25}>
!sum = !quant.uniform<i32:f32:1, {0.25,0.125}>
func.func @main(%a: tensor<2x2x!layer>, %b: tensor<2x2x!kernel>) {
  %0 = "stablehlo.dot_general"(%a, %b) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>}> : (tensor<2x2x!layer>, tensor<2x2x!kernel>) -> tensor<2x2x!sum>
  return
}

// -----

// qdot rhs f
// expected-error {{rhs should be quantized for quantized operations and is_quantized(lhs)=is_quantized(result) should hold}}
!layer = !quant.uniform<i8:f32, 0.5:3>
!sum = !quant.uniform<i32:f32:1, {0.25,0.125}>
func.func @main(%a: tensor<2x3x!layer>, %b: tensor<3x2xf32>) {
  %0 = "stablehlo.dot_general"(%a, %b) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>}> : (tensor<2x3x!layer>, tensor<3x2xf32>) -> tensor<2x2x!sum>
  return
}

// -----

// qdot storage
// expected-error {{mismatched lhs and rhs quantization storage types}}
!layer = !quant.uniform<i8:f32, 0.5:3>
!wide = !quant.uniform<i16:f32, 0.5>
func.func @main(%a: tensor<2x3x!layer>, %b: tensor<3x2x!wide>) {
  %0 = "stablehlo.dot_general"(%a, %b) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>}> : (tensor<2x3x!layer>, tensor<3x2x!wide>) -> tensor<2x2x!layer>
  return
}

// -----

// qdot expressed
// expected-error {{mismatched lhs, rhs and result quantization expressed types}}
!layer = !quant.uniform<i8:f32, 0.5:3>
!half = !quant.uniform<i8:f16, 0.5>
func.func @main(%a: tensor<2x3x!layer>, %b: tensor<3x2x!half>) {
  %0 = "stablehlo.dot_general"(%a, %b) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>}> : (tensor<2x3x!layer>, tensor<3x2x!half>) -> tensor<2x2x!layer>
  return
}

// -----

// qdot granularity
// expected-error {{mismatched rhs and result quantization granularity}}
!layer = !quant.uniform<i8:f32, 0.5:3>
!other = !quant.uniform<i8:f32, 0.25>
!sum = !quant.uniform<i32:f32:1, {0.25,0.125}>
func.func @main(%a: tensor<2x3x!layer>, %b: tensor<3x2x!other>) {
  %0 = "stablehlo.dot_general"(%a, %b) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>}> : (tensor<2x3x!layer>, tensor<3x2x!other>) -> tensor<2x2x!sum>
  return
}

// -----

// qdot hybrid
// expected-error {{mismatched rhs quantization expressed type and lhs and result element type}}
!other = !quant.uniform<i8:f32, 0.25>
func.func @main(%a: tensor<2x3xf16>, %b: tensor<3x2x!other>) {
  %0 = "stablehlo.dot_general"(%a, %b) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>}> : (tensor<2x3xf16>, tensor<3x2x!other>) -> tensor<2x2xf16>
  return
}

// -----

// convcount32
// expected-error {{attribute 'feature_group_count' failed to satisfy constraint: 64-bit signless integer attribute whose value is positive}}
func.func @main(%a: tensor<1x3x4x4xf32>, %b: tensor<2x3x3x3xf32>) {
  %0 = "stablehlo.convolution"(%a, %b) <{dimension_numbers = #stablehlo.conv<[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]>, feature_group_count = 1 : i32, batch_group_count = 1 : i64}> : (tensor<1x3x4x4xf32>, tensor<2x3x3x3xf32>) -> tensor<1x2x2x2xf32>
  return
}

// -----

// qconv c30
// expected-error {{quantization dimension of result should be same with output_feature_dimension}}
!layer = !quant.uniform<i8:f32, 0.5:3>
!kernel = !quant.uniform<i8<-127:127>:f32:0, {0.5,0.25}>
!sum0 = !quant.uniform<i32:f32:0, {0.25,0.125}>
func.func @main(%a: tensor<2x3x4x4x!layer>, %b: tensor<2x3x3x3x!kernel>) {
  %0 = "stablehlo.convolution"(%a, %b) <{dimension_numbers = #stablehlo.conv<[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]>, feature_group_count = 1 : i64, batch_group_count = 1 : i64}> : (tensor<2x3x4x4x!layer>, tensor<2x3x3x3x!kernel>) -> tensor<2x2x2x2x!sum0>
  return
}

// -----

// dot out kind
// expected-error {{operand #0 must be ranked tensor of 4/6/8/16/32/64-bit float or bool or 2/4/8/16/32/64-bit integer or complex type with 32/64-bit float elements or per-tensor integer quantized values, but got 'tensor<2x!quant.uniform<i8<-127:127>:f32:0, {5.000000e-01,2.500000e-01}>>'}}
!kernel = !quant.uniform<i8<-127:127>:f32:0, {0.5,0.25}>
func.func @main(%a: tensor<2x!kernel>, %b: tensor<2x!kernel>) {
  %0 = "stablehlo.dot_general"(%a, %b) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [], rhs_contracting_dimensions = []>}> : (tensor<2x!kernel>, tensor<2x!kernel>) -> tensor<2x2x!kernel>
  return
}

// -----

// prec type
// expected-error {{attribute 'precision_config' failed to satisfy constraint: Precision Config attribute}}
func.func @main(%a: tensor<2xf32>, %b: tensor<2xf32>) {
  %0 = "stablehlo.dot_general"(%a, %b) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [], rhs_contracting_dimensions = []>, precision_config = [1 : i64]}> : (tensor<2xf32>, tensor<2xf32>) -> tensor<2x2xf32>
  return
}

// -----

// conv in range
// expected-error {{expects input, kernel, and output dimension-numbers to be in-range [0, 4).}}
func.func @main(%a: tensor<1x3x8x8xf32>, %b: tensor<4x3x3x3xf32>) {
  %0 = "stablehlo.convolution"(%a, %b) {dimension_numbers = #stablehlo.conv<raw input_batch_dimension = 7, input_feature_dimension = 1, input_spatial_dimensions = [2, 3], kernel_input_feature_dimension = 1, kernel_output_feature_dimension = 0, kernel_spatial_dimensions = [2, 3], output_batch_dimension = 0, output_feature_dimension = 1, output_spatial_dimensions = [2, 3]>, feature_group_count = 1 : i64, batch_group_count = 1 : i64} : (tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x6x6xf32>
  return
}

// -----

// conv input unique
// expected-error {{expects input dimension-numbers to be unique, got {1, 1, 2, 3}.}}
func.func @main(%a: tensor<1x3x8x8xf32>, %b: tensor<4x3x3x3xf32>) {
  %0 = "stablehlo.convolution"(%a, %b) {dimension_numbers = #stablehlo.conv<raw input_batch_dimension = 1, input_feature_dimension = 1, input_spatial_dimensions = [2, 3], kernel_input_feature_dimension = 1, kernel_output_feature_dimension = 0, kernel_spatial_dimensions = [2, 3], output_batch_dimension = 0, output_feature_dimension = 1, output_spatial_dimensions = [2, 3]>, feature_group_count = 1 : i64, batch_group_count = 1 : i64} : (tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x6x6xf32>
  return
}

// -----

// conv kernel unique
// expected-error {{expects kernel dimension-numbers to be unique, got {1, 1, 2, 3}.}}
func.func @main(%a: tensor<1x3x8x8xf32>, %b: tensor<4x3x3x3xf32>) {
  %0 = "stablehlo.convolution"(%a, %b) {dimension_numbers = #stablehlo.conv<raw input_batch_dimension = 0, input_feature_dimension = 1, input_spatial_dimensions = [2, 3], kernel_input_feature_dimension = 1, kernel_output_feature_dimension = 1, kernel_spatial_dimensions = [2, 3], output_batch_dimension = 0, output_feature_dimension = 1, output_spatial_dimensions = [2, 3]>, feature_group_count = 1 : i64, batch_group_count = 1 : i64} : (tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x6x6xf32>
  return
}

// -----

// conv output unique
// expected-error {{expects output dimension-numbers to be unique, got {1, 1, 2, 3}.}}
func.func @main(%a: tensor<1x3x8x8xf32>, %b: tensor<4x3x3x3xf32>) {
  %0 = "stablehlo.convolution"(%a, %b) {dimension_numbers = #stablehlo.conv<raw input_batch_dimension = 0, input_feature_dimension = 1, input_spatial_dimensions = [2, 3], kernel_input_feature_dimension = 1, kernel_output_feature_dimension = 0, kernel_spatial_dimensions = [2, 3], output_batch_dimension = 1, output_feature_dimension = 1, output_spatial_dimensions = [2, 3]>, feature_group_count = 1 : i64, batch_group_count = 1 : i64} : (tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x6x6xf32>
  return
}
