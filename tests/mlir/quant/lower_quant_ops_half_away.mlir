// RUN: -p 'lower-quant-ops{profile=fixed32-double}'

// LiteRT: half away from zero, and the zero point is added after rounding.
func.func @f(%x: tensor<2xf32>) -> tensor<2x!quant.uniform<i8<-127:127>:f32, 2.0:3>> {
  %0 = quant.qcast %x : tensor<2xf32> to tensor<2x!quant.uniform<i8<-127:127>:f32, 2.0:3>>
  return %0 : tensor<2x!quant.uniform<i8<-127:127>:f32, 2.0:3>>
}
// CHECK-LABEL: func.func @f
// CHECK:       %[[ZP:.*]] = arith.sitofp
// CHECK:       %[[R:.*]] = math.round %{{.*}} : f32
// CHECK:       %[[MIN:.*]] = arith.constant -1.270000e+02
// CHECK:       %[[MAX:.*]] = arith.constant 1.270000e+02
// CHECK:       %[[LOW:.*]] = arith.subf %[[MIN]], %[[ZP]]
// CHECK:       %[[HIGH:.*]] = arith.subf %[[MAX]], %[[ZP]]
// CHECK:       %[[N:.*]] = arith.select %{{.*}}, %{{.*}}, %[[R]]
// CHECK:       %[[L:.*]] = arith.maximumf %[[N]], %[[LOW]]
// CHECK:       %[[C:.*]] = arith.minimumf %[[L]], %[[HIGH]]
// CHECK:       %[[S:.*]] = arith.addf %[[C]], %[[ZP]]
// CHECK:       arith.fptosi %[[S]] : f32 to i8
