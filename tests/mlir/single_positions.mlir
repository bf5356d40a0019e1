// RUN: -p 'single-positions'

// CHECK-LABEL: func.func @main(
func.func @main(%x: tensor<2x8xf32>) -> (tensor<2xi32>, tensor<2xf32>) {
  %i = stablehlo.iota dim = 1 : tensor<2x8xi32>
  %lowest = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  // CHECK: %[[PLACES:.*]] = stablehlo.iota dim = 1
  // CHECK: %[[LAST:.*]] = stablehlo.constant dense<7> : tensor<i32>
  // CHECK: %[[MOST:.*]] = stablehlo.reduce(%x init: {{.*}}) applies stablehlo.maximum across dimensions = [1]
  // CHECK: %[[WIDE:.*]] = stablehlo.broadcast_in_dim %[[MOST]], dims = [0]
  // CHECK: %[[EQUAL:.*]] = stablehlo.compare EQ, %x, %[[WIDE]]
  // CHECK: %[[ENDS:.*]] = stablehlo.broadcast_in_dim %[[LAST]], dims = []
  // CHECK: %[[HERE:.*]] = stablehlo.select %[[EQUAL]], %[[PLACES]], %[[ENDS]]
  // CHECK: stablehlo.reduce(%[[HERE]] init: %[[LAST]]) applies stablehlo.minimum across dimensions = [1]
  %v, %p = stablehlo.reduce(%x init: %lowest), (%i init: %zero) across dimensions = [1] :
    (tensor<2x8xf32>, tensor<2x8xi32>, tensor<f32>, tensor<i32>) -> (tensor<2xf32>, tensor<2xi32>)
    reducer(%a: tensor<f32>, %b: tensor<f32>) (%c: tensor<i32>, %d: tensor<i32>) {
      %gt = stablehlo.compare GT, %a, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %nan = stablehlo.compare NE, %a, %a, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %first = stablehlo.or %gt, %nan : tensor<i1>
      %eq = stablehlo.compare EQ, %a, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %lt = stablehlo.compare LT, %c, %d, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %tie = stablehlo.and %eq, %lt : tensor<i1>
      %index = stablehlo.or %first, %tie : tensor<i1>
      %best = stablehlo.select %first, %a, %b : tensor<i1>, tensor<f32>
      %at = stablehlo.select %index, %c, %d : tensor<i1>, tensor<i32>
      stablehlo.return %best, %at : tensor<f32>, tensor<i32>
    }
  // The greatest is read, too.
  // CHECK: reducer(
  %w, %q = stablehlo.reduce(%x init: %lowest), (%i init: %zero) across dimensions = [1] :
    (tensor<2x8xf32>, tensor<2x8xi32>, tensor<f32>, tensor<i32>) -> (tensor<2xf32>, tensor<2xi32>)
    reducer(%a: tensor<f32>, %b: tensor<f32>) (%c: tensor<i32>, %d: tensor<i32>) {
      %gt = stablehlo.compare GT, %a, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %best = stablehlo.select %gt, %a, %b : tensor<i1>, tensor<f32>
      %at = stablehlo.select %gt, %c, %d : tensor<i1>, tensor<i32>
      stablehlo.return %best, %at : tensor<f32>, tensor<i32>
    }
  return %p, %w : tensor<2xi32>, tensor<2xf32>
}
