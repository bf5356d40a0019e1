// maximum of bytes
func.func @main(%x: tensor<3x5x19xi8>, %z: tensor<3x5x19xi8>) -> tensor<3x5x19xi8> {
  %y = stablehlo.maximum %x, %z : tensor<3x5x19xi8>
  func.return %y : tensor<3x5x19xi8>
}

// -----
// minimum of unsigned bytes
func.func @main(%x: tensor<70xui8>, %z: tensor<70xui8>) -> tensor<70xui8> {
  %y = stablehlo.minimum %x, %z : tensor<70xui8>
  func.return %y : tensor<70xui8>
}

// -----
// clamp of bytes
func.func @main(%x: tensor<3x5x19xi8>) -> tensor<3x5x19xi8> {
  %l = stablehlo.constant dense<-7> : tensor<i8>
  %h = stablehlo.constant dense<90> : tensor<i8>
  %y = stablehlo.clamp %l, %x, %h : (tensor<i8>, tensor<3x5x19xi8>, tensor<i8>) -> tensor<3x5x19xi8>
  func.return %y : tensor<3x5x19xi8>
}

// -----
// sums that wrap
func.func @main(%x: tensor<3x5x19xi32>, %z: tensor<3x5x19xi32>) -> tensor<3x5x19xi32> {
  %a = stablehlo.add %x, %z : tensor<3x5x19xi32>
  %y = stablehlo.multiply %a, %a : tensor<3x5x19xi32>
  func.return %y : tensor<3x5x19xi32>
}

// -----
// widened
func.func @main(%x: tensor<3x5x19xi8>) -> tensor<3x5x19xi32> {
  %y = stablehlo.convert %x : (tensor<3x5x19xi8>) -> tensor<3x5x19xi32>
  func.return %y : tensor<3x5x19xi32>
}

// -----
// narrowed
func.func @main(%x: tensor<3x5x19xi32>) -> tensor<3x5x19xi8> {
  %y = stablehlo.convert %x : (tensor<3x5x19xi32>) -> tensor<3x5x19xi8>
  func.return %y : tensor<3x5x19xi8>
}

// -----
// comparison
func.func @main(%x: tensor<3x5x19xi8>, %z: tensor<3x5x19xi8>) -> tensor<3x5x19xi1> {
  %y = stablehlo.compare LT, %x, %z : (tensor<3x5x19xi8>, tensor<3x5x19xi8>) -> tensor<3x5x19xi1>
  func.return %y : tensor<3x5x19xi1>
}

// -----
// booleans
func.func @main(%x: tensor<40xi1>, %z: tensor<40xi1>) -> tensor<40xi1> {
  %a = stablehlo.and %x, %z : tensor<40xi1>
  %b = stablehlo.not %a : tensor<40xi1>
  %y = stablehlo.xor %b, %x : tensor<40xi1>
  func.return %y : tensor<40xi1>
}

// -----
// selection
func.func @main(%p: tensor<3x5x19xi1>, %x: tensor<3x5x19xi8>, %z: tensor<3x5x19xi8>) -> tensor<3x5x19xi8> {
  %y = stablehlo.select %p, %x, %z : tensor<3x5x19xi1>, tensor<3x5x19xi8>
  func.return %y : tensor<3x5x19xi8>
}

// -----
// absolute value, sign, negation
func.func @main(%x: tensor<3x5x19xi32>) -> tensor<3x5x19xi32> {
  %a = stablehlo.abs %x : tensor<3x5x19xi32>
  %b = stablehlo.sign %x : tensor<3x5x19xi32>
  %c = stablehlo.negate %a : tensor<3x5x19xi32>
  %y = stablehlo.subtract %b, %c : tensor<3x5x19xi32>
  func.return %y : tensor<3x5x19xi32>
}

// -----
// transpose
func.func @main(%x: tensor<3x5x19xi8>) -> tensor<19x3x5xi8> {
  %y = stablehlo.transpose %x, dims = [2, 0, 1] : (tensor<3x5x19xi8>) -> tensor<19x3x5xi8>
  func.return %y : tensor<19x3x5xi8>
}

// -----
// reverse
func.func @main(%x: tensor<3x5x19xi8>) -> tensor<3x5x19xi8> {
  %y = stablehlo.reverse %x, dims = [0, 2] : tensor<3x5x19xi8>
  func.return %y : tensor<3x5x19xi8>
}

// -----
// slice
func.func @main(%x: tensor<3x5x19xi8>) -> tensor<1x2x6xi8> {
  %y = stablehlo.slice %x [1:2, 0:4:2, 1:18:3] : (tensor<3x5x19xi8>) -> tensor<1x2x6xi8>
  func.return %y : tensor<1x2x6xi8>
}

// -----
// reshape
func.func @main(%x: tensor<3x5x19xi8>) -> tensor<19x15xi8> {
  %y = stablehlo.reshape %x : (tensor<3x5x19xi8>) -> tensor<19x15xi8>
  func.return %y : tensor<19x15xi8>
}

// -----
// reshape of a transpose
func.func @main(%x: tensor<3x5x19xi8>) -> tensor<15x19xi8> {
  %a = stablehlo.transpose %x, dims = [1, 0, 2] : (tensor<3x5x19xi8>) -> tensor<5x3x19xi8>
  %y = stablehlo.reshape %a : (tensor<5x3x19xi8>) -> tensor<15x19xi8>
  func.return %y : tensor<15x19xi8>
}

// -----
// broadcast
func.func @main(%x: tensor<5x1xi8>) -> tensor<5x7x3xi8> {
  %y = stablehlo.broadcast_in_dim %x, dims = [0, 1] : (tensor<5x1xi8>) -> tensor<5x7x3xi8>
  func.return %y : tensor<5x7x3xi8>
}

// -----
// pad
func.func @main(%x: tensor<3x5x19xi8>) -> tensor<6x4x40xi8> {
  %v = stablehlo.constant dense<-3> : tensor<i8>
  %y = stablehlo.pad %x, %v, low = [1, -1, 2], high = [2, 0, 1], interior = [0, 0, 1] : (tensor<3x5x19xi8>, tensor<i8>) -> tensor<6x4x40xi8>
  func.return %y : tensor<6x4x40xi8>
}

// -----
// concatenation
func.func @main(%x: tensor<3x5x19xi8>, %z: tensor<3x2x19xi8>) -> tensor<3x12x19xi8> {
  %y = stablehlo.concatenate %x, %z, %x, dim = 1 : (tensor<3x5x19xi8>, tensor<3x2x19xi8>, tensor<3x5x19xi8>) -> tensor<3x12x19xi8>
  func.return %y : tensor<3x12x19xi8>
}

// -----
// iota
func.func @main(%x: tensor<3x5x19xi32>) -> tensor<3x5x19xi32> {
  %a = stablehlo.iota dim = 1 : tensor<3x5x19xi32>
  %y = stablehlo.add %x, %a : tensor<3x5x19xi32>
  func.return %y : tensor<3x5x19xi32>
}

// -----
// sum over the last dimension
func.func @main(%x: tensor<3x5x19xi32>) -> tensor<3x5xi32> {
  %i = stablehlo.constant dense<7> : tensor<i32>
  %y = stablehlo.reduce(%x init: %i) applies stablehlo.add across dimensions = [2] : (tensor<3x5x19xi32>, tensor<i32>) -> tensor<3x5xi32>
  func.return %y : tensor<3x5xi32>
}

// -----
// maximum over the first dimensions
func.func @main(%x: tensor<3x5x19xi8>) -> tensor<19xi8> {
  %i = stablehlo.constant dense<-128> : tensor<i8>
  %y = stablehlo.reduce(%x init: %i) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<3x5x19xi8>, tensor<i8>) -> tensor<19xi8>
  func.return %y : tensor<19xi8>
}

// -----
// sum beginning with an argument
func.func @main(%x: tensor<3x5x19xi32>, %i: tensor<i32>) -> tensor<3x19xi32> {
  %y = stablehlo.reduce(%x init: %i) applies stablehlo.add across dimensions = [1] : (tensor<3x5x19xi32>, tensor<i32>) -> tensor<3x19xi32>
  func.return %y : tensor<3x19xi32>
}

// -----
// any of no dimension
func.func @main(%x: tensor<4x0xi1>) -> tensor<4xi1> {
  %i = stablehlo.constant dense<false> : tensor<i1>
  %y = stablehlo.reduce(%x init: %i) applies stablehlo.or across dimensions = [1] : (tensor<4x0xi1>, tensor<i1>) -> tensor<4xi1>
  func.return %y : tensor<4xi1>
}

// -----
// product of two batches
func.func @main(%a: tensor<2x5x33xi8>, %b: tensor<2x7x33xi8>) -> tensor<2x5x7xi32> {
  %y = stablehlo.dot_general %a, %b, batching_dims = [0] x [0], contracting_dims = [2] x [2] : (tensor<2x5x33xi8>, tensor<2x7x33xi8>) -> tensor<2x5x7xi32>
  func.return %y : tensor<2x5x7xi32>
}

// -----
// convolution of one dimension, dilated input
func.func @main(%a: tensor<2x4x9xi8>, %b: tensor<6x2x3xi8>) -> tensor<2x6x19xi32> {
  %y = stablehlo.convolution(%a, %b) dim_numbers = [b, f, 0]x[o, i, 0]->[b, f, 0], window = {stride = [1], pad = [[2, 2]], lhs_dilate = [2], rhs_dilate = [1]} {batch_group_count = 1 : i64, feature_group_count = 2 : i64} : (tensor<2x4x9xi8>, tensor<6x2x3xi8>) -> tensor<2x6x19xi32>
  func.return %y : tensor<2x6x19xi32>
}

// -----
// an input that is returned
func.func @main(%y: tensor<3x5x19xi8>) -> tensor<3x5x19xi8> {

  func.return %y : tensor<3x5x19xi8>
}

// -----
// window of maxima
func.func @main(%x: tensor<2x7x6x37xi8>) -> tensor<2x4x5x37xi8> {
  %i = stablehlo.constant dense<-128> : tensor<i8>
  %y = "stablehlo.reduce_window"(%x, %i) ({
  ^bb0(%l: tensor<i8>, %r: tensor<i8>):
    %s = stablehlo.maximum %l, %r : tensor<i8>
    stablehlo.return %s : tensor<i8>
  }) {window_dimensions = array<i64: 1, 3, 2, 1>, window_strides = array<i64: 1, 2, 1, 1>,
       window_dilations = array<i64: 1, 1, 2, 1>, padding = dense<[[0, 0], [1, 1], [0, 1], [0, 0]]> : tensor<4x2xi64>}
  : (tensor<2x7x6x37xi8>, tensor<i8>) -> tensor<2x4x5x37xi8>
  func.return %y : tensor<2x4x5x37xi8>
}

// -----
// window of sums
func.func @main(%x: tensor<2x7x6x37xi32>) -> tensor<2x4x5x37xi32> {
  %i = stablehlo.constant dense<0> : tensor<i32>
  %y = "stablehlo.reduce_window"(%x, %i) ({
  ^bb0(%l: tensor<i32>, %r: tensor<i32>):
    %s = stablehlo.add %l, %r : tensor<i32>
    stablehlo.return %s : tensor<i32>
  }) {window_dimensions = array<i64: 1, 3, 2, 1>, window_strides = array<i64: 1, 2, 1, 1>,
       window_dilations = array<i64: 1, 1, 2, 1>, padding = dense<[[0, 0], [1, 1], [0, 1], [0, 0]]> : tensor<4x2xi64>}
  : (tensor<2x7x6x37xi32>, tensor<i32>) -> tensor<2x4x5x37xi32>
  func.return %y : tensor<2x4x5x37xi32>
}

// -----
// gather of rows
func.func @main(%x: tensor<11x37xi8>, %i: tensor<2x5xi32>) -> tensor<2x5x37xi8> {
  %y = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0],
    start_index_map = [0], index_vector_dim = 2>, slice_sizes = array<i64: 1, 37>, indices_are_sorted = false}>
    : (tensor<11x37xi8>, tensor<2x5xi32>) -> tensor<2x5x37xi8>
  func.return %y : tensor<2x5x37xi8>
}

// -----
// gather of windows, batch by batch
func.func @main(%x: tensor<3x9x8xi32>, %i: tensor<3x4x2xi64>) -> tensor<3x4x2x3xi32> {
  %y = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [2, 3], operand_batching_dims = [0],
    start_indices_batching_dims = [0], start_index_map = [2, 1], index_vector_dim = 2>,
    slice_sizes = array<i64: 1, 2, 3>, indices_are_sorted = false}>
    : (tensor<3x9x8xi32>, tensor<3x4x2xi64>) -> tensor<3x4x2x3xi32>
  func.return %y : tensor<3x4x2x3xi32>
}

// -----
// gather along the last dimension
func.func @main(%x: tensor<4x70xi8>, %i: tensor<33x1xi64>) -> tensor<4x33xi8> {
  %c = stablehlo.constant dense<40> : tensor<33x1xi64>
  %d = stablehlo.minimum %i, %c : tensor<33x1xi64>
  %y = "stablehlo.gather"(%x, %d) <{dimension_numbers = #stablehlo.gather<offset_dims = [0], collapsed_slice_dims = [1],
    start_index_map = [1], index_vector_dim = 1>, slice_sizes = array<i64: 4, 1>, indices_are_sorted = false}>
    : (tensor<4x70xi8>, tensor<33x1xi64>) -> tensor<4x33xi8>
  func.return %y : tensor<4x33xi8>
}

// -----
// dynamic slice
func.func @main(%x: tensor<4x70xi8>, %i: tensor<i32>, %j: tensor<i32>) -> tensor<2x33xi8> {
  %y = stablehlo.dynamic_slice %x, %i, %j, sizes = [2, 33] : (tensor<4x70xi8>, tensor<i32>, tensor<i32>) -> tensor<2x33xi8>
  func.return %y : tensor<2x33xi8>
}

// -----
// nearest neighbours of an image, made twice as large
func.func @main(%x: tensor<1x5x4x3xi8>, %w: tensor<5x5x1x1xi8>) -> (tensor<1x5x8x6xi8>, tensor<1x5x4x3xi32>) {
  %n = stablehlo.negate %x : tensor<1x5x4x3xi8>
  %a = stablehlo.broadcast_in_dim %n, dims = [0, 1, 2, 4] : (tensor<1x5x4x3xi8>) -> tensor<1x5x4x2x3x2xi8>
  %y = stablehlo.reshape %a : (tensor<1x5x4x2x3x2xi8>) -> tensor<1x5x8x6xi8>
  %c = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x5x4x3xi8>, tensor<5x5x1x1xi8>) -> tensor<1x5x4x3xi32>
  func.return %y, %c : tensor<1x5x8x6xi8>, tensor<1x5x4x3xi32>
}

// -----
// windows of maxima of an image that is computed, padded twice
func.func @main(%x: tensor<1x20x7x6xi8>, %w: tensor<20x20x1x1xi8>) -> (tensor<1x20x4x3xi8>, tensor<1x20x8x7xi8>, tensor<1x20x7x6xi32>) {
  %n = stablehlo.not %x : tensor<1x20x7x6xi8>
  %i = stablehlo.constant dense<-128> : tensor<i8>
  %y = "stablehlo.reduce_window"(%n, %i) ({
    ^bb0(%l: tensor<i8>, %r: tensor<i8>):
      %s = stablehlo.maximum %l, %r : tensor<i8>
      stablehlo.return %s : tensor<i8>
  }) {window_dimensions = array<i64: 1, 1, 3, 3>, window_strides = array<i64: 1, 1, 2, 2>, padding = dense<[[0, 0], [0, 0], [1, 1], [1, 1]]> : tensor<4x2xi64>} : (tensor<1x20x7x6xi8>, tensor<i8>) -> tensor<1x20x4x3xi8>
  %z = "stablehlo.reduce_window"(%n, %i) ({
    ^bb0(%l: tensor<i8>, %r: tensor<i8>):
      %s = stablehlo.maximum %l, %r : tensor<i8>
      stablehlo.return %s : tensor<i8>
  }) {window_dimensions = array<i64: 1, 1, 2, 2>, padding = dense<[[0, 0], [0, 0], [0, 2], [2, 0]]> : tensor<4x2xi64>} : (tensor<1x20x7x6xi8>, tensor<i8>) -> tensor<1x20x8x7xi8>
  %c = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x20x7x6xi8>, tensor<20x20x1x1xi8>) -> tensor<1x20x7x6xi32>
  func.return %y, %z, %c : tensor<1x20x4x3xi8>, tensor<1x20x8x7xi8>, tensor<1x20x7x6xi32>
}

// -----
// scales of channels
func.func @main(%x: tensor<3x4x5xi8>) -> tensor<3x4x5xf32> {
  %q = quant.scast %x : tensor<3x4x5xi8> to tensor<3x4x5x!quant.uniform<i8:f32:1, {0.5:3, 0.25, 2.0:-7, 0.125}>>
  %y = stablehlo.uniform_dequantize %q : (tensor<3x4x5x!quant.uniform<i8:f32:1, {0.5:3, 0.25, 2.0:-7, 0.125}>>) -> tensor<3x4x5xf32>
  func.return %y : tensor<3x4x5xf32>
}

// -----
// sums and products of booleans are disjunctions and conjunctions
func.func @main(%x: tensor<5x9xi1>, %z: tensor<5x9xi1>) -> (tensor<5x9xi1>, tensor<5xi1>) {
  %i = stablehlo.constant dense<false> : tensor<i1>
  %a = stablehlo.add %x, %z : tensor<5x9xi1>
  %y = stablehlo.multiply %a, %x : tensor<5x9xi1>
  %r = stablehlo.reduce(%a init: %i) applies stablehlo.add across dimensions = [1] : (tensor<5x9xi1>, tensor<i1>) -> tensor<5xi1>
  func.return %y, %r : tensor<5x9xi1>, tensor<5xi1>
}
