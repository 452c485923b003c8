module @convert_to_floats attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<8xi32>, %arg1: tensor<8xui32>, %arg2: tensor<8xi1>) -> (tensor<8xf32>, tensor<8xf64>, tensor<8xf32>) {
    %0 = "stablehlo.convert"(%arg0) : (tensor<8xi32>) -> (tensor<8xf32>)
    %1 = "stablehlo.convert"(%arg1) : (tensor<8xui32>) -> (tensor<8xf64>)
    %2 = "stablehlo.convert"(%arg2) : (tensor<8xi1>) -> (tensor<8xf32>)
    return %0, %1, %2 : tensor<8xf32>, tensor<8xf64>, tensor<8xf32>
  }
}
