module @cond_true attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4xf32>, %arg1: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
    %0 = stablehlo.constant dense<0.000000000e+00> : tensor<f32>
    %1 = "stablehlo.reduce"(%arg0, %0) <{dimensions = array<i64: 0>}> ({
    ^bb0(%2: tensor<f32>, %3: tensor<f32>):
      %4 = "stablehlo.add"(%2, %3) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%4) : (tensor<f32>) -> ()
    }) : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
    %5 = stablehlo.constant dense<1.000000000e+00> : tensor<f32>
    %6 = stablehlo.subtract %1, %5 : tensor<f32>
    %7 = "stablehlo.compare"(%1, %6) <{compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction GT>}> : (tensor<f32>, tensor<f32>) -> (tensor<i1>)
    %8:2 = "stablehlo.if"(%7) ({
      %9 = "stablehlo.sine"(%arg0) : (tensor<4xf32>) -> (tensor<4xf32>)
      %10 = stablehlo.multiply %9, %arg1 : tensor<4xf32>
      "stablehlo.return"(%10, %arg0) : (tensor<4xf32>, tensor<4xf32>) -> ()
    }, {
      %11 = "stablehlo.exponential"(%arg1) : (tensor<4xf32>) -> (tensor<4xf32>)
      %12 = stablehlo.multiply %arg1, %arg1 : tensor<4xf32>
      "stablehlo.return"(%11, %12) : (tensor<4xf32>, tensor<4xf32>) -> ()
    }) : (tensor<i1>) -> (tensor<4xf32>, tensor<4xf32>)
    return %8#0, %8#1 : tensor<4xf32>, tensor<4xf32>
  }
}
