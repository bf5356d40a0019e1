// inference of floats
// expected-error {{operand #0 must be ranked tensor of 4/6/8/16/32/64-bit float or per-tensor integer quantized values, but got 'tensor<2x3xi32>'}}
func.func @main(%x: tensor<2x3xi32>, %y: tensor<3xf32>, %z: tensor<3xf32>, %g: tensor<2x3xi32>) {
  %0 = "stablehlo.batch_norm_inference"(%x, %y, %y, %y, %z) <{epsilon = 1.000000e-03 : f32, feature_index = 1 : i64}> : (tensor<2x3xi32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<2x3xi32>
  return
}

// -----

// inference features of floats
// expected-error {{operand #1 must be 1D tensor of 4/6/8/16/32/64-bit float or per-tensor integer quantized values, but got 'tensor<3xi32>'}}
func.func @main(%x: tensor<2x3xf32>, %y: tensor<3xi32>, %z: tensor<3xi32>, %g: tensor<2x3xf32>) {
  %0 = "stablehlo.batch_norm_inference"(%x, %y, %y, %y, %z) <{epsilon = 1.000000e-03 : f32, feature_index = 1 : i64}> : (tensor<2x3xf32>, tensor<3xi32>, tensor<3xi32>, tensor<3xi32>, tensor<3xi32>) -> tensor<2x3xf32>
  return
}

// -----

// inference features in one dimension
// expected-error {{operand #1 must be 1D tensor of 4/6/8/16/32/64-bit float or per-tensor integer quantized values, but got 'tensor<1x3xf32>'}}
func.func @main(%x: tensor<2x3xf32>, %y: tensor<1x3xf32>, %z: tensor<1x3xf32>, %g: tensor<2x3xf32>) {
  %0 = "stablehlo.batch_norm_inference"(%x, %y, %y, %y, %z) <{epsilon = 1.000000e-03 : f32, feature_index = 1 : i64}> : (tensor<2x3xf32>, tensor<1x3xf32>, tensor<1x3xf32>, tensor<1x3xf32>, tensor<1x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

// inference one element type
// expected-error {{requires compatible element types for all operands and results}}
func.func @main(%x: tensor<2x3xf32>, %y: tensor<3xf16>, %z: tensor<3xf16>, %g: tensor<2x3xf32>) {
  %0 = "stablehlo.batch_norm_inference"(%x, %y, %y, %y, %z) <{epsilon = 1.000000e-03 : f32, feature_index = 1 : i64}> : (tensor<2x3xf32>, tensor<3xf16>, tensor<3xf16>, tensor<3xf16>, tensor<3xf16>) -> tensor<2x3xf32>
  return
}

// -----

// inference feature index
// expected-error {{attribute 'feature_index' failed to satisfy constraint: 64-bit signless integer attribute whose value is non-negative}}
func.func @main(%x: tensor<2x3xf32>, %y: tensor<3xf32>, %z: tensor<3xf32>, %g: tensor<2x3xf32>) {
  %0 = "stablehlo.batch_norm_inference"(%x, %y, %y, %y, %z) <{epsilon = 1.000000e-03 : f32, feature_index = -1 : i64}> : (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  return
}

// -----

// inference feature index in range
// expected-error {{expects featureIndex to be smaller than the rank of multi-dimensional operands; got featureIndex 2, and rank 2.}}
func.func @main(%x: tensor<2x3xf32>, %y: tensor<3xf32>, %z: tensor<3xf32>, %g: tensor<2x3xf32>) {
  %0 = "stablehlo.batch_norm_inference"(%x, %y, %y, %y, %z) <{epsilon = 1.000000e-03 : f32, feature_index = 2 : i64}> : (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  return
}

// -----

// inference epsilon
// expected-error {{attribute 'epsilon' failed to satisfy constraint: 32-bit float attribute}}
func.func @main(%x: tensor<2x3xf32>, %y: tensor<3xf32>, %z: tensor<3xf32>, %g: tensor<2x3xf32>) {
  %0 = "stablehlo.batch_norm_inference"(%x, %y, %y, %y, %z) <{epsilon = 1.000000e-03 : f64, feature_index = 1 : i64}> : (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  return
}

// -----

// inference features alike
// expected-error {{expects single-dimensional operands to have compatible shapes.}}
func.func @main(%x: tensor<2x3xf32>, %y: tensor<3xf32>, %z: tensor<4xf32>, %g: tensor<2x3xf32>) {
  %0 = "stablehlo.batch_norm_inference"(%x, %y, %y, %y, %z) <{epsilon = 1.000000e-03 : f32, feature_index = 1 : i64}> : (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<4xf32>) -> tensor<2x3xf32>
  return
}

// -----

// inference feature count
// expected-error {{expects the size of single-dimensional operands to be compatible with feature count, but the size of single-dimensional operands is 4 and the feature count is 3.}}
func.func @main(%x: tensor<2x3xf32>, %y: tensor<4xf32>, %z: tensor<4xf32>, %g: tensor<2x3xf32>) {
  %0 = "stablehlo.batch_norm_inference"(%x, %y, %y, %y, %z) <{epsilon = 1.000000e-03 : f32, feature_index = 1 : i64}> : (tensor<2x3xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<2x3xf32>
  return
}

// -----

// inference result
// expected-error {{inferred type(s) 'tensor<2x3xf32>' are incompatible with return type(s) of operation 'tensor<2x4xf32>'}}
func.func @main(%x: tensor<2x3xf32>, %y: tensor<3xf32>, %z: tensor<3xf32>, %g: tensor<2x3xf32>) {
  %0 = "stablehlo.batch_norm_inference"(%x, %y, %y, %y, %z) <{epsilon = 1.000000e-03 : f32, feature_index = 1 : i64}> : (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<2x4xf32>
  return
}

// -----

// training of floats
// expected-error {{operand #0 must be ranked tensor of 4/6/8/16/32/64-bit float or per-tensor integer quantized values, but got 'tensor<2x3xi32>'}}
func.func @main(%x: tensor<2x3xi32>, %y: tensor<3xf32>, %z: tensor<3xf32>, %g: tensor<2x3xi32>) {
  %0:3 = "stablehlo.batch_norm_training"(%x, %y, %z) <{epsilon = 1.000000e-03 : f32, feature_index = 1 : i64}> : (tensor<2x3xi32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<2x3xi32>, tensor<3xf32>, tensor<3xf32>)
  return
}

// -----

// training features of floats
// expected-error {{operand #1 must be 1D tensor of 4/6/8/16/32/64-bit float or per-tensor integer quantized values, but got 'tensor<3xi32>'}}
func.func @main(%x: tensor<2x3xf32>, %y: tensor<3xi32>, %z: tensor<3xi32>, %g: tensor<2x3xf32>) {
  %0:3 = "stablehlo.batch_norm_training"(%x, %y, %z) <{epsilon = 1.000000e-03 : f32, feature_index = 1 : i64}> : (tensor<2x3xf32>, tensor<3xi32>, tensor<3xi32>) -> (tensor<2x3xf32>, tensor<3xi32>, tensor<3xi32>)
  return
}

// -----

// training features in one dimension
// expected-error {{operand #1 must be 1D tensor of 4/6/8/16/32/64-bit float or per-tensor integer quantized values, but got 'tensor<1x3xf32>'}}
func.func @main(%x: tensor<2x3xf32>, %y: tensor<1x3xf32>, %z: tensor<1x3xf32>, %g: tensor<2x3xf32>) {
  %0:3 = "stablehlo.batch_norm_training"(%x, %y, %z) <{epsilon = 1.000000e-03 : f32, feature_index = 1 : i64}> : (tensor<2x3xf32>, tensor<1x3xf32>, tensor<1x3xf32>) -> (tensor<2x3xf32>, tensor<1x3xf32>, tensor<1x3xf32>)
  return
}

// -----

// training one element type
// expected-error {{requires compatible element types for all operands and results}}
func.func @main(%x: tensor<2x3xf32>, %y: tensor<3xf16>, %z: tensor<3xf16>, %g: tensor<2x3xf32>) {
  %0:3 = "stablehlo.batch_norm_training"(%x, %y, %z) <{epsilon = 1.000000e-03 : f32, feature_index = 1 : i64}> : (tensor<2x3xf32>, tensor<3xf16>, tensor<3xf16>) -> (tensor<2x3xf32>, tensor<3xf16>, tensor<3xf16>)
  return
}

// -----

// training feature index
// expected-error {{attribute 'feature_index' failed to satisfy constraint: 64-bit signless integer attribute whose value is non-negative}}
func.func @main(%x: tensor<2x3xf32>, %y: tensor<3xf32>, %z: tensor<3xf32>, %g: tensor<2x3xf32>) {
  %0:3 = "stablehlo.batch_norm_training"(%x, %y, %z) <{epsilon = 1.000000e-03 : f32, feature_index = -1 : i64}> : (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>)
  return
}

// -----

// training feature index in range
// expected-error {{expects featureIndex to be smaller than the rank of multi-dimensional operands; got featureIndex 2, and rank 2.}}
func.func @main(%x: tensor<2x3xf32>, %y: tensor<3xf32>, %z: tensor<3xf32>, %g: tensor<2x3xf32>) {
  %0:3 = "stablehlo.batch_norm_training"(%x, %y, %z) <{epsilon = 1.000000e-03 : f32, feature_index = 2 : i64}> : (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>)
  return
}

// -----

// training epsilon
// expected-error {{attribute 'epsilon' failed to satisfy constraint: 32-bit float attribute}}
func.func @main(%x: tensor<2x3xf32>, %y: tensor<3xf32>, %z: tensor<3xf32>, %g: tensor<2x3xf32>) {
  %0:3 = "stablehlo.batch_norm_training"(%x, %y, %z) <{epsilon = 1.000000e-03 : f64, feature_index = 1 : i64}> : (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>)
  return
}

// -----

// training features alike
// expected-error {{expects single-dimensional operands to have compatible shapes.}}
func.func @main(%x: tensor<2x3xf32>, %y: tensor<3xf32>, %z: tensor<4xf32>, %g: tensor<2x3xf32>) {
  %0:3 = "stablehlo.batch_norm_training"(%x, %y, %z) <{epsilon = 1.000000e-03 : f32, feature_index = 1 : i64}> : (tensor<2x3xf32>, tensor<3xf32>, tensor<4xf32>) -> (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>)
  return
}

// -----

// training feature count
// expected-error {{expects the size of single-dimensional operands to be compatible with feature count, but the size of single-dimensional operands is 4 and the feature count is 3.}}
func.func @main(%x: tensor<2x3xf32>, %y: tensor<4xf32>, %z: tensor<4xf32>, %g: tensor<2x3xf32>) {
  %0:3 = "stablehlo.batch_norm_training"(%x, %y, %z) <{epsilon = 1.000000e-03 : f32, feature_index = 1 : i64}> : (tensor<2x3xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<2x3xf32>, tensor<4xf32>, tensor<4xf32>)
  return
}

// -----

// training result
// expected-error {{inferred type(s) 'tensor<2x3xf32>', 'tensor<3xf32>', 'tensor<3xf32>' are incompatible with return type(s) of operation 'tensor<2x4xf32>', 'tensor<3xf32>', 'tensor<3xf32>'}}
func.func @main(%x: tensor<2x3xf32>, %y: tensor<3xf32>, %z: tensor<3xf32>, %g: tensor<2x3xf32>) {
  %0:3 = "stablehlo.batch_norm_training"(%x, %y, %z) <{epsilon = 1.000000e-03 : f32, feature_index = 1 : i64}> : (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<2x4xf32>, tensor<3xf32>, tensor<3xf32>)
  return
}

// -----

// grad of floats
// expected-error {{operand #0 must be ranked tensor of 4/6/8/16/32/64-bit float or per-tensor integer quantized values, but got 'tensor<2x3xi32>'}}
func.func @main(%x: tensor<2x3xi32>, %y: tensor<3xf32>, %z: tensor<3xf32>, %g: tensor<2x3xi32>) {
  %0:3 = "stablehlo.batch_norm_grad"(%x, %y, %y, %z, %g) <{epsilon = 1.000000e-03 : f32, feature_index = 1 : i64}> : (tensor<2x3xi32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<2x3xi32>) -> (tensor<2x3xi32>, tensor<3xf32>, tensor<3xf32>)
  return
}

// -----

// grad features of floats
// expected-error {{operand #1 must be 1D tensor of 4/6/8/16/32/64-bit float or per-tensor integer quantized values, but got 'tensor<3xi32>'}}
func.func @main(%x: tensor<2x3xf32>, %y: tensor<3xi32>, %z: tensor<3xi32>, %g: tensor<2x3xf32>) {
  %0:3 = "stablehlo.batch_norm_grad"(%x, %y, %y, %z, %g) <{epsilon = 1.000000e-03 : f32, feature_index = 1 : i64}> : (tensor<2x3xf32>, tensor<3xi32>, tensor<3xi32>, tensor<3xi32>, tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<3xi32>, tensor<3xi32>)
  return
}

// -----

// grad features in one dimension
// expected-error {{operand #1 must be 1D tensor of 4/6/8/16/32/64-bit float or per-tensor integer quantized values, but got 'tensor<1x3xf32>'}}
func.func @main(%x: tensor<2x3xf32>, %y: tensor<1x3xf32>, %z: tensor<1x3xf32>, %g: tensor<2x3xf32>) {
  %0:3 = "stablehlo.batch_norm_grad"(%x, %y, %y, %z, %g) <{epsilon = 1.000000e-03 : f32, feature_index = 1 : i64}> : (tensor<2x3xf32>, tensor<1x3xf32>, tensor<1x3xf32>, tensor<1x3xf32>, tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<1x3xf32>, tensor<1x3xf32>)
  return
}

// -----

// grad one element type
// expected-error {{requires compatible element types for all operands and results}}
func.func @main(%x: tensor<2x3xf32>, %y: tensor<3xf16>, %z: tensor<3xf16>, %g: tensor<2x3xf32>) {
  %0:3 = "stablehlo.batch_norm_grad"(%x, %y, %y, %z, %g) <{epsilon = 1.000000e-03 : f32, feature_index = 1 : i64}> : (tensor<2x3xf32>, tensor<3xf16>, tensor<3xf16>, tensor<3xf16>, tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<3xf16>, tensor<3xf16>)
  return
}

// -----

// grad feature index
// expected-error {{attribute 'feature_index' failed to satisfy constraint: 64-bit signless integer attribute whose value is non-negative}}
func.func @main(%x: tensor<2x3xf32>, %y: tensor<3xf32>, %z: tensor<3xf32>, %g: tensor<2x3xf32>) {
  %0:3 = "stablehlo.batch_norm_grad"(%x, %y, %y, %z, %g) <{epsilon = 1.000000e-03 : f32, feature_index = -1 : i64}> : (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>)
  return
}

// -----

// grad feature index in range
// expected-error {{expects featureIndex to be smaller than the rank of multi-dimensional operands; got featureIndex 2, and rank 2.}}
func.func @main(%x: tensor<2x3xf32>, %y: tensor<3xf32>, %z: tensor<3xf32>, %g: tensor<2x3xf32>) {
  %0:3 = "stablehlo.batch_norm_grad"(%x, %y, %y, %z, %g) <{epsilon = 1.000000e-03 : f32, feature_index = 2 : i64}> : (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>)
  return
}

// -----

// grad epsilon
// expected-error {{attribute 'epsilon' failed to satisfy constraint: 32-bit float attribute}}
func.func @main(%x: tensor<2x3xf32>, %y: tensor<3xf32>, %z: tensor<3xf32>, %g: tensor<2x3xf32>) {
  %0:3 = "stablehlo.batch_norm_grad"(%x, %y, %y, %z, %g) <{epsilon = 1.000000e-03 : f64, feature_index = 1 : i64}> : (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>)
  return
}

// -----

// grad features alike
// expected-error {{expects single-dimensional operands to have compatible shapes.}}
func.func @main(%x: tensor<2x3xf32>, %y: tensor<3xf32>, %z: tensor<4xf32>, %g: tensor<2x3xf32>) {
  %0:3 = "stablehlo.batch_norm_grad"(%x, %y, %y, %z, %g) <{epsilon = 1.000000e-03 : f32, feature_index = 1 : i64}> : (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<4xf32>, tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>)
  return
}

// -----

// grad feature count
// expected-error {{expects the size of single-dimensional operands to be compatible with feature count, but the size of single-dimensional operands is 4 and the feature count is 3.}}
func.func @main(%x: tensor<2x3xf32>, %y: tensor<4xf32>, %z: tensor<4xf32>, %g: tensor<2x3xf32>) {
  %0:3 = "stablehlo.batch_norm_grad"(%x, %y, %y, %z, %g) <{epsilon = 1.000000e-03 : f32, feature_index = 1 : i64}> : (tensor<2x3xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<4xf32>, tensor<4xf32>)
  return
}

// -----

// grad result
// expected-error {{inferred type(s) 'tensor<2x3xf32>', 'tensor<3xf32>', 'tensor<3xf32>' are incompatible with return type(s) of operation 'tensor<2x4xf32>', 'tensor<3xf32>', 'tensor<3xf32>'}}
func.func @main(%x: tensor<2x3xf32>, %y: tensor<3xf32>, %z: tensor<3xf32>, %g: tensor<2x3xf32>) {
  %0:3 = "stablehlo.batch_norm_grad"(%x, %y, %y, %z, %g) <{epsilon = 1.000000e-03 : f32, feature_index = 1 : i64}> : (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<2x3xf32>) -> (tensor<2x4xf32>, tensor<3xf32>, tensor<3xf32>)
  return
}

// -----

// grad of the operand's shape
// expected-error {{expects multi-dimensional operands to have compatible shapes.}}
func.func @main(%x: tensor<2x3xf32>, %y: tensor<3xf32>, %z: tensor<3xf32>, %g: tensor<2x4xf32>) {
  %0:3 = "stablehlo.batch_norm_grad"(%x, %y, %y, %z, %g) <{epsilon = 1.000000e-03 : f32, feature_index = 1 : i64}> : (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<2x4xf32>) -> (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>)
  return
}
