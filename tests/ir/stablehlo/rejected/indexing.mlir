// gather float indices
// expected-error {{operand #1 must be ranked tensor of 2/4/8/16/32/64-bit integer values, but got 'tensor<2x3x2xf32>'}}
func.func @main(%o: tensor<3x4x2xf32>, %i: tensor<2x3x2xf32>) {
  %0 = "stablehlo.gather"(%o, %i) {dimension_numbers = #stablehlo.gather<offset_dims = [2, 3], collapsed_slice_dims = [0], start_index_map = [1, 0], index_vector_dim = 2>, slice_sizes = array<i64: 1, 2, 2>}
    : (tensor<3x4x2xf32>, tensor<2x3x2xf32>) -> tensor<2x3x2x2xf32>
  return
}

// -----

// gather i1 indices
// expected-error {{operand #1 must be ranked tensor of 2/4/8/16/32/64-bit integer values, but got 'tensor<2x3x2xi1>'}}
func.func @main(%o: tensor<3x4x2xf32>, %i: tensor<2x3x2xi1>) {
  %0 = "stablehlo.gather"(%o, %i) {dimension_numbers = #stablehlo.gather<offset_dims = [2, 3], collapsed_slice_dims = [0], start_index_map = [1, 0], index_vector_dim = 2>, slice_sizes = array<i64: 1, 2, 2>}
    : (tensor<3x4x2xf32>, tensor<2x3x2xi1>) -> tensor<2x3x2x2xf32>
  return
}

// -----

// gather per axis
// expected-error {{operand #0 must be ranked tensor of 4/6/8/16/32/64-bit float or bool or 2/4/8/16/32/64-bit integer or complex type with 32/64-bit float elements or per-tensor integer quantized values, but got 'tensor<2x4x2x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01}>>'}}
func.func @main(%o: tensor<2x4x2x!quant.uniform<i8:f32:0, {0.5,0.25}>>, %i: tensor<2x3x2xi32>) {
  %0 = "stablehlo.gather"(%o, %i) {dimension_numbers = #stablehlo.gather<offset_dims = [2, 3], collapsed_slice_dims = [0], start_index_map = [1, 0], index_vector_dim = 2>, slice_sizes = array<i64: 1, 2, 2>}
    : (tensor<2x4x2x!quant.uniform<i8:f32:0, {0.5,0.25}>>, tensor<2x3x2xi32>) -> tensor<2x3x2x2x!quant.uniform<i8:f32:0, {0.5,0.25}>>
  return
}

// -----

// gather other scale
// expected-error {{failed to verify that all of {operand, result} have same element type}}
func.func @main(%o: tensor<3x4x2x!quant.uniform<i8:f32, 0.5>>, %i: tensor<2x3x2xi32>) {
  %0 = "stablehlo.gather"(%o, %i) {dimension_numbers = #stablehlo.gather<offset_dims = [2, 3], collapsed_slice_dims = [0], start_index_map = [1, 0], index_vector_dim = 2>, slice_sizes = array<i64: 1, 2, 2>}
    : (tensor<3x4x2x!quant.uniform<i8:f32, 0.5>>, tensor<2x3x2xi32>) -> tensor<2x3x2x2x!quant.uniform<i8:f32, 0.25>>
  return
}

// -----

// gather other element
// expected-error {{failed to verify that all of {operand, result} have same element type}}
func.func @main(%o: tensor<3x4x2xf32>, %i: tensor<2x3x2xi32>) {
  %0 = "stablehlo.gather"(%o, %i) {dimension_numbers = #stablehlo.gather<offset_dims = [2, 3], collapsed_slice_dims = [0], start_index_map = [1, 0], index_vector_dim = 2>, slice_sizes = array<i64: 1, 2, 2>}
    : (tensor<3x4x2xf32>, tensor<2x3x2xi32>) -> tensor<2x3x2x2xi32>
  return
}

// -----

// gather result shape
// expected-error {{inferred type(s) 'tensor<2x3x2x2xf32>' are incompatible with return type(s) of operation 'tensor<2x3x2x1xf32>'}}
func.func @main(%o: tensor<3x4x2xf32>, %i: tensor<2x3x2xi32>) {
  %0 = "stablehlo.gather"(%o, %i) {dimension_numbers = #stablehlo.gather<offset_dims = [2, 3], collapsed_slice_dims = [0], start_index_map = [1, 0], index_vector_dim = 2>, slice_sizes = array<i64: 1, 2, 2>}
    : (tensor<3x4x2xf32>, tensor<2x3x2xi32>) -> tensor<2x3x2x1xf32>
  return
}

// -----

// gather rank
// expected-error {{offset_dims size (2) plus collapse_slice_dims size (1) plus operand_batching_dims size (0) is not equal to operand rank (4)}}
func.func @main(%o: tensor<3x4x2x1xf32>, %i: tensor<2x3x2xi32>) {
  %0 = "stablehlo.gather"(%o, %i) {dimension_numbers = #stablehlo.gather<offset_dims = [2, 3], collapsed_slice_dims = [0], start_index_map = [1, 0], index_vector_dim = 2>, slice_sizes = array<i64: 1, 2, 2>}
    : (tensor<3x4x2x1xf32>, tensor<2x3x2xi32>) -> tensor<2x3x2x2xf32>
  return
}

// -----

// gather vector dim too great
// expected-error {{Expects index_vector_dim to be in range [0, rank-of('start_indices')] i.e. [0, 3]. got: 4.}}
func.func @main(%o: tensor<3x4x2xf32>, %i: tensor<2x3x2xi32>) {
  %0 = "stablehlo.gather"(%o, %i) {dimension_numbers = #stablehlo.gather<offset_dims = [2, 3], collapsed_slice_dims = [0], start_index_map = [1, 0], index_vector_dim = 4>, slice_sizes = array<i64: 1, 2, 2>}
    : (tensor<3x4x2xf32>, tensor<2x3x2xi32>) -> tensor<2x3x2x2xf32>
  return
}

// -----

// gather vector dim negative
// expected-error {{Expects index_vector_dim to be in range [0, rank-of('start_indices')] i.e. [0, 3]. got: -1.}}
func.func @main(%o: tensor<3x4x2xf32>, %i: tensor<2x3x2xi32>) {
  %0 = "stablehlo.gather"(%o, %i) {dimension_numbers = #stablehlo.gather<offset_dims = [2, 3], collapsed_slice_dims = [0], start_index_map = [1, 0], index_vector_dim = -1>, slice_sizes = array<i64: 1, 2, 2>}
    : (tensor<3x4x2xf32>, tensor<2x3x2xi32>) -> tensor<2x3x2x2xf32>
  return
}

// -----

// gather map size
// expected-error {{start_index_map size (1) is not equal to size of index dimension (2) of start_indices (2)}}
func.func @main(%o: tensor<3x4x2xf32>, %i: tensor<2x3x2xi32>) {
  %0 = "stablehlo.gather"(%o, %i) {dimension_numbers = #stablehlo.gather<offset_dims = [2, 3], collapsed_slice_dims = [0], start_index_map = [1], index_vector_dim = 2>, slice_sizes = array<i64: 1, 2, 2>}
    : (tensor<3x4x2xf32>, tensor<2x3x2xi32>) -> tensor<2x3x2x2xf32>
  return
}

// -----

// gather map size of scalars
// expected-error {{start_index_map size (2) is not equal to size of index dimension (3) of start_indices (1)}}
func.func @main(%o: tensor<3x4x2xf32>, %i: tensor<2x3x2xi32>) {
  %0 = "stablehlo.gather"(%o, %i) {dimension_numbers = #stablehlo.gather<offset_dims = [2, 3], collapsed_slice_dims = [0], start_index_map = [1, 0], index_vector_dim = 3>, slice_sizes = array<i64: 1, 2, 2>}
    : (tensor<3x4x2xf32>, tensor<2x3x2xi32>) -> tensor<2x3x2x2xf32>
  return
}

// -----

// gather map dup
// expected-error {{has duplicated dimension from start_index_map and operand_batching_dims: 1}}
func.func @main(%o: tensor<3x4x2xf32>, %i: tensor<2x3x2xi32>) {
  %0 = "stablehlo.gather"(%o, %i) {dimension_numbers = #stablehlo.gather<offset_dims = [2, 3], collapsed_slice_dims = [0], start_index_map = [1, 1], index_vector_dim = 2>, slice_sizes = array<i64: 1, 2, 2>}
    : (tensor<3x4x2xf32>, tensor<2x3x2xi32>) -> tensor<2x3x2x2xf32>
  return
}

// -----

// gather map bounds
// expected-error {{Expects each element of start_index_map to be in range [0, rank-of('operand')) i.e. [0, 3). got: 5.}}
func.func @main(%o: tensor<3x4x2xf32>, %i: tensor<2x3x2xi32>) {
  %0 = "stablehlo.gather"(%o, %i) {dimension_numbers = #stablehlo.gather<offset_dims = [2, 3], collapsed_slice_dims = [0], start_index_map = [1, 5], index_vector_dim = 2>, slice_sizes = array<i64: 1, 2, 2>}
    : (tensor<3x4x2xf32>, tensor<2x3x2xi32>) -> tensor<2x3x2x2xf32>
  return
}

// -----

// gather offset sorted
// expected-error {{expects offset_dims to be sorted, got: [3, 2]}}
func.func @main(%o: tensor<3x4x2xf32>, %i: tensor<2x3x2xi32>) {
  %0 = "stablehlo.gather"(%o, %i) {dimension_numbers = #stablehlo.gather<offset_dims = [3, 2], collapsed_slice_dims = [0], start_index_map = [1, 0], index_vector_dim = 2>, slice_sizes = array<i64: 1, 2, 2>}
    : (tensor<3x4x2xf32>, tensor<2x3x2xi32>) -> tensor<2x3x2x2xf32>
  return
}

// -----

// gather offset dup
// expected-error {{expects offset_dims to not repeat, got: [2, 2]}}
func.func @main(%o: tensor<3x4x2xf32>, %i: tensor<2x3x2xi32>) {
  %0 = "stablehlo.gather"(%o, %i) {dimension_numbers = #stablehlo.gather<offset_dims = [2, 2], collapsed_slice_dims = [0], start_index_map = [1, 0], index_vector_dim = 2>, slice_sizes = array<i64: 1, 2, 2>}
    : (tensor<3x4x2xf32>, tensor<2x3x2xi32>) -> tensor<2x3x2x2xf32>
  return
}

// -----

// gather offset bounds
// expected-error {{Expects each element of offset_dims to be in range [0, implied-result-rank) i.e. [0, 4). got: 7.}}
func.func @main(%o: tensor<3x4x2xf32>, %i: tensor<2x3x2xi32>) {
  %0 = "stablehlo.gather"(%o, %i) {dimension_numbers = #stablehlo.gather<offset_dims = [2, 7], collapsed_slice_dims = [0], start_index_map = [1, 0], index_vector_dim = 2>, slice_sizes = array<i64: 1, 2, 2>}
    : (tensor<3x4x2xf32>, tensor<2x3x2xi32>) -> tensor<2x3x2x2xf32>
  return
}

// -----

// gather collapsed sorted
// expected-error {{expects collapsed_slice_dims to be sorted, got: [1, 0]}}
func.func @main(%o: tensor<3x4x2xf32>, %i: tensor<2x3x2xi32>) {
  %0 = "stablehlo.gather"(%o, %i) {dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [1, 0], start_index_map = [1, 0], index_vector_dim = 2>, slice_sizes = array<i64: 1, 2, 2>}
    : (tensor<3x4x2xf32>, tensor<2x3x2xi32>) -> tensor<2x3x2x2xf32>
  return
}

// -----

// gather collapsed dup
// expected-error {{has duplicated dimension from collapsed_slice_dims and operand_batching_dims: 0}}
func.func @main(%o: tensor<3x4x2xf32>, %i: tensor<2x3x2xi32>) {
  %0 = "stablehlo.gather"(%o, %i) {dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0, 0], start_index_map = [1, 0], index_vector_dim = 2>, slice_sizes = array<i64: 1, 2, 2>}
    : (tensor<3x4x2xf32>, tensor<2x3x2xi32>) -> tensor<2x3x2x2xf32>
  return
}

// -----

// gather collapsed bounds
// expected-error {{Expects each element of collapsed_slice_dims to be in range [0, rank-of('operand')) i.e. [0, 3). got: 9.}}
func.func @main(%o: tensor<3x4x2xf32>, %i: tensor<2x3x2xi32>) {
  %0 = "stablehlo.gather"(%o, %i) {dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0, 9], start_index_map = [1, 0], index_vector_dim = 2>, slice_sizes = array<i64: 1, 2, 2>}
    : (tensor<3x4x2xf32>, tensor<2x3x2xi32>) -> tensor<2x3x2x2xf32>
  return
}

// -----

// gather slice sizes count
// expected-error {{slice_sizes size (2) not equal to operand rank (3)}}
func.func @main(%o: tensor<3x4x2xf32>, %i: tensor<2x3x2xi32>) {
  %0 = "stablehlo.gather"(%o, %i) {dimension_numbers = #stablehlo.gather<offset_dims = [2, 3], collapsed_slice_dims = [0], start_index_map = [1, 0], index_vector_dim = 2>, slice_sizes = array<i64: 1, 2>}
    : (tensor<3x4x2xf32>, tensor<2x3x2xi32>) -> tensor<2x3x2x2xf32>
  return
}

// -----

// gather collapsed slice size
// expected-error {{Expects that for each dim in collapsed_slice_dims, slice_sizes[dim] should be <= 1, but got 2}}
func.func @main(%o: tensor<3x4x2xf32>, %i: tensor<2x3x2xi32>) {
  %0 = "stablehlo.gather"(%o, %i) {dimension_numbers = #stablehlo.gather<offset_dims = [2, 3], collapsed_slice_dims = [0], start_index_map = [1, 0], index_vector_dim = 2>, slice_sizes = array<i64: 2, 2, 2>}
    : (tensor<3x4x2xf32>, tensor<2x3x2xi32>) -> tensor<2x3x2x2xf32>
  return
}

// -----

// gather slice too great
// expected-error {{slice size (5) is out of bounds for operand dimension (4) at index 1}}
func.func @main(%o: tensor<3x4x2xf32>, %i: tensor<2x3x2xi32>) {
  %0 = "stablehlo.gather"(%o, %i) {dimension_numbers = #stablehlo.gather<offset_dims = [2, 3], collapsed_slice_dims = [0], start_index_map = [1, 0], index_vector_dim = 2>, slice_sizes = array<i64: 1, 5, 2>}
    : (tensor<3x4x2xf32>, tensor<2x3x2xi32>) -> tensor<2x3x2x2xf32>
  return
}

// -----

// gather slice negative
// expected-error {{slice size (-5) is out of bounds for operand dimension (4) at index 1}}
func.func @main(%o: tensor<3x4x2xf32>, %i: tensor<2x3x2xi32>) {
  %0 = "stablehlo.gather"(%o, %i) {dimension_numbers = #stablehlo.gather<offset_dims = [2, 3], collapsed_slice_dims = [0], start_index_map = [1, 0], index_vector_dim = 2>, slice_sizes = array<i64: 1, -5, 2>}
    : (tensor<3x4x2xf32>, tensor<2x3x2xi32>) -> tensor<2x3x2x2xf32>
  return
}

// -----

// gather batching sizes
// expected-error {{operand_batching_dims[0] and start_indices_batching_dims[0] must have compatible sizes, but got 3 and 2}}
func.func @main(%o: tensor<3x4x2xf32>, %i: tensor<2x3x2xi32>) {
  %0 = "stablehlo.gather"(%o, %i) {dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [2, 1], index_vector_dim = 2>, slice_sizes = array<i64: 1, 1, 2>}
    : (tensor<3x4x2xf32>, tensor<2x3x2xi32>) -> tensor<2x3x2xf32>
  return
}

// -----

// gather batching slice size
// expected-error {{Expects that for each dim in operand_batching_dims, slice_sizes[dim] should be <= 1, but got 2}}
func.func @main(%o: tensor<2x4x2xf32>, %i: tensor<2x3x2xi32>) {
  %0 = "stablehlo.gather"(%o, %i) {dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [2, 1], index_vector_dim = 2>, slice_sizes = array<i64: 2, 1, 2>}
    : (tensor<2x4x2xf32>, tensor<2x3x2xi32>) -> tensor<2x3x2xf32>
  return
}

// -----

// gather batching collapsed
// expected-error {{has duplicated dimension from collapsed_slice_dims and operand_batching_dims: 1}}
func.func @main(%o: tensor<2x4x2xf32>, %i: tensor<2x3x2xi32>) {
  %0 = "stablehlo.gather"(%o, %i) {dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [1], operand_batching_dims = [1], start_indices_batching_dims = [0], start_index_map = [2, 1], index_vector_dim = 2>, slice_sizes = array<i64: 1, 1, 2>}
    : (tensor<2x4x2xf32>, tensor<2x3x2xi32>) -> tensor<2x3x2xf32>
  return
}

// -----

// gather batching vector dim
// expected-error {{expects start_indices_batching_dims not to include index_vector_dim 2}}
func.func @main(%o: tensor<2x4x2xf32>, %i: tensor<2x3x2xi32>) {
  %0 = "stablehlo.gather"(%o, %i) {dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [2], start_index_map = [2, 1], index_vector_dim = 2>, slice_sizes = array<i64: 1, 1, 2>}
    : (tensor<2x4x2xf32>, tensor<2x3x2xi32>) -> tensor<2x3x2xf32>
  return
}

// -----

// gather batching index bounds
// expected-error {{Expects each element of start_indices_batching_dims to be in range [0, rank-of('start_indices')) i.e. [0, 3). got: 7.}}
func.func @main(%o: tensor<2x4x2xf32>, %i: tensor<2x3x2xi32>) {
  %0 = "stablehlo.gather"(%o, %i) {dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [7], start_index_map = [2, 1], index_vector_dim = 2>, slice_sizes = array<i64: 1, 1, 2>}
    : (tensor<2x4x2xf32>, tensor<2x3x2xi32>) -> tensor<2x3x2xf32>
  return
}

// -----

// gather batching index dup
// expected-error {{expects start_indices_batching_dims to not repeat, got: [0, 0]}}
func.func @main(%o: tensor<2x4x2xf32>, %i: tensor<2x3x2xi32>) {
  %0 = "stablehlo.gather"(%o, %i) {dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0, 0], start_index_map = [2, 1], index_vector_dim = 2>, slice_sizes = array<i64: 1, 1, 2>}
    : (tensor<2x4x2xf32>, tensor<2x3x2xi32>) -> tensor<2x3x2xf32>
  return
}

// -----

// gather batching counts
// expected-error {{operand_batching_dims and start_indices_batching_dims should have the same size}}
func.func @main(%o: tensor<2x4x2xf32>, %i: tensor<2x3x2xi32>) {
  %0 = "stablehlo.gather"(%o, %i) {dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0, 1], start_index_map = [2, 1], index_vector_dim = 2>, slice_sizes = array<i64: 1, 1, 2>}
    : (tensor<2x4x2xf32>, tensor<2x3x2xi32>) -> tensor<2x3x2xf32>
  return
}

// -----

// gather batching bounds
// expected-error {{Expects each element of operand_batching_dims to be in range [0, rank-of('operand')) i.e. [0, 3). got: 9.}}
func.func @main(%o: tensor<2x4x2xf32>, %i: tensor<2x3x2xi32>) {
  %0 = "stablehlo.gather"(%o, %i) {dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [1], operand_batching_dims = [9], start_indices_batching_dims = [0], start_index_map = [2, 1], index_vector_dim = 2>, slice_sizes = array<i64: 1, 1, 2>}
    : (tensor<2x4x2xf32>, tensor<2x3x2xi32>) -> tensor<2x3x2xf32>
  return
}

// -----

// gather batching sorted
// expected-error {{expects operand_batching_dims to be sorted, got: [2, 0]}}
func.func @main(%o: tensor<2x4x2xf32>, %i: tensor<2x3x2xi32>) {
  %0 = "stablehlo.gather"(%o, %i) {dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [1], operand_batching_dims = [2, 0], start_indices_batching_dims = [0], start_index_map = [2, 1], index_vector_dim = 2>, slice_sizes = array<i64: 1, 1, 2>}
    : (tensor<2x4x2xf32>, tensor<2x3x2xi32>) -> tensor<2x3x2xf32>
  return
}

// -----

// gather batching mapped
// expected-error {{has duplicated dimension from start_index_map and operand_batching_dims: 0}}
func.func @main(%o: tensor<2x4x2xf32>, %i: tensor<2x3x2xi32>) {
  %0 = "stablehlo.gather"(%o, %i) {dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [0, 1], index_vector_dim = 2>, slice_sizes = array<i64: 1, 1, 2>}
    : (tensor<2x4x2xf32>, tensor<2x3x2xi32>) -> tensor<2x3x2xf32>
  return
}

// -----

// gather entry twice
// expected-error {{duplicated `offset_dims` entry}}
func.func @main(%o: tensor<2x4x2xf32>, %i: tensor<2x3x2xi32>) {
  %0 = "stablehlo.gather"(%o, %i) {dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [2, 1], index_vector_dim = 2, offset_dims = [1]>, slice_sizes = array<i64: 1, 1, 2>}
    : (tensor<2x4x2xf32>, tensor<2x3x2xi32>) -> tensor<2x3x2xf32>
  return
}

// -----

// gather unknown entry
// expected-error {{expected one of: `offset_dims`, `collapsed_slice_dims`, `operand_batching_dims`, `start_indices_batching_dims`, `start_index_map`, `index_vector_dim`}}
func.func @main(%o: tensor<2x4x2xf32>, %i: tensor<2x3x2xi32>) {
  %0 = "stablehlo.gather"(%o, %i) {dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [2, 1], index_vector_dim = 2, foo = [1]>, slice_sizes = array<i64: 1, 1, 2>}
    : (tensor<2x4x2xf32>, tensor<2x3x2xi32>) -> tensor<2x3x2xf32>
  return
}

// -----

// dynamic_slice per axis
// expected-error {{operand #0 must be ranked tensor of 4/6/8/16/32/64-bit float or bool or 2/4/8/16/32/64-bit integer or complex type with 32/64-bit float elements or per-tensor integer quantized values, but got 'tensor<2x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01}>>'}}
func.func @main(%o: tensor<2x!quant.uniform<i8:f32:0, {0.5,0.25}>>, %s: tensor<i32>) {
  %0 = stablehlo.dynamic_slice %o, %s, sizes = [1] : (tensor<2x!quant.uniform<i8:f32:0, {0.5,0.25}>>, tensor<i32>) -> tensor<1x!quant.uniform<i8:f32:0, {0.5,0.25}>>
  return
}

// -----

// dynamic_slice other scale
// expected-error {{failed to verify that all of {operand, result} have same element type}}
func.func @main(%o: tensor<2x!quant.uniform<i8:f32, 0.5>>, %s: tensor<i32>) {
  %0 = stablehlo.dynamic_slice %o, %s, sizes = [1] : (tensor<2x!quant.uniform<i8:f32, 0.5>>, tensor<i32>) -> tensor<1x!quant.uniform<i8:f32, 0.25>>
  return
}

// -----

// dynamic_slice float start
// expected-error {{operand #1 must be variadic of 0D tensor of 2/4/8/16/32/64-bit integer values, but got 'tensor<f32>'}}
func.func @main(%o: tensor<2xf32>, %s: tensor<f32>) {
  %0 = stablehlo.dynamic_slice %o, %s, sizes = [1] : (tensor<2xf32>, tensor<f32>) -> tensor<1xf32>
  return
}

// -----

// dynamic_slice start of rank 1
// expected-error {{operand #1 must be variadic of 0D tensor of 2/4/8/16/32/64-bit integer values, but got 'tensor<1xi32>'}}
func.func @main(%o: tensor<2xf32>, %s: tensor<1xi32>) {
  %0 = stablehlo.dynamic_slice %o, %s, sizes = [1] : (tensor<2xf32>, tensor<1xi32>) -> tensor<1xf32>
  return
}

// -----

// dynamic_slice sizes count
// expected-error {{has mismatched number of slice sizes (2) and number of start indices (1)}}
func.func @main(%o: tensor<2xf32>, %s: tensor<i32>) {
  %0 = stablehlo.dynamic_slice %o, %s, sizes = [1, 1] : (tensor<2xf32>, tensor<i32>) -> tensor<1xf32>
  return
}

// -----

// dynamic_slice rank
// expected-error {{has mismatched number of start indices (2) and the rank of operand (1)}}
func.func @main(%o: tensor<2xf32>, %s: tensor<i32>) {
  %0 = stablehlo.dynamic_slice %o, %s, %s, sizes = [1, 1] : (tensor<2xf32>, tensor<i32>, tensor<i32>) -> tensor<1xf32>
  return
}

// -----

// dynamic_slice negative
// expected-error {{has negative size index to dynamic slice: -1}}
func.func @main(%o: tensor<2xf32>, %s: tensor<i32>) {
  %0 = stablehlo.dynamic_slice %o, %s, sizes = [-1] : (tensor<2xf32>, tensor<i32>) -> tensor<1xf32>
  return
}

// -----

// dynamic_slice too great
// expected-error {{has slice size 3 greater than dimension size 2 in dimension 0 of operand}}
func.func @main(%o: tensor<2xf32>, %s: tensor<i32>) {
  %0 = stablehlo.dynamic_slice %o, %s, sizes = [3] : (tensor<2xf32>, tensor<i32>) -> tensor<3xf32>
  return
}

// -----

// dynamic_slice result
// expected-error {{inferred type(s) 'tensor<2xf32>' are incompatible with return type(s) of operation 'tensor<1xf32>'}}
func.func @main(%o: tensor<2xf32>, %s: tensor<i32>) {
  %0 = stablehlo.dynamic_slice %o, %s, sizes = [2] : (tensor<2xf32>, tensor<i32>) -> tensor<1xf32>
  return
}

// -----

// dynamic_slice other element
// expected-error {{failed to verify that all of {operand, result} have same element type}}
func.func @main(%o: tensor<2xf32>, %s: tensor<i32>) {
  %0 = stablehlo.dynamic_slice %o, %s, sizes = [1] : (tensor<2xf32>, tensor<i32>) -> tensor<1xf64>
  return
}

// -----

// dynamic_slice mixed starts
// expected-error {{start indices must have same element type}}
func.func @main(%o: tensor<2x2xf32>, %s: tensor<i32>, %t: tensor<i64>) {
  %0 = stablehlo.dynamic_slice %o, %s, %t, sizes = [2, 2] : (tensor<2x2xf32>, tensor<i32>, tensor<i64>) -> tensor<2x2xf32>
  return
}

// -----

// dynamic_update_slice float start
// expected-error {{operand #2 must be variadic of 0D tensor of 2/4/8/16/32/64-bit integer values, but got 'tensor<f32>'}}
func.func @main(%o: tensor<2xf32>, %u: tensor<2xf32>, %s: tensor<f32>) {
  %0 = stablehlo.dynamic_update_slice %o, %u, %s : (tensor<2xf32>, tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  return
}

// -----

// dynamic_update_slice start of rank 1
// expected-error {{operand #2 must be variadic of 0D tensor of 2/4/8/16/32/64-bit integer values, but got 'tensor<1xi32>'}}
func.func @main(%o: tensor<2xf32>, %u: tensor<2xf32>, %s: tensor<1xi32>) {
  %0 = stablehlo.dynamic_update_slice %o, %u, %s : (tensor<2xf32>, tensor<2xf32>, tensor<1xi32>) -> tensor<2xf32>
  return
}

// -----

// dynamic_update_slice rank
// expected-error {{update rank does not match operand rank: 2 vs 1.}}
func.func @main(%o: tensor<2xf32>, %u: tensor<2x1xf32>, %s: tensor<i32>) {
  %0 = stablehlo.dynamic_update_slice %o, %u, %s : (tensor<2xf32>, tensor<2x1xf32>, tensor<i32>) -> tensor<2xf32>
  return
}

// -----

// dynamic_update_slice start count
// expected-error {{expects number of start_indices to match operand rank: 2 vs 1.}}
func.func @main(%o: tensor<2xf32>, %u: tensor<2xf32>, %s: tensor<i32>) {
  %0 = stablehlo.dynamic_update_slice %o, %u, %s, %s : (tensor<2xf32>, tensor<2xf32>, tensor<i32>, tensor<i32>) -> tensor<2xf32>
  return
}

// -----

// dynamic_update_slice too great
// expected-error {{expects size at dimension 0 of update to be in range [0, 2]. Got: 3.}}
func.func @main(%o: tensor<2xf32>, %u: tensor<3xf32>, %s: tensor<i32>) {
  %0 = stablehlo.dynamic_update_slice %o, %u, %s : (tensor<2xf32>, tensor<3xf32>, tensor<i32>) -> tensor<2xf32>
  return
}

// -----

// dynamic_update_slice update element
// expected-error {{failed to verify that all of {operand, update, result} have same element type}}
func.func @main(%o: tensor<2xf32>, %u: tensor<1xf64>, %s: tensor<i32>) {
  %0 = stablehlo.dynamic_update_slice %o, %u, %s : (tensor<2xf32>, tensor<1xf64>, tensor<i32>) -> tensor<2xf32>
  return
}

// -----

// dynamic_update_slice result element
// expected-error {{failed to verify that all of {operand, update, result} have same element type}}
func.func @main(%o: tensor<2xf32>, %u: tensor<2xf32>, %s: tensor<i32>) {
  %0 = stablehlo.dynamic_update_slice %o, %u, %s : (tensor<2xf32>, tensor<2xf32>, tensor<i32>) -> tensor<2xf64>
  return
}

// -----

// dynamic_update_slice result
// expected-error {{inferred type(s) 'tensor<2xf32>' are incompatible with return type(s) of operation 'tensor<3xf32>'}}
func.func @main(%o: tensor<2xf32>, %u: tensor<2xf32>, %s: tensor<i32>) {
  %0 = stablehlo.dynamic_update_slice %o, %u, %s : (tensor<2xf32>, tensor<2xf32>, tensor<i32>) -> tensor<3xf32>
  return
}

// -----

// dynamic_update_slice per axis
// expected-error {{operand #0 must be ranked tensor of 4/6/8/16/32/64-bit float or bool or 2/4/8/16/32/64-bit integer or complex type with 32/64-bit float elements or per-tensor integer quantized values, but got 'tensor<2x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01}>>'}}
func.func @main(%o: tensor<2x!quant.uniform<i8:f32:0, {0.5,0.25}>>, %u: tensor<2x!quant.uniform<i8:f32:0, {0.5,0.25}>>, %s: tensor<i32>) {
  %0 = stablehlo.dynamic_update_slice %o, %u, %s : (tensor<2x!quant.uniform<i8:f32:0, {0.5,0.25}>>, tensor<2x!quant.uniform<i8:f32:0, {0.5,0.25}>>, tensor<i32>) -> tensor<2x!quant.uniform<i8:f32:0, {0.5,0.25}>>
  return
}

// -----

// dynamic_update_slice other scale
// expected-error {{failed to verify that all of {operand, update, result} have same element type}}
func.func @main(%o: tensor<2x!quant.uniform<i8:f32, 0.5>>, %u: tensor<2x!quant.uniform<i8:f32, 0.5>>, %s: tensor<i32>) {
  %0 = stablehlo.dynamic_update_slice %o, %u, %s : (tensor<2x!quant.uniform<i8:f32, 0.5>>, tensor<2x!quant.uniform<i8:f32, 0.5>>, tensor<i32>) -> tensor<2x!quant.uniform<i8:f32, 0.25>>
  return
}

// -----

// dynamic_update_slice mixed starts
// expected-error {{start indices must have same element type}}
func.func @main(%o: tensor<2x2xf32>, %s: tensor<i32>, %t: tensor<i64>) {
  %0 = stablehlo.dynamic_update_slice %o, %o, %s, %t : (tensor<2x2xf32>, tensor<2x2xf32>, tensor<i32>, tensor<i64>) -> tensor<2x2xf32>
  return
}

// -----

// iota bounds
// expected-error {{iota dimension cannot go beyond the output rank.}}
func.func @main() {
  %0 = stablehlo.iota dim = 2 : tensor<2x3xi32>
  return
}

// -----

// iota negative
// expected-error {{attribute 'iota_dimension' failed to satisfy constraint: 64-bit signless integer attribute whose value is non-negative}}
func.func @main() {
  %0 = stablehlo.iota dim = -1 : tensor<2x3xi32>
  return
}

// -----

// iota scalar
// expected-error {{does not support scalars.}}
func.func @main() {
  %0 = stablehlo.iota dim = 0 : tensor<i32>
  return
}

// -----

// iota i1
// expected-error {{result #0 must be statically shaped tensor of 2/4/8/16/32/64-bit integer or 4/6/8/16/32/64-bit float or complex type with 32/64-bit float elements or per-tensor integer quantized values, but got 'tensor<2xi1>'}}
func.func @main() {
  %0 = stablehlo.iota dim = 0 : tensor<2xi1>
  return
}

// -----

// iota per axis
// expected-error {{result #0 must be statically shaped tensor of 2/4/8/16/32/64-bit integer or 4/6/8/16/32/64-bit float or complex type with 32/64-bit float elements or per-tensor integer quantized values, but got 'tensor<2x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01}>>'}}
func.func @main() {
  %0 = stablehlo.iota dim = 0 : tensor<2x!quant.uniform<i8:f32:0, {0.5,0.25}>>
  return
}

// -----

// iota dynamic
// expected-error {{result #0 must be statically shaped tensor of 2/4/8/16/32/64-bit integer or 4/6/8/16/32/64-bit float or complex type with 32/64-bit float elements or per-tensor integer quantized values, but got 'tensor<?xi32>'}}
func.func @main() {
  %0 = stablehlo.iota dim = 0 : tensor<?xi32>
  return
}
