// RUN: -p 'split-composites{target=cpu}'
// A composite with a contraction becomes kernels of the target; the range inside is the observed one.

// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<2x4xf32>, %y: tensor<2x4xf32>) -> tensor<2x2xf32> {
  // CHECK: %[[S:.+]] = quant.region "batch_matmul"({{.*}} = %x as !quant.uniform<i8:f32, 1.562500e-02>, {{.*}} = %y as !quant.uniform<i8:f32, 3.125000e-02>) -> tensor<2x2xf32> as !quant.uniform<i8:f32, 6.250000e-02>
  // CHECK: zeropoint.composite = "gate"
  // CHECK: stablehlo.dot_general
  // CHECK: quant.region "tanh"({{.*}} = %[[S]] as
  // CHECK: -> tensor<2x2xf32> as !quant.uniform<i8:f32, 7.812500e-03>
  // CHECK-NOT: quant.stats
  %0 = quant.region "gate"(%a: tensor<2x4xf32> = %x as !quant.uniform<i8:f32, 1.562500e-02>, %b: tensor<2x4xf32> = %y as !quant.uniform<i8:f32, 3.125000e-02>) -> tensor<2x2xf32> as !quant.uniform<i8:f32, 7.812500e-03> {
    %1 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [1] : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x2xf32>
    %2 = "quant.stats"(%1) {layerStats = dense<[-8.0, 7.9375]> : tensor<2xf32>} : (tensor<2x2xf32>) -> tensor<2x2xf32>
    %3 = stablehlo.tanh %2 : tensor<2x2xf32>
    quant.return %3 : tensor<2x2xf32>
  }
  return %0 : tensor<2x2xf32>
}
