// Shapes that are not known: sizes that may be equal are taken to be.
func.func @main(%a: tensor<?x3xf32>, %b: tensor<2x3xf32>, %x: tensor<?x3x4x4xf32>, %w: tensor<2x3x3x3xf32>, %s: tensor<f32>) {
  %0 = stablehlo.add %a, %a : tensor<?x3xf32>
  %1 = stablehlo.add %a, %b : (tensor<?x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %2 = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<?x3x4x4xf32>, tensor<2x3x3x3xf32>) -> tensor<?x2x2x2xf32>
  %3 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [1] : (tensor<?x3xf32>, tensor<2x3xf32>) -> tensor<?x2xf32>
  %4 = stablehlo.transpose %a, dims = [1, 0] : (tensor<?x3xf32>) -> tensor<3x?xf32>
  %5 = stablehlo.concatenate %a, %b, dim = 0 : (tensor<?x3xf32>, tensor<2x3xf32>) -> tensor<?x3xf32>
  %6 = stablehlo.pad %a, %s, low = [0, 1], high = [0, 1], interior = [0, 0] : (tensor<?x3xf32>, tensor<f32>) -> tensor<?x5xf32>
  %7 = stablehlo.slice %a [0:1, 0:2] : (tensor<?x3xf32>) -> tensor<1x2xf32>
  %8 = stablehlo.reduce(%a init: %s) applies stablehlo.add across dimensions = [1] : (tensor<?x3xf32>, tensor<f32>) -> tensor<?xf32>
  %9 = "stablehlo.reduce_window"(%a, %s) <{window_dimensions = array<i64: 1, 3>}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    stablehlo.return %p : tensor<f32>
  }) : (tensor<?x3xf32>, tensor<f32>) -> tensor<?x1xf32>
  %10 = stablehlo.clamp %s, %a, %s : (tensor<f32>, tensor<?x3xf32>, tensor<f32>) -> tensor<?x3xf32>
  %11 = stablehlo.broadcast_in_dim %s, dims = [] : (tensor<f32>) -> tensor<2x3xf32>
  return
}
