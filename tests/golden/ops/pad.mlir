module @pad attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<3x4xf32>) -> (tensor<4x6xf32>, tensor<8x8xf32>) {
    %0 = stablehlo.constant dense<1.500000000e+00> : tensor<f32>
    %1 = "stablehlo.pad"(%arg0, %0) <{edge_padding_high = array<i64: 0, 2>, edge_padding_low = array<i64: 1, 0>, interior_padding = array<i64: 0, 0>}> : (tensor<3x4xf32>, tensor<f32>) -> (tensor<4x6xf32>)
    %2 = stablehlo.constant dense<0.000000000e+00> : tensor<f32>
    %3 = "stablehlo.pad"(%arg0, %2) <{edge_padding_high = array<i64: 1, 0>, edge_padding_low = array<i64: 0, 1>, interior_padding = array<i64: 2, 1>}> : (tensor<3x4xf32>, tensor<f32>) -> (tensor<8x8xf32>)
    return %1, %3 : tensor<4x6xf32>, tensor<8x8xf32>
  }
}
