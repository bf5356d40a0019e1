// RUN: -p 'move-rescales' --split-input-file

// A rescale and the one that undoes it are dropped.
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = quant.region "logistic"(%1: tensor<4xf32> = %x as !quant.uniform<i8:f32, 5.000000e-01>) -> tensor<4xf32> as !quant.uniform<i8:f32, 3.906250e-03:-128> {
    %2 = stablehlo.logistic %1 : tensor<4xf32>
    quant.return %2 : tensor<4xf32>
  }
  %3 = quant.region "rescale"(%4: tensor<4xf32> = %0 as !quant.uniform<i8:f32, 3.906250e-03:-128>) -> tensor<4xf32> as !quant.uniform<i8:f32, 1.000000e-02:-128> {
    quant.return %4 : tensor<4xf32>
  }
  %5 = quant.region "rescale"(%6: tensor<4xf32> = %3 as !quant.uniform<i8:f32, 1.000000e-02:-128>) -> tensor<4xf32> as !quant.uniform<i8:f32, 3.906250e-03:-128> {
    quant.return %6 : tensor<4xf32>
  }
  %7 = quant.region "tanh"(%8: tensor<4xf32> = %5 as !quant.uniform<i8:f32, 3.906250e-03:-128>) -> tensor<4xf32> as !quant.uniform<i8:f32, 7.812500e-03> {
    %9 = stablehlo.tanh %8 : tensor<4xf32>
    quant.return %9 : tensor<4xf32>
  }
  return %7 : tensor<4xf32>
}
// CHECK:       zeropoint.rescale_counts = {after = 0 : i64, before = 2 : i64}
// CHECK-LABEL: func.func @main
// CHECK:       %[[L:.*]] = quant.region "logistic"
// CHECK-NOT:   "rescale"
// CHECK:       quant.region "tanh"(%{{.*}} = %[[L]] as !quant.uniform<i8:f32, 3.906250e-03:-128>)

// -----

// A sum has a free scale: it produces the type of the rescale itself.
func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %0 = quant.region "add"(%1: tensor<4xf32> = %x as !quant.uniform<i8:f32, 5.000000e-01>, %2: tensor<4xf32> = %y as !quant.uniform<i8:f32, 5.000000e-01>) -> tensor<4xf32> as !quant.uniform<i8:f32, 1.000000e+00> {
    %3 = stablehlo.add %1, %2 : tensor<4xf32>
    quant.return %3 : tensor<4xf32>
  }
  %4 = quant.region "rescale"(%5: tensor<4xf32> = %0 as !quant.uniform<i8:f32, 1.000000e+00>) -> tensor<4xf32> as !quant.uniform<i8:f32, 2.000000e+00:3> {
    quant.return %5 : tensor<4xf32>
  }
  return %4 : tensor<4xf32>
}
// CHECK:       zeropoint.rescale_counts = {after = 0 : i64, before = 1 : i64}
// CHECK-LABEL: func.func @main
// CHECK:       %[[S:.*]] = quant.region "add"({{.*}}) -> tensor<4xf32> as !quant.uniform<i8:f32, 2.000000e+00:3>
// CHECK-NOT:   "rescale"
// CHECK:       func.return %[[S]]
