// RUN: -p 'cast-ports'

// The arithmetic of QuantizeLinear and DequantizeLinear at integer ports becomes casts.
func.func @main(%x: tensor<4xui8>, %s: tensor<4xi8>) -> (tensor<4xui8>, tensor<4xi8>) {
  %zero_point = stablehlo.constant dense<120.0> : tensor<4xf32>
  %scale = stablehlo.constant dense<0.5> : tensor<4xf32>
  // CHECK: %[[B:.*]] = stablehlo.bitcast_convert %x : (tensor<4xui8>) -> tensor<4xi8>
  // CHECK-NEXT: %[[Q:.*]] = quant.scast %[[B]] : tensor<4xi8> to tensor<4x!quant.uniform<u8:f32, 5.000000e-01:120>>
  // CHECK-NEXT: %[[X:.*]] = quant.dcast %[[Q]]
  %0 = stablehlo.convert %x : (tensor<4xui8>) -> tensor<4xf32>
  %1 = stablehlo.subtract %0, %zero_point : tensor<4xf32>
  %2 = stablehlo.multiply %1, %scale : tensor<4xf32>
  // Without a zero point, and signed.
  // CHECK-NEXT: %[[P:.*]] = quant.scast %s : tensor<4xi8> to tensor<4x!quant.uniform<i8:f32, 5.000000e-01>>
  // CHECK-NEXT: %[[S:.*]] = quant.dcast %[[P]]
  %3 = stablehlo.convert %s : (tensor<4xi8>) -> tensor<4xf32>
  %4 = stablehlo.multiply %3, %scale : tensor<4xf32>
  // CHECK-NEXT: %[[SUM:.*]] = stablehlo.add %[[X]], %[[S]]
  %5 = stablehlo.add %2, %4 : tensor<4xf32>
  // CHECK-NEXT: %[[A:.*]] = quant.qcast %[[SUM]] : tensor<4xf32> to tensor<4x!quant.uniform<u8:f32, 5.000000e-01:120>>
  // CHECK-NEXT: %[[C:.*]] = quant.scast %[[A]]
  // CHECK-NEXT: %[[U:.*]] = stablehlo.bitcast_convert %[[C]] : (tensor<4xi8>) -> tensor<4xui8>
  %least = stablehlo.constant dense<0.0> : tensor<f32>
  %greatest = stablehlo.constant dense<255.0> : tensor<f32>
  %6 = stablehlo.divide %5, %scale : tensor<4xf32>
  %7 = stablehlo.round_nearest_even %6 : tensor<4xf32>
  %8 = stablehlo.add %7, %zero_point : tensor<4xf32>
  %9 = stablehlo.clamp %least, %8, %greatest : (tensor<f32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %10 = stablehlo.convert %9 : (tensor<4xf32>) -> tensor<4xui8>
  // Part of the range of i8 is no storage of the port.
  // CHECK: stablehlo.divide
  // CHECK: %[[PART:.*]] = stablehlo.convert
  %low = stablehlo.constant dense<-100.0> : tensor<f32>
  %high = stablehlo.constant dense<100.0> : tensor<f32>
  %11 = stablehlo.divide %5, %scale : tensor<4xf32>
  %12 = stablehlo.round_nearest_even %11 : tensor<4xf32>
  %13 = stablehlo.clamp %low, %12, %high : (tensor<f32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %14 = stablehlo.convert %13 : (tensor<4xf32>) -> tensor<4xi8>
  // CHECK-NEXT: return %[[U]], %[[PART]]
  return %10, %14 : tensor<4xui8>, tensor<4xi8>
}
