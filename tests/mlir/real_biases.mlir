// RUN: -p 'fuse{target=openvino-vnni},keep-unquantized{target=openvino-vnni},propagate{target=openvino-vnni}'

// The model has the bias as floats. OpenVINO adds them, so they are not rounded to steps of the products.
func.func @main(%x: tensor<2x4xf32>) -> tensor<2x3xf32> {
  %q = quant.qcast %x : tensor<2x4xf32> to tensor<2x4x!quant.uniform<u8:f32, 0.5>>
  %a = quant.dcast %q : tensor<2x4x!quant.uniform<u8:f32, 0.5>> to tensor<2x4xf32>
  %w = stablehlo.constant {zeropoint.pinned = !quant.uniform<i8<-127:127>:f32, 0.25>} dense<1.0> : tensor<4x3xf32>
  %b = stablehlo.constant dense<[0.3, -0.7, 0.1]> : tensor<3xf32>
  %m = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (tensor<2x4xf32>, tensor<4x3xf32>) -> tensor<2x3xf32>
  %c = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<3xf32>) -> tensor<2x3xf32>
  %s = stablehlo.add %m, %c : tensor<2x3xf32>
  %r = quant.qcast %s : tensor<2x3xf32> to tensor<2x3x!quant.uniform<u8:f32, 0.75:9>>
  %d = quant.dcast %r : tensor<2x3x!quant.uniform<u8:f32, 0.75:9>> to tensor<2x3xf32>
  return %d : tensor<2x3xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:       quant.region "fully_connected"({{.*}} as !quant.uniform<u8:f32, {{.*}} as !quant.uniform<i8<-127:127>:f32, {{.*}} as !quant.none<f32>) -> tensor<2x3xf32> as !quant.uniform<u8:f32
