// RUN: -p 'join-pads' --split-input-file

// Side by side, in either order; three values, with zeros between and around them.
func.func @main(%x: tensor<2x4xf32>, %y: tensor<2x3xf32>, %z: tensor<2x2xf32>) -> (tensor<2x7xf32>, tensor<2x12xf32>) {
  %0 = stablehlo.constant dense<0.0> : tensor<f32>
  %1 = stablehlo.pad %x, %0, low = [0, 0], high = [0, 3], interior = [0, 0] : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x7xf32>
  %2 = stablehlo.pad %y, %0, low = [0, 4], high = [0, 0], interior = [0, 0] : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x7xf32>
  %3 = stablehlo.add %2, %1 : tensor<2x7xf32>
  %4 = stablehlo.pad %x, %0, low = [0, 0], high = [0, 8], interior = [0, 0] : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x12xf32>
  %5 = stablehlo.pad %y, %0, low = [0, 4], high = [0, 5], interior = [0, 0] : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x12xf32>
  %6 = stablehlo.pad %z, %0, low = [0, 9], high = [0, 1], interior = [0, 0] : (tensor<2x2xf32>, tensor<f32>) -> tensor<2x12xf32>
  %7 = stablehlo.add %4, %5 : tensor<2x12xf32>
  %8 = stablehlo.add %7, %6 : tensor<2x12xf32>
  return %3, %8 : tensor<2x7xf32>, tensor<2x12xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:       %[[A:.*]] = stablehlo.concatenate %x, %y, dim = 1
// CHECK:       %[[B:.*]] = stablehlo.concatenate %x, %y, dim = 1
// CHECK:       %[[C:.*]] = stablehlo.pad %[[B]], %{{.*}}, low = [0, 0], high = [0, 2]
// CHECK:       %[[D:.*]] = stablehlo.concatenate %[[C]], %z, dim = 1
// CHECK:       %[[E:.*]] = stablehlo.pad %[[D]], %{{.*}}, low = [0, 0], high = [0, 1]
// CHECK-NOT:   add
// CHECK:       return %[[A]], %[[E]]

// -----

// Values that overlap, are padded along two dimensions, or by another number, are added.
func.func @main(%x: tensor<2x4xf32>, %y: tensor<2x3xf32>) -> (tensor<2x6xf32>, tensor<3x7xf32>, tensor<2x7xf32>) {
  %0 = stablehlo.constant dense<0.0> : tensor<f32>
  %one = stablehlo.constant dense<1.0> : tensor<f32>
  %1 = stablehlo.pad %x, %0, low = [0, 0], high = [0, 2], interior = [0, 0] : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x6xf32>
  %2 = stablehlo.pad %y, %0, low = [0, 3], high = [0, 0], interior = [0, 0] : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x6xf32>
  %3 = stablehlo.add %1, %2 : tensor<2x6xf32>
  %4 = stablehlo.pad %x, %0, low = [0, 0], high = [1, 3], interior = [0, 0] : (tensor<2x4xf32>, tensor<f32>) -> tensor<3x7xf32>
  %5 = stablehlo.pad %y, %0, low = [1, 4], high = [0, 0], interior = [0, 0] : (tensor<2x3xf32>, tensor<f32>) -> tensor<3x7xf32>
  %6 = stablehlo.add %4, %5 : tensor<3x7xf32>
  %7 = stablehlo.pad %x, %one, low = [0, 0], high = [0, 3], interior = [0, 0] : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x7xf32>
  %8 = stablehlo.pad %y, %0, low = [0, 4], high = [0, 0], interior = [0, 0] : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x7xf32>
  %9 = stablehlo.add %7, %8 : tensor<2x7xf32>
  return %3, %6, %9 : tensor<2x6xf32>, tensor<3x7xf32>, tensor<2x7xf32>
}
// CHECK-LABEL: func.func @main
// CHECK-NOT:   concatenate
