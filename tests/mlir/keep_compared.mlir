// RUN: -p 'fuse,keep-compared'

// The peaks of a heatmap. Two neighbours that are rounded to one number would both be peaks.
func.func @main(%x: tensor<1x2x8xf32>, %w: tensor<2x2x1xf32>) -> (tensor<1x2x7xi1>, tensor<1x2x7xi1>) {
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %half = stablehlo.constant dense<0.5> : tensor<f32>
  %c = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0]x[o, i, 0]->[b, f, 0], window = {stride = [1]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x2x8xf32>, tensor<2x2x1xf32>) -> tensor<1x2x8xf32>
  %h = stablehlo.logistic %c : tensor<1x2x8xf32>
  %m = "stablehlo.reduce_window"(%h, %low) <{window_dimensions = array<i64: 1, 1, 2>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %r = stablehlo.maximum %a, %b : tensor<f32>
    stablehlo.return %r : tensor<f32>
  }) : (tensor<1x2x8xf32>, tensor<f32>) -> tensor<1x2x7xf32>
  %s = stablehlo.slice %h [0:1, 0:2, 0:7] : (tensor<1x2x8xf32>) -> tensor<1x2x7xf32>
  %e = stablehlo.compare EQ, %s, %m : (tensor<1x2x7xf32>, tensor<1x2x7xf32>) -> tensor<1x2x7xi1>
  // An order survives rounding, but for values that are nearly equal.
  %g = stablehlo.compare GT, %s, %m : (tensor<1x2x7xf32>, tensor<1x2x7xf32>) -> tensor<1x2x7xi1>
  return %e, %g : tensor<1x2x7xi1>, tensor<1x2x7xi1>
}
// CHECK-LABEL: func.func @main
// CHECK:       stablehlo.convolution
// CHECK:       quant.region "logistic"({{.*}} as !quant.none<f32>) {{.*}} {zeropoint.float_reason = "the model compares values for equality here, and rounding makes different values equal"}
// CHECK:       quant.region "max_pool"({{.*}} as !quant.none<f32>) {{.*}} {zeropoint.float_reason = "the model compares values for equality here, and rounding makes different values equal"}
// CHECK:       quant.region "slice"({{.*}} as !quant.none<f32>) {{.*}} {zeropoint.float_reason = "the model compares values for equality here, and rounding makes different values equal"}
// CHECK:       quant.region "compare"({{.*}} as !quant.none<f32>, {{.*}} as !quant.none<f32>) {{.*}} {zeropoint.float_reason = "the model compares values for equality here, and rounding makes different values equal"}
// CHECK:       quant.region "compare"
// CHECK-NOT:   zeropoint.float_reason
