module @scan attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4xf32>, %arg1: tensor<3x4xf32>, %arg2: tensor<4xf32>) -> (tensor<4xf32>, tensor<3x4xf32>, tensor<3xf32>) {
    %0 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.constant dense<0.000000000e+00> : tensor<3x4xf32>
    %2 = stablehlo.constant dense<0.000000000e+00> : tensor<3xf32>
    %3:6 = "stablehlo.while"(%0, %arg2, %arg0, %arg1, %1, %2) ({
    ^bb0(%4: tensor<i32>, %5: tensor<4xf32>, %6: tensor<4xf32>, %7: tensor<3x4xf32>, %8: tensor<3x4xf32>, %9: tensor<3xf32>):
      %10 = stablehlo.constant dense<3> : tensor<i32>
      %11 = "stablehlo.compare"(%4, %10) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<i32>, tensor<i32>) -> tensor<i1>
      "stablehlo.return"(%11) : (tensor<i1>) -> ()
    }, {
    ^bb0(%12: tensor<i32>, %13: tensor<4xf32>, %14: tensor<4xf32>, %15: tensor<3x4xf32>, %16: tensor<3x4xf32>, %17: tensor<3xf32>):
      %18 = stablehlo.constant dense<0> : tensor<i32>
      %19 = "stablehlo.dynamic_slice"(%15, %12, %18) <{slice_sizes = array<i64: 1, 4>}> : (tensor<3x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
      %20 = "stablehlo.reshape"(%19) : (tensor<1x4xf32>) -> tensor<4xf32>
      %21 = stablehlo.constant dense<0.000000000e+00> : tensor<f32>
      %22 = "stablehlo.reduce"(%14, %21) <{dimensions = array<i64: 0>}> ({
      ^bb0(%23: tensor<f32>, %24: tensor<f32>):
        %25 = "stablehlo.add"(%23, %24) : (tensor<f32>, tensor<f32>) -> tensor<f32>
        "stablehlo.return"(%25) : (tensor<f32>) -> ()
      }) : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
      %26 = stablehlo.multiply %14, %13 : tensor<4xf32>
      %27 = stablehlo.add %26, %20 : tensor<4xf32>
      %28 = "stablehlo.tanh"(%27) : (tensor<4xf32>) -> (tensor<4xf32>)
      %29 = stablehlo.multiply %28, %20 : tensor<4xf32>
      %30 = stablehlo.constant dense<1> : tensor<i32>
      %31 = "stablehlo.add"(%12, %30) : (tensor<i32>, tensor<i32>) -> tensor<i32>
      %32 = "stablehlo.reshape"(%29) : (tensor<4xf32>) -> tensor<1x4xf32>
      %33 = "stablehlo.dynamic_update_slice"(%16, %32, %12, %18) : (tensor<3x4xf32>, tensor<1x4xf32>, tensor<i32>, tensor<i32>) -> tensor<3x4xf32>
      %34 = "stablehlo.reshape"(%22) : (tensor<f32>) -> tensor<1xf32>
      %35 = "stablehlo.dynamic_update_slice"(%17, %34, %12) : (tensor<3xf32>, tensor<1xf32>, tensor<i32>) -> tensor<3xf32>
      "stablehlo.return"(%31, %13, %28, %15, %33, %35) : (tensor<i32>, tensor<4xf32>, tensor<4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3xf32>) -> ()
    }) : (tensor<i32>, tensor<4xf32>, tensor<4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3xf32>) -> (tensor<i32>, tensor<4xf32>, tensor<4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3xf32>)
    return %3#2, %3#4, %3#5 : tensor<4xf32>, tensor<3x4xf32>, tensor<3xf32>
  }
}
