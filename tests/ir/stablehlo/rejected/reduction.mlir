// reduce shapes
// expected-error {{expects all inputs to have compatible shapes. Shape at input-index 1 is not compatible with shape at input-index 0}}
func.func @main(%i0: tensor<2x3xf32>, %i1: tensor<2x4xf32>, %i2: tensor<f32>, %i3: tensor<f32>) {
  %r:2 = "stablehlo.reduce"(%i0, %i1, %i2, %i3) <{dimensions = array<i64: 1>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>, %z: tensor<f32>, %w: tensor<f32>):
    stablehlo.return %x, %y : tensor<f32>, tensor<f32>
  }) : (tensor<2x3xf32>, tensor<2x4xf32>, tensor<f32>, tensor<f32>) -> (tensor<2xf32>, tensor<2xf32>)
  return
}

// -----

// reduce range
// expected-error {{Out-of-bounds dimension 2, expected to be in range [0, 2)}}
func.func @main(%i0: tensor<2x3xf32>, %i1: tensor<f32>) {
  %r:1 = "stablehlo.reduce"(%i0, %i1) <{dimensions = array<i64: 2>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %m = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %m : tensor<f32>
  }) : (tensor<2x3xf32>, tensor<f32>) -> (tensor<2xf32>)
  return
}

// -----

// reduce dup
// expected-error {{Duplicate reduction dimension: 1}}
func.func @main(%i0: tensor<2x3xf32>, %i1: tensor<f32>) {
  %r:1 = "stablehlo.reduce"(%i0, %i1) <{dimensions = array<i64: 1, 1>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %m = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %m : tensor<f32>
  }) : (tensor<2x3xf32>, tensor<f32>) -> (tensor<2xf32>)
  return
}

// -----

// reduce args
// expected-error {{Reduction-region must take 2 parameters, but takes 1 parameter(s)}}
func.func @main(%i0: tensor<2x3xf32>, %i1: tensor<f32>) {
  %r:1 = "stablehlo.reduce"(%i0, %i1) <{dimensions = array<i64: 1>}> ({
  ^bb0(%x: tensor<f32>):
    stablehlo.return %x : tensor<f32>
  }) : (tensor<2x3xf32>, tensor<f32>) -> (tensor<2xf32>)
  return
}

// -----

// reduce returns none
// expected-error {{The reduction-region expected to return some value(s)}}
func.func @main(%i0: tensor<2x3xf32>, %i1: tensor<f32>) {
  %r:1 = "stablehlo.reduce"(%i0, %i1) <{dimensions = array<i64: 1>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    stablehlo.return
  }) : (tensor<2x3xf32>, tensor<f32>) -> (tensor<2xf32>)
  return
}

// -----

// reduce returns 2
// expected-error {{Reduction-region here must produce 1 tensors, but produces 2 instead}}
func.func @main(%i0: tensor<2x3xf32>, %i1: tensor<f32>) {
  %r:1 = "stablehlo.reduce"(%i0, %i1) <{dimensions = array<i64: 1>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    stablehlo.return %x, %y : tensor<f32>, tensor<f32>
  }) : (tensor<2x3xf32>, tensor<f32>) -> (tensor<2xf32>)
  return
}

// -----

// reduce arg0 type
// expected-error {{The type of reduction-region's parameter at index 0 is different than the corresponding result type: 'tensor<i32>' vs 'tensor<f32>'}}
func.func @main(%i0: tensor<2x3xf32>, %i1: tensor<f32>) {
  %r:1 = "stablehlo.reduce"(%i0, %i1) <{dimensions = array<i64: 1>}> ({
  ^bb0(%x: tensor<i32>, %y: tensor<f32>):
    stablehlo.return %y : tensor<f32>
  }) : (tensor<2x3xf32>, tensor<f32>) -> (tensor<2xf32>)
  return
}

// -----

// reduce arg1 type
// expected-error {{The type of reduction-region's parameter at index 1 is different than the corresponding result type: 'tensor<i32>' vs 'tensor<f32>'}}
func.func @main(%i0: tensor<2x3xf32>, %i1: tensor<f32>) {
  %r:1 = "stablehlo.reduce"(%i0, %i1) <{dimensions = array<i64: 1>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<i32>):
    stablehlo.return %x : tensor<f32>
  }) : (tensor<2x3xf32>, tensor<f32>) -> (tensor<2xf32>)
  return
}

// -----

// reduce init shape
// expected-error {{The shape of reduction-region's result type at index 0 differs from the op's corresponding init-value type: 'tensor<f32>' vs 'tensor<1xf32>'}}
func.func @main(%i0: tensor<2x3xf32>, %i1: tensor<1xf32>) {
  %r:1 = "stablehlo.reduce"(%i0, %i1) <{dimensions = array<i64: 1>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %m = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %m : tensor<f32>
  }) : (tensor<2x3xf32>, tensor<1xf32>) -> (tensor<2xf32>)
  return
}

// -----

// reduce init elt
// expected-error {{The element-type of reduction-region's result type at index 0 is expected to be promotable from the op's corresponding init-value element-type: 'tensor<f32>' vs 'tensor<i32>'}}
func.func @main(%i0: tensor<2x3xf32>, %i1: tensor<i32>) {
  %r:1 = "stablehlo.reduce"(%i0, %i1) <{dimensions = array<i64: 1>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %m = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %m : tensor<f32>
  }) : (tensor<2x3xf32>, tensor<i32>) -> (tensor<2xf32>)
  return
}

// -----

// reduce in elt
// expected-error {{The element-type of reduction-region's argument at index 1 is expected to be promotable from 'i32', but got 'f32'}}
func.func @main(%i0: tensor<2x3xi32>, %i1: tensor<f32>) {
  %r:1 = "stablehlo.reduce"(%i0, %i1) <{dimensions = array<i64: 1>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %m = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %m : tensor<f32>
  }) : (tensor<2x3xi32>, tensor<f32>) -> (tensor<2xf32>)
  return
}

// -----

// reduce arg rank
// expected-error {{The rank of reduction-region's argument at index 1 is expected to be <= 1, got 2}}
func.func @main(%i0: tensor<2x3xf32>, %i1: tensor<2x2xf32>) {
  %r:1 = "stablehlo.reduce"(%i0, %i1) <{dimensions = array<i64: 1>}> ({
  ^bb0(%x: tensor<2x2xf32>, %y: tensor<2x2xf32>):
    stablehlo.return %x : tensor<2x2xf32>
  }) : (tensor<2x3xf32>, tensor<2x2xf32>) -> (tensor<2xf32>)
  return
}

// -----

// reduce arg shape
// expected-error {{The shape of reduction-region's argument at index 1 is not compatible with that of reduce-op's input-parameter at index 0}}
func.func @main(%i0: tensor<2x3xf32>, %i1: tensor<3xf32>) {
  %r:1 = "stablehlo.reduce"(%i0, %i1) <{dimensions = array<i64: 1>}> ({
  ^bb0(%x: tensor<3xf32>, %y: tensor<3xf32>):
    stablehlo.return %x : tensor<3xf32>
  }) : (tensor<2x3xf32>, tensor<3xf32>) -> (tensor<2xf32>)
  return
}

// -----

// reduce out shape
// expected-error {{inferred type(s) 'tensor<2xf32>' are incompatible with return type(s) of operation 'tensor<3xf32>'}}
func.func @main(%i0: tensor<2x3xf32>, %i1: tensor<f32>) {
  %r:1 = "stablehlo.reduce"(%i0, %i1) <{dimensions = array<i64: 1>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %m = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %m : tensor<f32>
  }) : (tensor<2x3xf32>, tensor<f32>) -> (tensor<3xf32>)
  return
}

// -----

// reduce out elt
// expected-error {{inferred type(s) 'tensor<2xf32>' are incompatible with return type(s) of operation 'tensor<2xi32>'}}
func.func @main(%i0: tensor<2x3xf32>, %i1: tensor<f32>) {
  %r:1 = "stablehlo.reduce"(%i0, %i1) <{dimensions = array<i64: 1>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %m = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %m : tensor<f32>
  }) : (tensor<2x3xf32>, tensor<f32>) -> (tensor<2xi32>)
  return
}

// -----

// reduce narrow
// expected-error {{The element-type of reduction-region's result type at index 0 is expected to be promotable from the op's corresponding init-value element-type: 'tensor<i8>' vs 'tensor<i32>'}}
func.func @main(%i0: tensor<2x3xi32>, %i1: tensor<i32>) {
  %r:1 = "stablehlo.reduce"(%i0, %i1) <{dimensions = array<i64: 1>}> ({
  ^bb0(%x: tensor<i8>, %y: tensor<i8>):
    stablehlo.return %x : tensor<i8>
  }) : (tensor<2x3xi32>, tensor<i32>) -> (tensor<2xi8>)
  return
}

// -----

// reduce q exp
// expected-error {{The element-type of reduction-region's result type at index 0 is expected to be promotable from the op's corresponding init-value element-type: 'tensor<!quant.uniform<i8:f32, 5.000000e-01:3>>' vs 'tensor<!quant.uniform<i8:f16, 5.000000e-01>>'}}
!layer = !quant.uniform<i8:f32, 0.5:3>
!half = !quant.uniform<i8:f16, 0.5>
func.func @main(%i0: tensor<2x3x!layer>, %i1: tensor<!half>) {
  %r:1 = "stablehlo.reduce"(%i0, %i1) <{dimensions = array<i64: 1>}> ({
  ^bb0(%x: tensor<!layer>, %y: tensor<!layer>):
    stablehlo.return %x : tensor<!layer>
  }) : (tensor<2x3x!layer>, tensor<!half>) -> (tensor<2x!layer>)
  return
}

// -----

// reduce axis
// expected-error {{operand #0 must be variadic of ranked tensor of 4/6/8/16/32/64-bit float or bool or 2/4/8/16/32/64-bit integer or complex type with 32/64-bit float elements or per-tensor integer quantized values, but got 'tensor<2x3x!quant.uniform<i8<-127:127>:f32:0, {5.000000e-01,2.500000e-01}>>'}}
!layer = !quant.uniform<i8:f32, 0.5:3>
!kernel = !quant.uniform<i8<-127:127>:f32:0, {0.5,0.25}>
func.func @main(%i0: tensor<2x3x!kernel>, %i1: tensor<!layer>) {
  %r:1 = "stablehlo.reduce"(%i0, %i1) <{dimensions = array<i64: 1>}> ({
  ^bb0(%x: tensor<!layer>, %y: tensor<!layer>):
    stablehlo.return %x : tensor<!layer>
  }) : (tensor<2x3x!kernel>, tensor<!layer>) -> (tensor<2x!layer>)
  return
}

// -----

// reduce nontensor return
// expected-error {{Reduction-region here must produce tensor-typed result(s), but produces 'i32' instead}}
func.func @main(%i0: tensor<2x3xf32>, %i1: tensor<f32>) {
  %r:1 = "stablehlo.reduce"(%i0, %i1) <{dimensions = array<i64: 1>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %c = arith.constant 1 : i32
    stablehlo.return %c : i32
  }) : (tensor<2x3xf32>, tensor<f32>) -> (tensor<2xf32>)
  return
}

// -----

// rw rank
// expected-error {{expects window-dimensions size == input rank, but got window-dimensions size: 1 and input: 'tensor<4x4xf32>' with rank = 2.}}
func.func @main(%i0: tensor<4x4xf32>, %i1: tensor<f32>) {
  %r:1 = "stablehlo.reduce_window"(%i0, %i1) <{window_dimensions = array<i64: 2>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    stablehlo.return %x : tensor<f32>
  }) : (tensor<4x4xf32>, tensor<f32>) -> (tensor<2x2xf32>)
  return
}

// -----

// rw strides
// expected-error {{expects window-strides to have same dimension-size as size of window dimensions (2), but got: 1.}}
func.func @main(%i0: tensor<4x4xf32>, %i1: tensor<f32>) {
  %r:1 = "stablehlo.reduce_window"(%i0, %i1) <{window_dimensions = array<i64: 2, 2>, window_strides = array<i64: 2>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    stablehlo.return %x : tensor<f32>
  }) : (tensor<4x4xf32>, tensor<f32>) -> (tensor<2x2xf32>)
  return
}

// -----

// rw base
// expected-error {{expects base-dilation factors to have same dimension-size as size of window dimensions (2), but got: 1.}}
func.func @main(%i0: tensor<4x4xf32>, %i1: tensor<f32>) {
  %r:1 = "stablehlo.reduce_window"(%i0, %i1) <{window_dimensions = array<i64: 2, 2>, base_dilations = array<i64: 2>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    stablehlo.return %x : tensor<f32>
  }) : (tensor<4x4xf32>, tensor<f32>) -> (tensor<2x2xf32>)
  return
}

// -----

// rw wd
// expected-error {{expects window-dilation factors to have same dimension-size as size of window dimensions (2), but got: 1.}}
func.func @main(%i0: tensor<4x4xf32>, %i1: tensor<f32>) {
  %r:1 = "stablehlo.reduce_window"(%i0, %i1) <{window_dimensions = array<i64: 2, 2>, window_dilations = array<i64: 2>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    stablehlo.return %x : tensor<f32>
  }) : (tensor<4x4xf32>, tensor<f32>) -> (tensor<2x2xf32>)
  return
}

// -----

// rw pad
// expected-error {{expects padding-entries to have same dimension-size as size of window dimensions (2), but got: 1.}}
func.func @main(%i0: tensor<4x4xf32>, %i1: tensor<f32>) {
  %r:1 = "stablehlo.reduce_window"(%i0, %i1) <{window_dimensions = array<i64: 2, 2>, padding = dense<1> : tensor<1x2xi64>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    stablehlo.return %x : tensor<f32>
  }) : (tensor<4x4xf32>, tensor<f32>) -> (tensor<2x2xf32>)
  return
}

// -----

// rw padshape
// expected-error {{expects the shape of padding-attribute to be {N, 2}, but got {2}.}}
func.func @main(%i0: tensor<4x4xf32>, %i1: tensor<f32>) {
  %r:1 = "stablehlo.reduce_window"(%i0, %i1) <{window_dimensions = array<i64: 2, 2>, padding = dense<1> : tensor<2xi64>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    stablehlo.return %x : tensor<f32>
  }) : (tensor<4x4xf32>, tensor<f32>) -> (tensor<2x2xf32>)
  return
}

// -----

// rw win
// expected-error {{expects window to have positive value for 1-th window dimension, but got 0.}}
func.func @main(%i0: tensor<4x4xf32>, %i1: tensor<f32>) {
  %r:1 = "stablehlo.reduce_window"(%i0, %i1) <{window_dimensions = array<i64: 2, 0>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    stablehlo.return %x : tensor<f32>
  }) : (tensor<4x4xf32>, tensor<f32>) -> (tensor<2x2xf32>)
  return
}

// -----

// rw out
// expected-error {{inferred type(s) 'tensor<2x2xf32>' are incompatible with return type(s) of operation 'tensor<3x3xf32>'}}
func.func @main(%i0: tensor<4x4xf32>, %i1: tensor<f32>) {
  %r:1 = "stablehlo.reduce_window"(%i0, %i1) <{window_dimensions = array<i64: 2, 2>, window_strides = array<i64: 2, 2>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    stablehlo.return %x : tensor<f32>
  }) : (tensor<4x4xf32>, tensor<f32>) -> (tensor<3x3xf32>)
  return
}

// -----

// rw out elt
// expected-error {{inferred type(s) 'tensor<2x2xf32>' are incompatible with return type(s) of operation 'tensor<2x2xi32>'}}
func.func @main(%i0: tensor<4x4xf32>, %i1: tensor<f32>) {
  %r:1 = "stablehlo.reduce_window"(%i0, %i1) <{window_dimensions = array<i64: 2, 2>, window_strides = array<i64: 2, 2>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    stablehlo.return %x : tensor<f32>
  }) : (tensor<4x4xf32>, tensor<f32>) -> (tensor<2x2xi32>)
  return
}

// -----

// rw shapes
// expected-error {{expects all inputs to have compatible shapes. Shape at input-index 1 is not compatible with shape at input-index 0}}
func.func @main(%i0: tensor<4x4xf32>, %i1: tensor<4x5xf32>, %i2: tensor<f32>, %i3: tensor<f32>) {
  %r:2 = "stablehlo.reduce_window"(%i0, %i1, %i2, %i3) <{window_dimensions = array<i64: 2, 2>, window_strides = array<i64: 2, 2>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>, %z: tensor<f32>, %w: tensor<f32>):
    stablehlo.return %x, %y : tensor<f32>, tensor<f32>
  }) : (tensor<4x4xf32>, tensor<4x5xf32>, tensor<f32>, tensor<f32>) -> (tensor<2x2xf32>, tensor<2x2xf32>)
  return
}

// -----

// rw arg
// expected-error {{The type of reduction-region's parameter at index 1 is different than the corresponding result type: 'tensor<i32>' vs 'tensor<f32>'}}
func.func @main(%i0: tensor<4x4xf32>, %i1: tensor<f32>) {
  %r:1 = "stablehlo.reduce_window"(%i0, %i1) <{window_dimensions = array<i64: 2, 2>, window_strides = array<i64: 2, 2>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<i32>):
    stablehlo.return %x : tensor<f32>
  }) : (tensor<4x4xf32>, tensor<f32>) -> (tensor<2x2xf32>)
  return
}

// -----

// rw init rank
// expected-error {{The shape of reduction-region's result type at index 0 differs from the op's corresponding init-value type: 'tensor<f32>' vs 'tensor<1xf32>'}}
func.func @main(%i0: tensor<4x4xf32>, %i1: tensor<1xf32>) {
  %r:1 = "stablehlo.reduce_window"(%i0, %i1) <{window_dimensions = array<i64: 2, 2>, window_strides = array<i64: 2, 2>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    stablehlo.return %x : tensor<f32>
  }) : (tensor<4x4xf32>, tensor<1xf32>) -> (tensor<2x2xf32>)
  return
}

// -----

// rw axis
// expected-error {{operand #0 must be variadic of ranked tensor of 4/6/8/16/32/64-bit float or bool or 2/4/8/16/32/64-bit integer or complex type with 32/64-bit float elements or per-tensor integer quantized values, but got 'tensor<2x!quant.uniform<i8<-127:127>:f32:0, {5.000000e-01,2.500000e-01}>>'}}
!layer = !quant.uniform<i8:f32, 0.5:3>
!kernel = !quant.uniform<i8<-127:127>:f32:0, {0.5,0.25}>
func.func @main(%a: tensor<2x!kernel>, %s: tensor<!layer>) {
  %0 = "stablehlo.reduce_window"(%a, %s) <{window_dimensions = array<i64: 1>}> ({
  ^bb0(%x: tensor<!layer>, %y: tensor<!layer>):
    stablehlo.return %x : tensor<!layer>
  }) : (tensor<2x!kernel>, tensor<!layer>) -> tensor<2x!layer>
  return
}

// -----

// rw out axis
// expected-error {{result #0 must be variadic of ranked tensor of 4/6/8/16/32/64-bit float or bool or 2/4/8/16/32/64-bit integer or complex type with 32/64-bit float elements or per-tensor integer quantized values, but got 'tensor<2x!quant.uniform<i8<-127:127>:f32:0, {5.000000e-01,2.500000e-01}>>'}}
!layer = !quant.uniform<i8:f32, 0.5:3>
!kernel = !quant.uniform<i8<-127:127>:f32:0, {0.5,0.25}>
func.func @main(%a: tensor<2x!layer>, %s: tensor<!layer>) {
  %0 = "stablehlo.reduce_window"(%a, %s) <{window_dimensions = array<i64: 1>}> ({
  ^bb0(%x: tensor<!layer>, %y: tensor<!layer>):
    stablehlo.return %x : tensor<!layer>
  }) : (tensor<2x!layer>, tensor<!layer>) -> tensor<2x!kernel>
  return
}

// -----

// reduce out axis
// expected-error {{result #0 must be variadic of ranked tensor of 4/6/8/16/32/64-bit float or bool or 2/4/8/16/32/64-bit integer or complex type with 32/64-bit float elements or per-tensor integer quantized values, but got 'tensor<2x!quant.uniform<i8<-127:127>:f32:0, {5.000000e-01,2.500000e-01}>>'}}
!layer = !quant.uniform<i8:f32, 0.5:3>
!kernel = !quant.uniform<i8<-127:127>:f32:0, {0.5,0.25}>
func.func @main(%a: tensor<2x2x!layer>, %s: tensor<!layer>) {
  %0 = "stablehlo.reduce"(%a, %s) <{dimensions = array<i64: 1>}> ({
  ^bb0(%x: tensor<!layer>, %y: tensor<!layer>):
    stablehlo.return %x : tensor<!layer>
  }) : (tensor<2x2x!layer>, tensor<!layer>) -> tensor<2x!kernel>
  return
}

// -----

// rw variadic kind
// expected-error {{operand #0 must be variadic of ranked tensor of 4/6/8/16/32/64-bit float or bool or 2/4/8/16/32/64-bit integer or complex type with 32/64-bit float elements or per-tensor integer quantized values, but got 'tensor<2xindex>'}}
func.func @main(%a: tensor<2xindex>, %s: tensor<f32>) {
  %0 = "stablehlo.reduce_window"(%a, %s) <{window_dimensions = array<i64: 1>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    stablehlo.return %x : tensor<f32>
  }) : (tensor<2xindex>, tensor<f32>) -> tensor<2xf32>
  return
}

// -----

// rw init kind
// expected-error {{operand #1 must be variadic of ranked tensor of 4/6/8/16/32/64-bit float or bool or 2/4/8/16/32/64-bit integer or complex type with 32/64-bit float elements or per-tensor integer quantized values, but got 'tensor<index>'}}
func.func @main(%a: tensor<2xf32>, %s: tensor<index>) {
  %0 = "stablehlo.reduce_window"(%a, %s) <{window_dimensions = array<i64: 1>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    stablehlo.return %x : tensor<f32>
  }) : (tensor<2xf32>, tensor<index>) -> tensor<2xf32>
  return
}

// -----

// reduce init kind
// expected-error {{operand #1 must be variadic of ranked tensor of 4/6/8/16/32/64-bit float or bool or 2/4/8/16/32/64-bit integer or complex type with 32/64-bit float elements or per-tensor integer quantized values, but got 'tensor<index>'}}
func.func @main(%a: tensor<2xf32>, %s: tensor<index>) {
  %0 = "stablehlo.reduce"(%a, %s) <{dimensions = array<i64: 0>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    stablehlo.return %x : tensor<f32>
  }) : (tensor<2xf32>, tensor<index>) -> tensor<f32>
  return
}

// -----

// reduce none n
// expected-error {{inferred type(s) 'tensor<f32>' are incompatible with return type(s) of operation 'tensor<f32>', 'tensor<f32>'}}
func.func @main(%a: tensor<2xf32>, %s: tensor<f32>) {
  %0:2 = "stablehlo.reduce"(%a, %s) <{dimensions = array<i64: 0>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    stablehlo.return %x : tensor<f32>
  }) : (tensor<2xf32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
  return
}

// -----

// rw results n
// expected-error {{inferred type(s) 'tensor<2xf32>' are incompatible with return type(s) of operation 'tensor<2xf32>', 'tensor<2xf32>'}}
func.func @main(%a: tensor<2xf32>, %s: tensor<f32>) {
  %0:2 = "stablehlo.reduce_window"(%a, %s) <{window_dimensions = array<i64: 1>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    stablehlo.return %x : tensor<f32>
  }) : (tensor<2xf32>, tensor<f32>) -> (tensor<2xf32>, tensor<2xf32>)
  return
}
