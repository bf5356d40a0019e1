// RUN: -p 'instrument' --split-input-file --locations

// Each argument that a region reads and each result of a region is asked once; every use goes through the answer.
// Weights are never asked, nor is an argument that no region reads. Keys are the names of the model.
func.func @main(%x: tensor<1x2x4x4xf32> {zeropoint.name = "image"}, %i: tensor<4xi32>, %f: tensor<4xf32>) -> (tensor<1x2x4x4xf32> {zeropoint.name = "y"}, tensor<1x2x4x4xf32>, tensor<4xf32>) {
  %w = stablehlo.constant dense<1.0> : tensor<2x2x1x1xf32>
  %0 = "quant.region"(%x, %w) ({
  ^bb0(%a: tensor<1x2x4x4xf32>, %k: tensor<2x2x1x1xf32>):
    %c = stablehlo.convolution(%a, %k) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
    "quant.return"(%c) : (tensor<1x2x4x4xf32>) -> ()
  }) {input_specs = [f32, f32], logical_kernel = "convolution", output_specs = [f32]} : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32> loc("conv1")
  %1 = "quant.region"(%0, %x) ({
  ^bb0(%a: tensor<1x2x4x4xf32>, %b: tensor<1x2x4x4xf32>):
    %c = stablehlo.add %a, %b : tensor<1x2x4x4xf32>
    "quant.return"(%c) : (tensor<1x2x4x4xf32>) -> ()
  }) {input_specs = [f32, f32], logical_kernel = "add", output_specs = [f32]} : (tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> loc("residual")
  return %1, %0, %f : tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>, tensor<4xf32>
}
// CHECK-LABEL: func.func @main
// CHECK-SAME:  (%[[X:.*]]: tensor<1x2x4x4xf32> {{.*}}, %{{.*}}: tensor<4xi32>, %[[F:.*]]: tensor<4xf32>)
// CHECK-NEXT:  %[[SX:.*]] = "quant.stats_ref"(%[[X]]) {statsKey = "image"} : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> loc("image")
// CHECK-NEXT:  %[[W:.*]] = stablehlo.constant
// CHECK-NEXT:  %[[CONV:.*]] = quant.region "convolution"(%{{.*}} = %[[SX]], %{{.*}} = %[[W]]
// CHECK:       quant.return
// CHECK-NEXT:  }
// CHECK-NEXT:  %[[SCONV:.*]] = "quant.stats_ref"(%[[CONV]]) {statsKey = "conv1"} : {{.*}} loc("conv1")
// CHECK-NEXT:  %[[ADD:.*]] = quant.region "add"(%{{.*}} = %[[SCONV]], %{{.*}} = %[[SX]]
// CHECK:       quant.return
// CHECK-NEXT:  }
// CHECK-NEXT:  %[[SADD:.*]] = "quant.stats_ref"(%[[ADD]]) {statsKey = "residual"} : {{.*}} loc("residual")
// CHECK-NEXT:  return %[[SADD]], %[[SCONV]], %[[F]] :

// -----

// A float op that no kernel covers: a region reads its result, which therefore has to be decided. What is computed of
// constants alone does not.
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %cst = stablehlo.constant dense<1.0> : tensor<4xf32>
  %s = stablehlo.sine %x : tensor<4xf32> loc("sine")
  %c = stablehlo.sine %cst : tensor<4xf32> loc("constant")
  %0 = "quant.region"(%s, %c) ({
  ^bb0(%a: tensor<4xf32>, %b: tensor<4xf32>):
    %1 = stablehlo.add %a, %b : tensor<4xf32>
    "quant.return"(%1) : (tensor<4xf32>) -> ()
  }) {input_specs = [f32, f32], logical_kernel = "add", output_specs = [f32]} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
// CHECK-LABEL: func.func @main
// CHECK-NOT:   stats_ref
// CHECK:       %[[SINE:.*]] = stablehlo.sine {{.*}} loc("sine")
// CHECK-NEXT:  %[[S:.*]] = "quant.stats_ref"(%[[SINE]]) {statsKey = "sine"}
// CHECK-NEXT:  %[[C:.*]] = stablehlo.sine {{.*}} loc("constant")
// CHECK-NEXT:  quant.region "{{.*}}"(%{{.*}} = %[[S]], %{{.*}} = %[[C]]
// CHECK:       "quant.stats_ref"{{.*}} {statsKey = "add"}
// CHECK-NEXT:  return

// -----

// Two results of one op, and two ops of one name, have keys of their own.
func.func @main(%x: tensor<4xf32> {zeropoint.name = "x"}) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %0, %1 = "quant.region"(%x) ({
  ^bb0(%a: tensor<4xf32>):
    %n = stablehlo.negate %a : tensor<4xf32>
    "quant.return"(%a, %n) : (tensor<4xf32>, tensor<4xf32>) -> ()
  }) {input_specs = [f32], logical_kernel = "split", output_specs = [f32, f32]} : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) loc("both")
  %2 = "quant.region"(%0) ({
  ^bb0(%a: tensor<4xf32>):
    "quant.return"(%a) : (tensor<4xf32>) -> ()
  }) {input_specs = [f32], logical_kernel = "copy", output_specs = [f32]} : (tensor<4xf32>) -> tensor<4xf32> loc("x")
  %3 = "quant.region"(%1) ({
  ^bb0(%a: tensor<4xf32>):
    "quant.return"(%a) : (tensor<4xf32>) -> ()
  }) {input_specs = [f32], logical_kernel = "copy", output_specs = [f32]} : (tensor<4xf32>) -> tensor<4xf32> loc("x")
  %4 = "quant.region"(%1) ({
  ^bb0(%a: tensor<4xf32>):
    "quant.return"(%a) : (tensor<4xf32>) -> ()
  }) {input_specs = [f32], logical_kernel = "copy", output_specs = [f32]} : (tensor<4xf32>) -> tensor<4xf32>
  return %2, %3, %4 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:       statsKey = "x"
// CHECK:       %[[A:.*]], %[[B:.*]] = quant.region
// CHECK:       %[[SA:.*]] = "quant.stats_ref"(%[[A]]) {statsKey = "both#0"}
// CHECK-NEXT:  %[[SB:.*]] = "quant.stats_ref"(%[[B]]) {statsKey = "both#1"}
// CHECK:       quant.region "{{.*}}"(%{{.*}} = %[[SA]]
// CHECK:       statsKey = "x_1"
// CHECK:       quant.region "{{.*}}"(%{{.*}} = %[[SB]]
// CHECK:       statsKey = "x_2"
// CHECK:       statsKey = "copy"

// -----

// What is stated, asked or decided already is not asked again.
func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>, %q: tensor<4x!quant.uniform<i8:f32, 0.5>>) -> (tensor<4xf32>, tensor<4xf32>) {
  %sx = "quant.stats"(%x) {layerStats = dense<[-1.0, 1.0]> : tensor<2xf32>} : (tensor<4xf32>) -> tensor<4xf32>
  %sy = "quant.stats_ref"(%y) {statsKey = "y"} : (tensor<4xf32>) -> tensor<4xf32>
  %d = quant.dcast %q : tensor<4x!quant.uniform<i8:f32, 0.5>> to tensor<4xf32>
  %0, %1 = "quant.region"(%sx, %sy, %d) ({
  ^bb0(%a: tensor<4xf32>, %b: tensor<4xf32>, %c: tensor<4xf32>):
    "quant.return"(%a, %c) : (tensor<4xf32>, tensor<4xf32>) -> ()
  }) {input_specs = [f32, f32, f32], logical_kernel = "k", output_specs = [!quant.uniform<i8:f32, 0.25>, !quant.calibrated<f32<-1.0:1.0>>]} : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:       quant.stats_ref
// CHECK-NOT:   quant.stats_ref
