// RUN: -p 'group{isa=avx2},layout' --split-input-file

// The padding of a convolution belongs to the buffer of the value before it, which a copy makes of the caller's array.
func.func @main(%x: tensor<1x4x4x4xi8>) -> tensor<1x8x5x5xi8> {
  %zp = stablehlo.constant dense<1> : tensor<i8>
  %p = stablehlo.pad %x, %zp, low = [0, 0, 1, 1], high = [0, 0, 0, 0], interior = [0, 0, 0, 0] : (tensor<1x4x4x4xi8>, tensor<i8>) -> tensor<1x4x5x5xi8>
  %w = stablehlo.constant dense<3> : tensor<4x4x1x1xi8>
  %m = stablehlo.constant dense<16384> : tensor<1xi32>
  %n = stablehlo.constant dense<7> : tensor<1xi32>
  %a = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [1, 1]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x4x4x4xi8>, tensor<4x4x1x1xi8>) -> tensor<1x4x4x4xi32>
  %b = "fxpmath.requantize"(%a, %m, %n) <{behaviour = "fixed16", zero_point = 0 : i64, storage_min = -128 : i64, storage_max = 127 : i64}> : (tensor<1x4x4x4xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<1x4x4x4xi8>
  %c = stablehlo.pad %b, %zp, low = [0, 0, 1, 1], high = [0, 0, 0, 0], interior = [0, 0, 0, 0] : (tensor<1x4x4x4xi8>, tensor<i8>) -> tensor<1x4x5x5xi8>
  %v = stablehlo.constant dense<2> : tensor<8x4x1x1xi8>
  %d = stablehlo.convolution(%c, %v) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [1, 1]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x4x5x5xi8>, tensor<8x4x1x1xi8>) -> tensor<1x8x5x5xi32>
  %y = "fxpmath.requantize"(%d, %m, %n) <{behaviour = "fixed16", zero_point = 0 : i64, storage_min = -128 : i64, storage_max = 127 : i64}> : (tensor<1x8x5x5xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<1x8x5x5xi8>
  return %y : tensor<1x8x5x5xi8>
}
// CHECK-LABEL: func.func @main
// CHECK:       bufferization.to_buffer %x
// CHECK:       "native.kernel"({{.*}}kind = "copy"
// CHECK:       %[[B:.*]] = memref.alloc() : memref<400xi8, "arena">
// CHECK-NEXT:  %[[IN:.*]] = memref.reinterpret_cast %[[B]] to offset: [96], sizes: [1, 4, 4, 4], strides: [400, 1, 80, 16]
// CHECK-NEXT:  "native.border"(%[[IN]]) <{sides = array<i64: 1, 1, 0, 0>, value = 1 : i64}>
// CHECK-NEXT:  "native.kernel"(%{{.*}}, %[[IN]]) <{kind = "contraction"
// CHECK-NOT:   kind = "copy"
// CHECK:       %[[ALL:.*]] = memref.reinterpret_cast %[[B]] to offset: [0], sizes: [1, 4, 5, 5], strides: [400, 1, 80, 16]
// CHECK:       "native.kernel"(%[[ALL]], %{{.*}}) <{kind = "contraction"
// CHECK:       memref<1x8x5x5xi8, "output">
// CHECK:       bufferization.to_tensor

// -----

// A result is computed in the caller's array.
func.func @main(%x: tensor<2x32xf32>) -> tensor<2x32xf32> {
  %y = stablehlo.add %x, %x : tensor<2x32xf32>
  return %y : tensor<2x32xf32>
}
// CHECK-LABEL: func.func @main
// CHECK-NEXT:  %[[OUT:.*]] = memref.alloc() : memref<2x32xf32, "output">
// CHECK:       %[[IN:.*]] = "memref.memory_space_cast"(%{{.*}}) : (memref<2x32xf32>) -> memref<2x32xf32, "input">
// CHECK:       "native.kernel"(%[[IN]], %[[OUT]]) <{{{.*}}kind = "nest"
// CHECK-NOT:   memref.alloc

// -----

// A reshape is the same bytes; the loop nest before it writes to its place.
func.func @main(%x: tensor<2x32xf32>) -> tensor<64xf32> {
  %y = stablehlo.add %x, %x : tensor<2x32xf32>
  %z = stablehlo.reshape %y : (tensor<2x32xf32>) -> tensor<64xf32>
  return %z : tensor<64xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:       %[[OUT:.*]] = memref.alloc() : memref<64xf32, "output">
// CHECK:       %[[PLACE:.*]] = memref.reinterpret_cast %[[OUT]] to offset: [0], sizes: [2, 32], strides: [32, 1]
// CHECK:       "native.kernel"(%{{.*}}, %[[PLACE]]) <{{{.*}}kind = "nest"
// CHECK-NOT:   kind = "copy"

// -----

// Memory holds the integers of quantized arguments and results.
func.func @main(%x: tensor<4x!quant.uniform<u8:f32, 0.5:3>>) -> tensor<4x!quant.uniform<u8:f32, 0.5:3>> {
  %d = stablehlo.uniform_dequantize %x : (tensor<4x!quant.uniform<u8:f32, 0.5:3>>) -> tensor<4xf32>
  %a = stablehlo.abs %d : tensor<4xf32>
  %y = stablehlo.uniform_quantize %a : (tensor<4xf32>) -> tensor<4x!quant.uniform<u8:f32, 0.5:3>>
  return %y : tensor<4x!quant.uniform<u8:f32, 0.5:3>>
}
// CHECK-LABEL: func.func @main
// CHECK:       %[[X:.*]] = builtin.unrealized_conversion_cast %x : tensor<4x!quant.uniform<u8:f32, 5.000000e-01:3>> to tensor<4xui8>
// CHECK:       bufferization.to_buffer %[[X]] : tensor<4xui8> to memref<4xui8>
// CHECK:       %[[Y:.*]] = bufferization.to_tensor %{{.*}} : memref<4xui8> to tensor<4xui8>
// CHECK:       %[[R:.*]] = builtin.unrealized_conversion_cast %[[Y]] : tensor<4xui8> to tensor<4x!quant.uniform<u8:f32, 5.000000e-01:3>>
// CHECK:       func.return %[[R]]
