// RUN: -p 'lower-quant-ops' --split-input-file

// The zero point is added before rounding, NaN becomes it, and the clamp comes before the conversion.
func.func @scalar(%x: f32) -> !quant.uniform<i8:f32, 2.0:3> {
  %0 = quant.qcast %x : f32 to !quant.uniform<i8:f32, 2.0:3>
  return %0 : !quant.uniform<i8:f32, 2.0:3>
}
// CHECK-LABEL: func.func @scalar
// CHECK:       %[[S:.*]] = arith.constant 2.000000e+00 : f32
// CHECK:       %[[ZP:.*]] = arith.constant 3 : i8
// CHECK:       %[[ZPF:.*]] = arith.sitofp %[[ZP]] : i8 to f32
// CHECK:       %[[SCALED:.*]] = arith.divf %x, %[[S]] : f32
// CHECK:       %[[STORED:.*]] = arith.addf %[[SCALED]], %[[ZPF]] : f32
// CHECK:       %[[R:.*]] = math.roundeven %[[STORED]] : f32
// CHECK:       %[[LOW:.*]] = arith.constant -1.280000e+02 : f32
// CHECK:       %[[HIGH:.*]] = arith.constant 1.270000e+02 : f32
// CHECK:       %[[NAN:.*]] = arith.cmpf uno, %[[R]], %[[R]] : f32
// CHECK:       %[[N:.*]] = arith.select %[[NAN]], %[[ZPF]], %[[R]] : f32
// CHECK:       %[[L:.*]] = arith.maximumf %[[N]], %[[LOW]] : f32
// CHECK:       %[[C:.*]] = arith.minimumf %[[L]], %[[HIGH]] : f32
// CHECK:       %[[I:.*]] = arith.fptosi %[[C]] : f32 to i8
// CHECK:       quant.scast %[[I]] : i8 to !quant.uniform<i8:f32, 2.000000e+00:3>

// -----

func.func @dequantize(%q: tensor<2x?x!quant.uniform<u8:f32, 2.0:3>>) -> tensor<2x?xf32> {
  %0 = quant.dcast %q : tensor<2x?x!quant.uniform<u8:f32, 2.0:3>> to tensor<2x?xf32>
  return %0 : tensor<2x?xf32>
}
// CHECK-LABEL: func.func @dequantize
// CHECK:       %[[Q:.*]] = quant.scast %q : tensor<2x?x!quant.uniform<u8:f32, 2.000000e+00:3>> to tensor<2x?xi8>
// CHECK:       %[[DIM:.*]] = tensor.dim %[[Q]]
// CHECK:       %[[S:.*]] = tensor.splat %{{.*}}[%[[DIM]]] : tensor<2x?xf32>
// CHECK:       %[[F:.*]] = arith.uitofp %[[Q]] : tensor<2x?xi8> to tensor<2x?xf32>
// CHECK:       %[[D:.*]] = arith.subf %[[F]], %{{.*}} : tensor<2x?xf32>
// CHECK:       arith.mulf %[[D]], %[[S]] : tensor<2x?xf32>

// -----

// 32-bit bounds are no numbers of f32: the clamp is in f64.
func.func @wide(%x: f32) -> !quant.uniform<i32:f32, 2.0> {
  %0 = quant.qcast %x : f32 to !quant.uniform<i32:f32, 2.0>
  return %0 : !quant.uniform<i32:f32, 2.0>
}
// CHECK-LABEL: func.func @wide
// CHECK:       %[[R:.*]] = math.roundeven
// CHECK:       arith.extf %[[R]] : f32 to f64
// CHECK:       arith.constant 0x41DFFFFFFFC00000 : f64
// CHECK:       arith.fptosi %{{.*}} : f64 to i32

// -----

// Channels of a tensor of unknown rank: three dimensions with the channels in the middle.
func.func @unranked(%x: tensor<*xf32>) -> tensor<*x!quant.uniform<i8:f32:1, {2.0:3,3.0}>> {
  %0 = quant.qcast %x : tensor<*xf32> to tensor<*x!quant.uniform<i8:f32:1, {2.0:3,3.0}>>
  return %0 : tensor<*x!quant.uniform<i8:f32:1, {2.0:3,3.0}>>
}
// CHECK-LABEL: func.func @unranked
// CHECK:       %[[E:.*]] = shape.shape_of %x : tensor<*xf32> -> tensor<?xindex>
// CHECK:       "shape.split_at"(%[[E]], %{{.*}})
// CHECK:       %[[FLAT:.*]] = tensor.reshape %x(%{{.*}}) : (tensor<*xf32>, tensor<3xindex>) -> tensor<?x2x?xf32>
// CHECK:       arith.constant dense<[2.000000e+00, 3.000000e+00]> : tensor<2xf32>
// CHECK:       arith.constant dense<[3, 0]> : tensor<2xi8>
// CHECK:       %[[G:.*]] = linalg.generic {{.*}}affine_map<(d0, d1, d2) -> (d1)>{{.*}} ins(%[[FLAT]]
// CHECK:       tensor.reshape %[[G]](%[[E]]) : (tensor<?x2x?xi8>, tensor<?xindex>) -> tensor<*xi8>

// -----

// Blocks of three rows.
func.func @blocks(%x: tensor<6x?xf32>) -> tensor<6x?x!quant.uniform<i8:f32:{0:3}, {{2.0:3},{3.0}}>> {
  %0 = quant.qcast %x : tensor<6x?xf32> to tensor<6x?x!quant.uniform<i8:f32:{0:3}, {{2.0:3},{3.0}}>>
  return %0 : tensor<6x?x!quant.uniform<i8:f32:{0:3}, {{2.0:3},{3.0}}>>
}
// CHECK-LABEL: func.func @blocks
// CHECK:       arith.constant dense<{{\[\[}}2.000000e+00], [3.000000e+00]]> : tensor<2x1xf32>
// CHECK:       linalg.generic {{.*}}affine_map<(d0, d1) -> ((d0 floordiv 3), 0)>

// -----

// Channels of a dynamic tensor.
func.func @channels(%q: tensor<?x2x?x!quant.uniform<u8:f16:1, {2.0:255,3.0}>>) -> tensor<?x2x?xf16> {
  %0 = quant.dcast %q : tensor<?x2x?x!quant.uniform<u8:f16:1, {2.0:255,3.0}>> to tensor<?x2x?xf16>
  return %0 : tensor<?x2x?xf16>
}
// CHECK-LABEL: func.func @channels
// CHECK:       %[[Q:.*]] = quant.scast %q
// CHECK:       arith.constant dense<[-1, 0]> : tensor<2xi8>
// CHECK:       tensor.dim %[[Q]]
// CHECK:       tensor.empty(%{{.*}}, %{{.*}}) : tensor<?x2x?xf16>
// CHECK:       linalg.generic {{.*}}affine_map<(d0, d1, d2) -> (d1)>
// CHECK:       ^bb0(%[[I:.*]]: i8, %[[S:.*]]: f16, %[[ZP:.*]]: i8, %{{.*}}: f16):
// CHECK-NEXT:    %[[F:.*]] = arith.uitofp %[[I]] : i8 to f16
// CHECK-NEXT:    %[[ZPF:.*]] = arith.uitofp %[[ZP]] : i8 to f16
// CHECK-NEXT:    %[[D:.*]] = arith.subf %[[F]], %[[ZPF]] : f16
// CHECK-NEXT:    %[[R:.*]] = arith.mulf %[[D]], %[[S]] : f16
// CHECK-NEXT:    linalg.yield %[[R]] : f16

// -----

// One scale and an unknown rank: one dimension.
func.func @flat(%q: tensor<*x!quant.uniform<i8:f32, 2.0>>) -> tensor<*xf32> {
  %0 = quant.dcast %q : tensor<*x!quant.uniform<i8:f32, 2.0>> to tensor<*xf32>
  return %0 : tensor<*xf32>
}
// CHECK-LABEL: func.func @flat
// CHECK:       %[[E:.*]] = shape.shape_of
// CHECK:       %[[N:.*]] = shape.num_elements %[[E]] : tensor<?xindex> -> index
// CHECK:       %[[S:.*]] = tensor.from_elements %[[N]] : tensor<1xindex>
// CHECK:       tensor.reshape %{{.*}}(%[[S]]) : (tensor<*xi8>, tensor<1xindex>) -> tensor<?xi8>
// CHECK:       %[[R:.*]] = arith.mulf
// CHECK:       tensor.reshape %[[R]](%[[E]]) : (tensor<?xf32>, tensor<?xindex>) -> tensor<*xf32>

// -----

// No dimension, one element.
func.func @empty_shape(%x: tensor<f32>) -> tensor<!quant.uniform<i8:f32, 2.0>> {
  %0 = quant.qcast %x : tensor<f32> to tensor<!quant.uniform<i8:f32, 2.0>>
  return %0 : tensor<!quant.uniform<i8:f32, 2.0>>
}
// CHECK-LABEL: func.func @empty_shape
// CHECK:       linalg.generic {{.*}}affine_map<() -> ()>
// CHECK:       quant.scast %{{.*}} : tensor<i8> to tensor<!quant.uniform<i8:f32, 2.000000e+00>>
