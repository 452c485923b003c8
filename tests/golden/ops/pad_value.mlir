module @pad_value attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<3x4xf32>, %arg1: tensor<f32>) -> (tensor<6x5xf32>) {
    %0 = "stablehlo.pad"(%arg0, %arg1) <{edge_padding_high = array<i64: 0, 2>, edge_padding_low = array<i64: 1, -1>, interior_padding = array<i64: 1, 0>}> : (tensor<3x4xf32>, tensor<f32>) -> (tensor<6x5xf32>)
    return %0 : tensor<6x5xf32>
  }
}
