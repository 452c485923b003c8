module @shift_right_words attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<8xui32>) -> (tensor<8xui32>) {
    %0 = stablehlo.constant dense<9> : tensor<8xui32>
    %1 = stablehlo.shift_right_logical %arg0, %0 : tensor<8xui32>
    return %1 : tensor<8xui32>
  }
}
