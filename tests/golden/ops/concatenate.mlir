module @concatenate attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<3x4xf32>, %arg1: tensor<3x1xf32>, %arg2: tensor<3x0xf32>) -> (tensor<3x9xf32>, tensor<6x4xf32>, tensor<2x3x1xf32>) {
    %0 = "stablehlo.concatenate"(%arg0, %arg1, %arg2, %arg0) <{dimension = 1 : i64}> : (tensor<3x4xf32>, tensor<3x1xf32>, tensor<3x0xf32>, tensor<3x4xf32>) -> (tensor<3x9xf32>)
    %1 = "stablehlo.concatenate"(%arg0, %arg0) <{dimension = 0 : i64}> : (tensor<3x4xf32>, tensor<3x4xf32>) -> (tensor<6x4xf32>)
    %2 = "stablehlo.reshape"(%arg1) : (tensor<3x1xf32>) -> (tensor<1x3x1xf32>)
    %3 = "stablehlo.concatenate"(%2, %2) <{dimension = 0 : i64}> : (tensor<1x3x1xf32>, tensor<1x3x1xf32>) -> (tensor<2x3x1xf32>)
    return %0, %1, %3 : tensor<3x9xf32>, tensor<6x4xf32>, tensor<2x3x1xf32>
  }
}
