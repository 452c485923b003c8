module @max_words attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<8xui32>, %arg1: tensor<8xui32>) -> (tensor<8xui32>) {
    %0 = stablehlo.maximum %arg0, %arg1 : tensor<8xui32>
    return %0 : tensor<8xui32>
  }
}
