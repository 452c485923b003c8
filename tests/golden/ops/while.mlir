module @while attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4xf32>, %arg1: tensor<f32>) -> (tensor<4xf32>, tensor<i32>) {
    %0 = stablehlo.constant dense<3.000000000e+00> : tensor<4xf32>
    %1 = stablehlo.add %arg0, %0 : tensor<4xf32>
    %2 = stablehlo.constant dense<0> : tensor<i32>
    %3 = stablehlo.constant dense<2.000000000e+01> : tensor<f32>
    %4 = stablehlo.add %arg1, %3 : tensor<f32>
    %5 = "stablehlo.broadcast_in_dim"(%arg1) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> (tensor<4xf32>)
    %6:4 = "stablehlo.while"(%4, %5, %1, %2) ({
    ^bb0(%7: tensor<f32>, %8: tensor<4xf32>, %9: tensor<4xf32>, %10: tensor<i32>):
      %11 = "stablehlo.abs"(%9) : (tensor<4xf32>) -> (tensor<4xf32>)
      %12 = stablehlo.constant dense<0.000000000e+00> : tensor<f32>
      %13 = "stablehlo.reduce"(%11, %12) <{dimensions = array<i64: 0>}> ({
      ^bb0(%14: tensor<f32>, %15: tensor<f32>):
        %16 = "stablehlo.add"(%14, %15) : (tensor<f32>, tensor<f32>) -> tensor<f32>
        "stablehlo.return"(%16) : (tensor<f32>) -> ()
      }) : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
      %17 = "stablehlo.compare"(%13, %7) <{compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<f32>, tensor<f32>) -> (tensor<i1>)
      "stablehlo.return"(%17) : (tensor<i1>) -> ()
    }, {
    ^bb0(%18: tensor<f32>, %19: tensor<4xf32>, %20: tensor<4xf32>, %21: tensor<i32>):
      %22 = stablehlo.constant dense<2.000000000e+00> : tensor<4xf32>
      %23 = stablehlo.multiply %20, %22 : tensor<4xf32>
      %24 = stablehlo.constant dense<1> : tensor<i32>
      %25 = stablehlo.add %21, %24 : tensor<i32>
      %26 = stablehlo.add %23, %19 : tensor<4xf32>
      "stablehlo.return"(%18, %19, %26, %25) : (tensor<f32>, tensor<4xf32>, tensor<4xf32>, tensor<i32>) -> ()
    }) : (tensor<f32>, tensor<4xf32>, tensor<4xf32>, tensor<i32>) -> (tensor<f32>, tensor<4xf32>, tensor<4xf32>, tensor<i32>)
    return %6#2, %6#3 : tensor<4xf32>, tensor<i32>
  }
}
