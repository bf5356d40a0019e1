// indices of floats
// expected-error {{operand #1 must be ranked tensor of integer or index values, but got 'tensor<2x3x2xf32>'}}
func.func @main(%o: tensor<3x4x2xi64>, %i: tensor<2x3x2xf32>, %u: tensor<2x3x2x2xi64>) {
  %0 = "stablehlo.scatter"(%o, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [2, 3], inserted_window_dims = [0], scatter_dims_to_operand_dims = [1, 0], index_vector_dim = 2>}> ({
  ^bb0(%a: tensor<i64>, %b: tensor<i64>):
    stablehlo.return %a : tensor<i64>
  }) : (tensor<3x4x2xi64>, tensor<2x3x2xf32>, tensor<2x3x2x2xi64>) -> tensor<3x4x2xi64>
  return
}

// -----

// per axis
// expected-error {{operand #0 must be variadic of ranked tensor of 4/6/8/16/32/64-bit float or bool or 2/4/8/16/32/64-bit integer or complex type with 32/64-bit float elements or per-tensor integer quantized values, but got 'tensor<2x4x2x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01}>>'}}
func.func @main(%o: tensor<2x4x2x!quant.uniform<i8:f32:0, {0.5,0.25}>>, %i: tensor<2x3x2xi32>, %u: tensor<2x3x2x2x!quant.uniform<i8:f32:0, {0.5,0.25}>>) {
  %0 = "stablehlo.scatter"(%o, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [2, 3], inserted_window_dims = [0], scatter_dims_to_operand_dims = [1, 0], index_vector_dim = 2>}> ({
  ^bb0(%a: tensor<!quant.uniform<i8:f32, 0.5>>, %b: tensor<!quant.uniform<i8:f32, 0.5>>):
    stablehlo.return %a : tensor<!quant.uniform<i8:f32, 0.5>>
  }) : (tensor<2x4x2x!quant.uniform<i8:f32:0, {0.5,0.25}>>, tensor<2x3x2xi32>, tensor<2x3x2x2x!quant.uniform<i8:f32:0, {0.5,0.25}>>) -> tensor<2x4x2x!quant.uniform<i8:f32:0, {0.5,0.25}>>
  return
}

// -----

// update not promotable
// expected-error {{The element-type of reduction-region's result type at index 0 is expected to be promotable from the op's corresponding init-value element-type: 'tensor<i32>' vs 'tensor<i64>'}}
func.func @main(%o: tensor<3x4x2xi64>, %i: tensor<2x3x2xi32>, %u: tensor<2x3x2x2xi64>) {
  %0 = "stablehlo.scatter"(%o, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [2, 3], inserted_window_dims = [0], scatter_dims_to_operand_dims = [1, 0], index_vector_dim = 2>}> ({
  ^bb0(%a: tensor<i32>, %b: tensor<i32>):
    stablehlo.return %a : tensor<i32>
  }) : (tensor<3x4x2xi64>, tensor<2x3x2xi32>, tensor<2x3x2x2xi64>) -> tensor<3x4x2xi64>
  return
}

// -----

// result element
// expected-error {{inferred type(s) 'tensor<3x4x2xi64>' are incompatible with return type(s) of operation 'tensor<3x4x2xi32>'}}
func.func @main(%o: tensor<3x4x2xi32>, %i: tensor<2x3x2xi32>, %u: tensor<2x3x2x2xi32>) {
  %0 = "stablehlo.scatter"(%o, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [2, 3], inserted_window_dims = [0], scatter_dims_to_operand_dims = [1, 0], index_vector_dim = 2>}> ({
  ^bb0(%a: tensor<i64>, %b: tensor<i64>):
    stablehlo.return %a : tensor<i64>
  }) : (tensor<3x4x2xi32>, tensor<2x3x2xi32>, tensor<2x3x2x2xi32>) -> tensor<3x4x2xi32>
  return
}

// -----

// result shape
// expected-error {{inferred type(s) 'tensor<3x4x2xi64>' are incompatible with return type(s) of operation 'tensor<3x4x1xi64>'}}
func.func @main(%o: tensor<3x4x2xi64>, %i: tensor<2x3x2xi32>, %u: tensor<2x3x2x2xi64>) {
  %0 = "stablehlo.scatter"(%o, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [2, 3], inserted_window_dims = [0], scatter_dims_to_operand_dims = [1, 0], index_vector_dim = 2>}> ({
  ^bb0(%a: tensor<i64>, %b: tensor<i64>):
    stablehlo.return %a : tensor<i64>
  }) : (tensor<3x4x2xi64>, tensor<2x3x2xi32>, tensor<2x3x2x2xi64>) -> tensor<3x4x1xi64>
  return
}

// -----

// body arguments
// expected-error {{Reduction-region must take 2 parameters, but takes 3 parameter(s)}}
func.func @main(%o: tensor<3x4x2xi64>, %i: tensor<2x3x2xi32>, %u: tensor<2x3x2x2xi64>) {
  %0 = "stablehlo.scatter"(%o, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [2, 3], inserted_window_dims = [0], scatter_dims_to_operand_dims = [1, 0], index_vector_dim = 2>}> ({
  ^bb0(%a: tensor<i64>, %b: tensor<i64>, %c: tensor<i64>):
    stablehlo.return %a : tensor<i64>
  }) : (tensor<3x4x2xi64>, tensor<2x3x2xi32>, tensor<2x3x2x2xi64>) -> tensor<3x4x2xi64>
  return
}

// -----

// body of rank 1
// expected-error {{The shape of reduction-region's result type at index 0 differs from the op's corresponding init-value type: 'tensor<1xi64>' vs 'tensor<i64>'}}
func.func @main(%o: tensor<3x4x2xi64>, %i: tensor<2x3x2xi32>, %u: tensor<2x3x2x2xi64>) {
  %0 = "stablehlo.scatter"(%o, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [2, 3], inserted_window_dims = [0], scatter_dims_to_operand_dims = [1, 0], index_vector_dim = 2>}> ({
  ^bb0(%a: tensor<1xi64>, %b: tensor<1xi64>):
    stablehlo.return %a : tensor<1xi64>
  }) : (tensor<3x4x2xi64>, tensor<2x3x2xi32>, tensor<2x3x2x2xi64>) -> tensor<3x4x2xi64>
  return
}

// -----

// window too great
// expected-error {{expects bounds of the window dimensions of updates to not exceed the bounds of the corresponding dimensions of operand. For dimension 3, updates bound is 3, operand bound is 2.}}
func.func @main(%o: tensor<3x4x2xi64>, %i: tensor<2x3x2xi32>, %u: tensor<2x3x2x3xi64>) {
  %0 = "stablehlo.scatter"(%o, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [2, 3], inserted_window_dims = [0], scatter_dims_to_operand_dims = [1, 0], index_vector_dim = 2>}> ({
  ^bb0(%a: tensor<i64>, %b: tensor<i64>):
    stablehlo.return %a : tensor<i64>
  }) : (tensor<3x4x2xi64>, tensor<2x3x2xi32>, tensor<2x3x2x3xi64>) -> tensor<3x4x2xi64>
  return
}

// -----

// other positions
// expected-error {{expects bounds of the scatter dimensions of updates to be same as the bounds of the corresponding dimensions of scatter indices. For scatter dimension 1, updates bound is 2 , scatter_indices bound is 3.}}
func.func @main(%o: tensor<3x4x2xi64>, %i: tensor<2x3x2xi32>, %u: tensor<2x2x2x2xi64>) {
  %0 = "stablehlo.scatter"(%o, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [2, 3], inserted_window_dims = [0], scatter_dims_to_operand_dims = [1, 0], index_vector_dim = 2>}> ({
  ^bb0(%a: tensor<i64>, %b: tensor<i64>):
    stablehlo.return %a : tensor<i64>
  }) : (tensor<3x4x2xi64>, tensor<2x3x2xi32>, tensor<2x2x2x2xi64>) -> tensor<3x4x2xi64>
  return
}

// -----

// update rank
// expected-error {{expects updates tensor must be of rank 4 ( == rank-of('scatter_indices') - 1 + size-of('update_window_dims'), where 'scatter_indices' is expanded by a trailing 1 dimension if 'index_vector_dim' == rank-of('scatter_indices')), but got 5.}}
func.func @main(%o: tensor<3x4x2xi64>, %i: tensor<2x3x2xi32>, %u: tensor<2x3x2x2x1xi64>) {
  %0 = "stablehlo.scatter"(%o, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [2, 3], inserted_window_dims = [0], scatter_dims_to_operand_dims = [1, 0], index_vector_dim = 2>}> ({
  ^bb0(%a: tensor<i64>, %b: tensor<i64>):
    stablehlo.return %a : tensor<i64>
  }) : (tensor<3x4x2xi64>, tensor<2x3x2xi32>, tensor<2x3x2x2x1xi64>) -> tensor<3x4x2xi64>
  return
}

// -----

// vector dim bounds
// expected-error {{Expects index_vector_dim to be in range [0, rank-of('scatter_indices')] i.e. [0, 3]. got: 4.}}
func.func @main(%o: tensor<3x4x2xi64>, %i: tensor<2x3x2xi32>, %u: tensor<2x3x2x2xi64>) {
  %0 = "stablehlo.scatter"(%o, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [2, 3], inserted_window_dims = [0], scatter_dims_to_operand_dims = [1, 0], index_vector_dim = 4>}> ({
  ^bb0(%a: tensor<i64>, %b: tensor<i64>):
    stablehlo.return %a : tensor<i64>
  }) : (tensor<3x4x2xi64>, tensor<2x3x2xi32>, tensor<2x3x2x2xi64>) -> tensor<3x4x2xi64>
  return
}

// -----

// vector dim negative
// expected-error {{Expects index_vector_dim to be in range [0, rank-of('scatter_indices')] i.e. [0, 3]. got: -1.}}
func.func @main(%o: tensor<3x4x2xi64>, %i: tensor<2x3x2xi32>, %u: tensor<2x3x2x2xi64>) {
  %0 = "stablehlo.scatter"(%o, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [2, 3], inserted_window_dims = [0], scatter_dims_to_operand_dims = [1, 0], index_vector_dim = -1>}> ({
  ^bb0(%a: tensor<i64>, %b: tensor<i64>):
    stablehlo.return %a : tensor<i64>
  }) : (tensor<3x4x2xi64>, tensor<2x3x2xi32>, tensor<2x3x2x2xi64>) -> tensor<3x4x2xi64>
  return
}

// -----

// map size
// expected-error {{Scatter op has 1 elements in scatter_dims_to_operand_dims and the bound of dimension index_vector_dim=2 of scatter_indices is 2. These two numbers must be equal.}}
func.func @main(%o: tensor<3x4x2xi64>, %i: tensor<2x3x2xi32>, %u: tensor<2x3x2x2xi64>) {
  %0 = "stablehlo.scatter"(%o, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [2, 3], inserted_window_dims = [0], scatter_dims_to_operand_dims = [1], index_vector_dim = 2>}> ({
  ^bb0(%a: tensor<i64>, %b: tensor<i64>):
    stablehlo.return %a : tensor<i64>
  }) : (tensor<3x4x2xi64>, tensor<2x3x2xi32>, tensor<2x3x2x2xi64>) -> tensor<3x4x2xi64>
  return
}

// -----

// map size of scalars
// expected-error {{Scatter op has 2 elements in scatter_dims_to_operand_dims and the bound of dimension index_vector_dim=2 of scatter_indices is 1. These two numbers must be equal.}}
func.func @main(%o: tensor<3x4x2xi64>, %i: tensor<2x3xi32>, %u: tensor<2x3x2x2xi64>) {
  %0 = "stablehlo.scatter"(%o, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [2, 3], inserted_window_dims = [0], scatter_dims_to_operand_dims = [1, 0], index_vector_dim = 2>}> ({
  ^bb0(%a: tensor<i64>, %b: tensor<i64>):
    stablehlo.return %a : tensor<i64>
  }) : (tensor<3x4x2xi64>, tensor<2x3xi32>, tensor<2x3x2x2xi64>) -> tensor<3x4x2xi64>
  return
}

// -----

// map dup
// expected-error {{has duplicated dimension from scatter_dims_to_operand_dims and input_batching_dims: 1}}
func.func @main(%o: tensor<3x4x2xi64>, %i: tensor<2x3x2xi32>, %u: tensor<2x3x2x2xi64>) {
  %0 = "stablehlo.scatter"(%o, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [2, 3], inserted_window_dims = [0], scatter_dims_to_operand_dims = [1, 1], index_vector_dim = 2>}> ({
  ^bb0(%a: tensor<i64>, %b: tensor<i64>):
    stablehlo.return %a : tensor<i64>
  }) : (tensor<3x4x2xi64>, tensor<2x3x2xi32>, tensor<2x3x2x2xi64>) -> tensor<3x4x2xi64>
  return
}

// -----

// map bounds
// expected-error {{Expects each element of scatter_dims_to_operand_dims to be in range [0, rank-of('operand')) i.e. [0, 3). got: 3.}}
func.func @main(%o: tensor<3x4x2xi64>, %i: tensor<2x3x2xi32>, %u: tensor<2x3x2x2xi64>) {
  %0 = "stablehlo.scatter"(%o, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [2, 3], inserted_window_dims = [0], scatter_dims_to_operand_dims = [1, 3], index_vector_dim = 2>}> ({
  ^bb0(%a: tensor<i64>, %b: tensor<i64>):
    stablehlo.return %a : tensor<i64>
  }) : (tensor<3x4x2xi64>, tensor<2x3x2xi32>, tensor<2x3x2x2xi64>) -> tensor<3x4x2xi64>
  return
}

// -----

// operand rank
// expected-error {{Expects rank-of operand to match size-of('update_window_dims') + size-of('inserted_window_dims') + size-of('input_batching_dims') i.e. 2 but got 3.}}
func.func @main(%o: tensor<3x4x2xi64>, %i: tensor<2x3x2xi32>, %u: tensor<2x3x2x2xi64>) {
  %0 = "stablehlo.scatter"(%o, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [2, 3], scatter_dims_to_operand_dims = [1, 0], index_vector_dim = 2>}> ({
  ^bb0(%a: tensor<i64>, %b: tensor<i64>):
    stablehlo.return %a : tensor<i64>
  }) : (tensor<3x4x2xi64>, tensor<2x3x2xi32>, tensor<2x3x2x2xi64>) -> tensor<3x4x2xi64>
  return
}

// -----

// window sorted
// expected-error {{Expects update_window_dims to be sorted; got: [3, 2].}}
func.func @main(%o: tensor<3x4x2xi64>, %i: tensor<2x3x2xi32>, %u: tensor<2x3x2x2xi64>) {
  %0 = "stablehlo.scatter"(%o, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [3, 2], inserted_window_dims = [0], scatter_dims_to_operand_dims = [1, 0], index_vector_dim = 2>}> ({
  ^bb0(%a: tensor<i64>, %b: tensor<i64>):
    stablehlo.return %a : tensor<i64>
  }) : (tensor<3x4x2xi64>, tensor<2x3x2xi32>, tensor<2x3x2x2xi64>) -> tensor<3x4x2xi64>
  return
}

// -----

// window dup
// expected-error {{Expects update_window_dims to not repeat; got: [2, 2].}}
func.func @main(%o: tensor<3x4x2xi64>, %i: tensor<2x3x2xi32>, %u: tensor<2x3x2x2xi64>) {
  %0 = "stablehlo.scatter"(%o, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [2, 2], inserted_window_dims = [0], scatter_dims_to_operand_dims = [1, 0], index_vector_dim = 2>}> ({
  ^bb0(%a: tensor<i64>, %b: tensor<i64>):
    stablehlo.return %a : tensor<i64>
  }) : (tensor<3x4x2xi64>, tensor<2x3x2xi32>, tensor<2x3x2x2xi64>) -> tensor<3x4x2xi64>
  return
}

// -----

// window bounds
// expected-error {{Expects each element of update_window_dims to be in range [0, rank-of('updates')) i.e. [0, 4). got: 4.}}
func.func @main(%o: tensor<3x4x2xi64>, %i: tensor<2x3x2xi32>, %u: tensor<2x3x2x2xi64>) {
  %0 = "stablehlo.scatter"(%o, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [2, 4], inserted_window_dims = [0], scatter_dims_to_operand_dims = [1, 0], index_vector_dim = 2>}> ({
  ^bb0(%a: tensor<i64>, %b: tensor<i64>):
    stablehlo.return %a : tensor<i64>
  }) : (tensor<3x4x2xi64>, tensor<2x3x2xi32>, tensor<2x3x2x2xi64>) -> tensor<3x4x2xi64>
  return
}

// -----

// inserted sorted
// expected-error {{Expects inserted_window_dims to be sorted; got: [1, 0].}}
func.func @main(%o: tensor<3x4x2xi64>, %i: tensor<2x3x2xi32>, %u: tensor<2x3x2xi64>) {
  %0 = "stablehlo.scatter"(%o, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [2], inserted_window_dims = [1, 0], scatter_dims_to_operand_dims = [1, 0], index_vector_dim = 2>}> ({
  ^bb0(%a: tensor<i64>, %b: tensor<i64>):
    stablehlo.return %a : tensor<i64>
  }) : (tensor<3x4x2xi64>, tensor<2x3x2xi32>, tensor<2x3x2xi64>) -> tensor<3x4x2xi64>
  return
}

// -----

// inserted dup
// expected-error {{has duplicated dimension from inserted_window_dims and input_batching_dims: 0}}
func.func @main(%o: tensor<3x4x2xi64>, %i: tensor<2x3x2xi32>, %u: tensor<2x3x2xi64>) {
  %0 = "stablehlo.scatter"(%o, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [2], inserted_window_dims = [0, 0], scatter_dims_to_operand_dims = [1, 0], index_vector_dim = 2>}> ({
  ^bb0(%a: tensor<i64>, %b: tensor<i64>):
    stablehlo.return %a : tensor<i64>
  }) : (tensor<3x4x2xi64>, tensor<2x3x2xi32>, tensor<2x3x2xi64>) -> tensor<3x4x2xi64>
  return
}

// -----

// inserted bounds
// expected-error {{Expects each element of inserted_window_dims to be in range [0, rank-of('operand')) i.e. [0, 3). got: 3.}}
func.func @main(%o: tensor<3x4x2xi64>, %i: tensor<2x3x2xi32>, %u: tensor<2x3x2xi64>) {
  %0 = "stablehlo.scatter"(%o, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [2], inserted_window_dims = [0, 3], scatter_dims_to_operand_dims = [1, 0], index_vector_dim = 2>}> ({
  ^bb0(%a: tensor<i64>, %b: tensor<i64>):
    stablehlo.return %a : tensor<i64>
  }) : (tensor<3x4x2xi64>, tensor<2x3x2xi32>, tensor<2x3x2xi64>) -> tensor<3x4x2xi64>
  return
}

// -----

// batching dup
// expected-error {{has duplicated dimension from inserted_window_dims and input_batching_dims: 1}}
func.func @main(%o: tensor<2x4x2xi64>, %i: tensor<2x3x2xi32>, %u: tensor<2x3x2xi64>) {
  %0 = "stablehlo.scatter"(%o, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [2], inserted_window_dims = [1], input_batching_dims = [1], scatter_indices_batching_dims = [0], scatter_dims_to_operand_dims = [2, 1], index_vector_dim = 2>}> ({
  ^bb0(%a: tensor<i64>, %b: tensor<i64>):
    stablehlo.return %a : tensor<i64>
  }) : (tensor<2x4x2xi64>, tensor<2x3x2xi32>, tensor<2x3x2xi64>) -> tensor<2x4x2xi64>
  return
}

// -----

// batching sorted
// expected-error {{Expects input_batching_dims to be sorted; got: [2, 0].}}
func.func @main(%o: tensor<2x4x2xi64>, %i: tensor<2x3x2xi32>, %u: tensor<2x3xi64>) {
  %0 = "stablehlo.scatter"(%o, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [1], input_batching_dims = [2, 0], scatter_indices_batching_dims = [0], scatter_dims_to_operand_dims = [2, 1], index_vector_dim = 2>}> ({
  ^bb0(%a: tensor<i64>, %b: tensor<i64>):
    stablehlo.return %a : tensor<i64>
  }) : (tensor<2x4x2xi64>, tensor<2x3x2xi32>, tensor<2x3xi64>) -> tensor<2x4x2xi64>
  return
}

// -----

// batching bounds
// expected-error {{Expects each element of input_batching_dims to be in range [0, rank-of('operand')) i.e. [0, 3). got: 3.}}
func.func @main(%o: tensor<2x4x2xi64>, %i: tensor<2x3x2xi32>, %u: tensor<2x3x2xi64>) {
  %0 = "stablehlo.scatter"(%o, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [2], inserted_window_dims = [1], input_batching_dims = [3], scatter_indices_batching_dims = [0], scatter_dims_to_operand_dims = [2, 1], index_vector_dim = 2>}> ({
  ^bb0(%a: tensor<i64>, %b: tensor<i64>):
    stablehlo.return %a : tensor<i64>
  }) : (tensor<2x4x2xi64>, tensor<2x3x2xi32>, tensor<2x3x2xi64>) -> tensor<2x4x2xi64>
  return
}

// -----

// batching index dup
// expected-error {{Expects scatter_indices_batching_dims to not repeat; got: [0, 0].}}
func.func @main(%o: tensor<2x4x2xi64>, %i: tensor<2x3x2xi32>, %u: tensor<2x3x2xi64>) {
  %0 = "stablehlo.scatter"(%o, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [2], inserted_window_dims = [1], input_batching_dims = [0], scatter_indices_batching_dims = [0, 0], scatter_dims_to_operand_dims = [2, 1], index_vector_dim = 2>}> ({
  ^bb0(%a: tensor<i64>, %b: tensor<i64>):
    stablehlo.return %a : tensor<i64>
  }) : (tensor<2x4x2xi64>, tensor<2x3x2xi32>, tensor<2x3x2xi64>) -> tensor<2x4x2xi64>
  return
}

// -----

// batching index bounds
// expected-error {{Expects each element of scatter_indices_batching_dims to be in range [0, rank-of('scatter_indices')) i.e. [0, 3). got: 3.}}
func.func @main(%o: tensor<2x4x2xi64>, %i: tensor<2x3x2xi32>, %u: tensor<2x3x2xi64>) {
  %0 = "stablehlo.scatter"(%o, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [2], inserted_window_dims = [1], input_batching_dims = [0], scatter_indices_batching_dims = [3], scatter_dims_to_operand_dims = [2, 1], index_vector_dim = 2>}> ({
  ^bb0(%a: tensor<i64>, %b: tensor<i64>):
    stablehlo.return %a : tensor<i64>
  }) : (tensor<2x4x2xi64>, tensor<2x3x2xi32>, tensor<2x3x2xi64>) -> tensor<2x4x2xi64>
  return
}

// -----

// batching vector dim
// expected-error {{expects scatter_indices_batching_dims not to include index_vector_dim 2.}}
func.func @main(%o: tensor<2x4x2xi64>, %i: tensor<2x3x2xi32>, %u: tensor<2x3x2xi64>) {
  %0 = "stablehlo.scatter"(%o, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [2], inserted_window_dims = [1], input_batching_dims = [0], scatter_indices_batching_dims = [2], scatter_dims_to_operand_dims = [2, 1], index_vector_dim = 2>}> ({
  ^bb0(%a: tensor<i64>, %b: tensor<i64>):
    stablehlo.return %a : tensor<i64>
  }) : (tensor<2x4x2xi64>, tensor<2x3x2xi32>, tensor<2x3x2xi64>) -> tensor<2x4x2xi64>
  return
}

// -----

// batching counts
// expected-error {{input_batching_dims and scatter_indices_batching_dims should have the same size.}}
func.func @main(%o: tensor<2x4x2xi64>, %i: tensor<2x3x2xi32>, %u: tensor<2x3x2xi64>) {
  %0 = "stablehlo.scatter"(%o, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [2], inserted_window_dims = [1], input_batching_dims = [0], scatter_indices_batching_dims = [0, 1], scatter_dims_to_operand_dims = [2, 1], index_vector_dim = 2>}> ({
  ^bb0(%a: tensor<i64>, %b: tensor<i64>):
    stablehlo.return %a : tensor<i64>
  }) : (tensor<2x4x2xi64>, tensor<2x3x2xi32>, tensor<2x3x2xi64>) -> tensor<2x4x2xi64>
  return
}

// -----

// batching sizes
// expected-error {{input_batching_dims[0] and scatter_indices_batching_dims[0] must have compatible sizes, but got 3 and 2.}}
func.func @main(%o: tensor<3x4x2xi64>, %i: tensor<2x3x2xi32>, %u: tensor<2x3x2xi64>) {
  %0 = "stablehlo.scatter"(%o, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [2], inserted_window_dims = [1], input_batching_dims = [0], scatter_indices_batching_dims = [0], scatter_dims_to_operand_dims = [2, 1], index_vector_dim = 2>}> ({
  ^bb0(%a: tensor<i64>, %b: tensor<i64>):
    stablehlo.return %a : tensor<i64>
  }) : (tensor<3x4x2xi64>, tensor<2x3x2xi32>, tensor<2x3x2xi64>) -> tensor<3x4x2xi64>
  return
}

// -----

// batching mapped
// expected-error {{has duplicated dimension from scatter_dims_to_operand_dims and input_batching_dims: 0}}
func.func @main(%o: tensor<2x4x2xi64>, %i: tensor<2x3x2xi32>, %u: tensor<2x3x2xi64>) {
  %0 = "stablehlo.scatter"(%o, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [2], inserted_window_dims = [1], input_batching_dims = [0], scatter_indices_batching_dims = [0], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 2>}> ({
  ^bb0(%a: tensor<i64>, %b: tensor<i64>):
    stablehlo.return %a : tensor<i64>
  }) : (tensor<2x4x2xi64>, tensor<2x3x2xi32>, tensor<2x3x2xi64>) -> tensor<2x4x2xi64>
  return
}

// -----

// inputs of two shapes
// expected-error {{Not all inputs have compatible shapes.}}
func.func @main(%a: tensor<2xf32>, %b: tensor<3xf32>, %i: tensor<1xi32>, %u: tensor<1xf32>, %v: tensor<2xf32>) {
  %0:2 = "stablehlo.scatter"(%a, %b, %i, %u, %u) <{scatter_dimension_numbers = #stablehlo.scatter<
    inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>, %r: tensor<f32>, %s: tensor<f32>):
    stablehlo.return %p, %q : tensor<f32>, tensor<f32>
  }) : (tensor<2xf32>, tensor<3xf32>, tensor<1xi32>, tensor<1xf32>, tensor<1xf32>) -> (tensor<2xf32>, tensor<3xf32>)
  return
}

// -----

// updates of two shapes
// expected-error {{Not all updates have compatible shapes.}}
func.func @main(%a: tensor<2xf32>, %b: tensor<3xf32>, %i: tensor<1xi32>, %u: tensor<1xf32>, %v: tensor<2xf32>) {
  %0:2 = "stablehlo.scatter"(%a, %a, %i, %u, %v) <{scatter_dimension_numbers = #stablehlo.scatter<
    inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>, %r: tensor<f32>, %s: tensor<f32>):
    stablehlo.return %p, %q : tensor<f32>, tensor<f32>
  }) : (tensor<2xf32>, tensor<2xf32>, tensor<1xi32>, tensor<1xf32>, tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>)
  return
}

// -----

// no inputs
// expected-error {{The reduction-region expected to return some value(s)}}
func.func @main(%i: tensor<1xi32>) {
  "stablehlo.scatter"(%i) <{scatter_dimension_numbers = #stablehlo.scatter<>}> ({
    stablehlo.return
  }) : (tensor<1xi32>) -> ()
  return
}
