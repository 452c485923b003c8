module @slice attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<2x3x4xf32>) -> (tensor<2x2x2xf32>, tensor<1x2x2xf32>, tensor<2x3x2xf32>, tensor<2x0x4xf32>) {
    %0 = "stablehlo.slice"(%arg0) <{limit_indices = array<i64: 2, 3, 4>, start_indices = array<i64: 0, 1, 0>, strides = array<i64: 1, 1, 3>}> : (tensor<2x3x4xf32>) -> (tensor<2x2x2xf32>)
    %1 = "stablehlo.slice"(%arg0) <{limit_indices = array<i64: 2, 3, 4>, start_indices = array<i64: 1, 0, 1>, strides = array<i64: 2, 2, 2>}> : (tensor<2x3x4xf32>) -> (tensor<1x2x2xf32>)
    %2 = "stablehlo.slice"(%arg0) <{limit_indices = array<i64: 2, 3, 3>, start_indices = array<i64: 0, 0, 1>, strides = array<i64: 1, 1, 1>}> : (tensor<2x3x4xf32>) -> (tensor<2x3x2xf32>)
    %3 = "stablehlo.slice"(%arg0) <{limit_indices = array<i64: 2, 2, 4>, start_indices = array<i64: 0, 2, 0>, strides = array<i64: 1, 1, 1>}> : (tensor<2x3x4xf32>) -> (tensor<2x0x4xf32>)
    return %0, %1, %2, %3 : tensor<2x2x2xf32>, tensor<1x2x2xf32>, tensor<2x3x2xf32>, tensor<2x0x4xf32>
  }
}
