// RUN: -p 'cast-ports'

// A model that states no quantization: this arithmetic prepares an image.
func.func @main(%x: tensor<4xui8>) -> tensor<4xf32> {
  %mean = stablehlo.constant dense<128.0> : tensor<4xf32>
  %factor = stablehlo.constant dense<0.0078125> : tensor<4xf32>
  %0 = stablehlo.convert %x : (tensor<4xui8>) -> tensor<4xf32>
  %1 = stablehlo.subtract %0, %mean : tensor<4xf32>
  // CHECK: %[[Y:.*]] = stablehlo.multiply
  %2 = stablehlo.multiply %1, %factor : tensor<4xf32>
  // CHECK-NEXT: return %[[Y]]
  return %2 : tensor<4xf32>
}
