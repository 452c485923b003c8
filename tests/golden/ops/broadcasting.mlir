module @broadcasting attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<2x3xf32>, %arg1: tensor<3xf32>, %arg2: tensor<2x1xf32>) -> (tensor<2x3xf32>) {
    %0 = stablehlo.constant dense<2.000000000e+00> : tensor<3xf32>
    %1 = stablehlo.multiply %arg1, %0 : tensor<3xf32>
    %2 = "stablehlo.broadcast_in_dim"(%arg1) <{broadcast_dimensions = array<i64: 1>}> : (tensor<3xf32>) -> (tensor<2x3xf32>)
    %3 = stablehlo.multiply %arg0, %2 : tensor<2x3xf32>
    %4 = "stablehlo.broadcast_in_dim"(%arg2) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<2x1xf32>) -> (tensor<2x3xf32>)
    %5 = stablehlo.add %3, %4 : tensor<2x3xf32>
    %6 = "stablehlo.broadcast_in_dim"(%1) <{broadcast_dimensions = array<i64: 1>}> : (tensor<3xf32>) -> (tensor<2x3xf32>)
    %7 = stablehlo.subtract %5, %6 : tensor<2x3xf32>
    return %7 : tensor<2x3xf32>
  }
}
