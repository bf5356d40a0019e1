// RUN: -p 'lower-quant-ops{profile=upstream}' --split-input-file

// Cut off towards 0, and clamped only to bounds that narrow the storage type.
func.func @full(%x: f32) -> !quant.uniform<i8:f32, 2.0:3> {
  %0 = quant.qcast %x : f32 to !quant.uniform<i8:f32, 2.0:3>
  return %0 : !quant.uniform<i8:f32, 2.0:3>
}
// CHECK-LABEL: func.func @full
// CHECK:       %[[SCALED:.*]] = arith.divf %x
// CHECK:       %[[STORED:.*]] = arith.addf %[[SCALED]]
// CHECK-NEXT:  %[[I:.*]] = arith.fptosi %[[STORED]] : f32 to i8
// CHECK-NEXT:  quant.scast %[[I]]

// -----

func.func @narrow(%x: tensor<2xf32>) -> tensor<2x!quant.uniform<u8<1:200>:f32, 2.0>> {
  %0 = quant.qcast %x : tensor<2xf32> to tensor<2x!quant.uniform<u8<1:200>:f32, 2.0>>
  return %0 : tensor<2x!quant.uniform<u8<1:200>:f32, 2.0>>
}
// CHECK-LABEL: func.func @narrow
// CHECK:       %[[I:.*]] = arith.fptoui %{{.*}} : tensor<2xf32> to tensor<2xi8>
// CHECK:       arith.constant -56 : i8
// CHECK:       %[[L:.*]] = arith.maxui %[[I]]
// CHECK:       arith.minui %[[L]]
