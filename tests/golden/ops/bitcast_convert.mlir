module @bitcast_convert attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<8xui32>) -> (tensor<8xf32>, tensor<8xi32>) {
    %0 = stablehlo.constant dense<1065353216> : tensor<8xui32>
    %1 = stablehlo.constant dense<9> : tensor<8xui32>
    %2 = stablehlo.shift_right_logical %arg0, %1 : tensor<8xui32>
    %3 = stablehlo.or %2, %0 : tensor<8xui32>
    %4 = "stablehlo.bitcast_convert"(%3) : (tensor<8xui32>) -> (tensor<8xf32>)
    %5 = "stablehlo.bitcast_convert"(%arg0) : (tensor<8xui32>) -> (tensor<8xi32>)
    return %4, %5 : tensor<8xf32>, tensor<8xi32>
  }
}
