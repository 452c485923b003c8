module @mean attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<2x3x4xf32>) -> (tensor<2x3xf32>, tensor<1x3x1xf32>) {
    %0 = stablehlo.constant dense<0.000000000e+00> : tensor<f32>
    %1 = "stablehlo.reduce"(%arg0, %0) <{dimensions = array<i64: 2>}> ({
    ^bb0(%2: tensor<f32>, %3: tensor<f32>):
      %4 = "stablehlo.add"(%2, %3) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%4) : (tensor<f32>) -> ()
    }) : (tensor<2x3x4xf32>, tensor<f32>) -> tensor<2x3xf32>
    %5 = stablehlo.constant dense<4.000000000e+00> : tensor<2x3xf32>
    %6 = stablehlo.divide %1, %5 : tensor<2x3xf32>
    %7 = stablehlo.constant dense<0.000000000e+00> : tensor<f32>
    %8 = "stablehlo.reduce"(%arg0, %7) <{dimensions = array<i64: 0, 2>}> ({
    ^bb0(%9: tensor<f32>, %10: tensor<f32>):
      %11 = "stablehlo.add"(%9, %10) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%11) : (tensor<f32>) -> ()
    }) : (tensor<2x3x4xf32>, tensor<f32>) -> tensor<3xf32>
    %12 = stablehlo.constant dense<8.000000000e+00> : tensor<3xf32>
    %13 = stablehlo.divide %8, %12 : tensor<3xf32>
    %14 = "stablehlo.reshape"(%13) : (tensor<3xf32>) -> (tensor<1x3x1xf32>)
    return %6, %14 : tensor<2x3xf32>, tensor<1x3x1xf32>
  }
}
