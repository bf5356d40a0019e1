// RUN: -p '' --split-input-file --verify-diagnostics

// What the quant dialect document calls incorrect, and one example for each other sentence of the verifiers.

!per_axis = !quant.uniform<i8:f32:0, {1.0, 2.0}>
func.func @scalar(%x: f32) {
  // expected-error@below {{scalar types may not use per-axis quantization}}
  %0 = quant.qcast %x : f32 to !per_axis
  return
}

// -----

func.func @axis_past_the_rank(%x: tensor<1x2xf32>) {
  // expected-error@below {{quantized dimension must be less than tensor rank}}
  %0 = quant.qcast %x : tensor<1x2xf32> to tensor<1x2x!quant.uniform<i8:f32:3, {1.0, 2.0}>>
  return
}

// -----

func.func @too_many_scales(%x: tensor<?x3xf32>) {
  // expected-error@below {{quantized dimension size does not match number of scales}}
  %0 = quant.qcast %x : tensor<?x3xf32> to tensor<?x3x!quant.uniform<i8:f32:1, {1.0, 2.0, 3.0, 4.0}>>
  return
}

// -----

func.func @scalar_with_blocks(%x: f32) {
  // expected-error@below {{scalar types may not use sub-channel quantization}}
  %0 = quant.qcast %x : f32 to !quant.uniform<i8:f32:{0:1, 1:2}, {{1.0}, {2.0}}>
  return
}

// -----

func.func @unranked_with_blocks(%x: tensor<*xf32>) {
  // expected-error@below {{tensor containing the sub-channel quantized type must be ranked}}
  %0 = quant.qcast %x : tensor<*xf32> to tensor<*x!quant.uniform<i8:f32:{0:1, 1:2}, {{1.0}, {2.0}}>>
  return
}

// -----

func.func @block_axis_past_the_rank(%x: tensor<2x2xf32>) {
  // expected-error@below {{quantized dimension 2 must be less than tensor rank 2}}
  %0 = quant.qcast %x : tensor<2x2xf32> to tensor<2x2x!quant.uniform<i8:f32:{2:1, 1:2}, {{1.0}, {2.0}}>>
  return
}

// -----

// A type that is wrong by itself is refused where it stands.
// expected-error@below {{illegal quantized dimension: -1}}
!negative_axis = !quant.uniform<i8:f32:{-1:1, 1:2}, {{1.0}, {2.0}}>

// -----

// expected-error@below {{illegal block size: -1}}
!negative_block = !quant.uniform<i8:f32:{0:-1}, {{1.0, 2.0}}>

// -----

// expected-error@below {{unknown quantized type unifrom}}
!misspelt = !quant.unifrom<i8:f32, 1.0>

// -----

func.func @block_that_does_not_divide(%x: tensor<6x2xf32>) {
  // expected-error-re@below {{tensor dimension size 6 at axis {{[01]}} must be divisible by the corresponding block size 4}}
  %0 = quant.qcast %x : tensor<6x2xf32> to tensor<6x2x!quant.uniform<i8:f32:{0:4}, {{1.0, 2.0}}>>
  return
}

// -----

func.func @scales_of_another_shape(%x: tensor<6x2xf32>) {
  // expected-error@below {{dimension size 1 of scales tensor at axis 0 should match}}
  %0 = quant.qcast %x : tensor<6x2xf32> to tensor<6x2x!quant.uniform<i8:f32:{0:3}, {{1.0, 2.0}}>>
  return
}

// -----

!q = !quant.uniform<i8:f32, 1.0>
func.func @the_first_of_two(%x: f32, %q: !q) {
  %0 = quant.dcast %q : !q to f64  // expected-error {{expressed type in quantized type expected to match float type}}
  %1 = quant.scast %q : !q to i16
  return
}

// -----

!q = !quant.uniform<i8:f32, 1.0>
func.func @storage(%q: !q) {
  %1 = quant.scast %q : !q to i16
  // expected-error@above {{storage type in quantized type expected to match integer type}}
  return
}

// -----

!q = !quant.uniform<i8:f32, 1.0>
func.func @shapes(%x: tensor<2x3xf32>) {
  // expected-error@below {{'quant.qcast' op failed to verify that input and result are both scalars or both tensors}}
  %0 = quant.qcast %x : tensor<2x3xf32> to tensor<?x3x!q>
  return
}

// -----

func.func @count(%x: f32) {
  // expected-error@below {{'quant.qcast' op requires a single operand}}
  %0 = "quant.qcast"(%x, %x) : (f32, f32) -> !quant.uniform<i8:f32, 1.0>
  return
}
