module @reduce_sum attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<2x3x4xf32>) -> (tensor<2x4xf32>, tensor<3xf32>, tensor<f32>) {
    %0 = stablehlo.constant dense<0.000000000e+00> : tensor<f32>
    %1 = "stablehlo.reduce"(%arg0, %0) <{dimensions = array<i64: 1>}> ({
    ^bb0(%2: tensor<f32>, %3: tensor<f32>):
      %4 = "stablehlo.add"(%2, %3) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%4) : (tensor<f32>) -> ()
    }) : (tensor<2x3x4xf32>, tensor<f32>) -> tensor<2x4xf32>
    %5 = stablehlo.constant dense<0.000000000e+00> : tensor<f32>
    %6 = "stablehlo.reduce"(%arg0, %5) <{dimensions = array<i64: 0, 2>}> ({
    ^bb0(%7: tensor<f32>, %8: tensor<f32>):
      %9 = "stablehlo.add"(%7, %8) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%9) : (tensor<f32>) -> ()
    }) : (tensor<2x3x4xf32>, tensor<f32>) -> tensor<3xf32>
    %10 = stablehlo.constant dense<0.000000000e+00> : tensor<f32>
    %11 = "stablehlo.reduce"(%arg0, %10) <{dimensions = array<i64: 0, 1, 2>}> ({
    ^bb0(%12: tensor<f32>, %13: tensor<f32>):
      %14 = "stablehlo.add"(%12, %13) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%14) : (tensor<f32>) -> ()
    }) : (tensor<2x3x4xf32>, tensor<f32>) -> tensor<f32>
    return %1, %6, %11 : tensor<2x4xf32>, tensor<3xf32>, tensor<f32>
  }
}
