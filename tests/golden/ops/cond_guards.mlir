module @cond_guards attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4xf32>) -> (tensor<4xf32>) {
    %0 = stablehlo.constant dense<0.000000000e+00> : tensor<4xf32>
    %1 = stablehlo.multiply %arg0, %0 : tensor<4xf32>
    %2 = "stablehlo.abs"(%1) : (tensor<4xf32>) -> (tensor<4xf32>)
    %3 = stablehlo.constant dense<0.000000000e+00> : tensor<f32>
    %4 = "stablehlo.reduce"(%2, %3) <{dimensions = array<i64: 0>}> ({
    ^bb0(%5: tensor<f32>, %6: tensor<f32>):
      %7 = "stablehlo.add"(%5, %6) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%7) : (tensor<f32>) -> ()
    }) : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
    %8 = stablehlo.constant dense<0.000000000e+00> : tensor<f32>
    %9 = "stablehlo.compare"(%4, %8) <{compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction GT>}> : (tensor<f32>, tensor<f32>) -> (tensor<i1>)
    %10 = "stablehlo.if"(%9) ({
      %11 = "stablehlo.log"(%1) : (tensor<4xf32>) -> (tensor<4xf32>)
      "stablehlo.return"(%11) : (tensor<4xf32>) -> ()
    }, {
      %12 = stablehlo.constant dense<3.000000000e+00> : tensor<4xf32>
      %13 = stablehlo.multiply %arg0, %12 : tensor<4xf32>
      "stablehlo.return"(%13) : (tensor<4xf32>) -> ()
    }) : (tensor<i1>) -> (tensor<4xf32>)
    return %10 : tensor<4xf32>
  }
}
