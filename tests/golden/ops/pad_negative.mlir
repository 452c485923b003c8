module @pad_negative attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<3x4xf32>) -> (tensor<3x5xf32>, tensor<2x10xf32>) {
    %0 = stablehlo.constant dense<7.000000000e+00> : tensor<f32>
    %1 = "stablehlo.pad"(%arg0, %0) <{edge_padding_high = array<i64: 1, -1>, edge_padding_low = array<i64: -1, 2>, interior_padding = array<i64: 0, 0>}> : (tensor<3x4xf32>, tensor<f32>) -> (tensor<3x5xf32>)
    %2 = "stablehlo.pad"(%arg0, %0) <{edge_padding_high = array<i64: -1, 1>, edge_padding_low = array<i64: -2, -1>, interior_padding = array<i64: 1, 2>}> : (tensor<3x4xf32>, tensor<f32>) -> (tensor<2x10xf32>)
    return %1, %2 : tensor<3x5xf32>, tensor<2x10xf32>
  }
}
