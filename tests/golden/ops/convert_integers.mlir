module @convert_integers attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<8xi32>, %arg1: tensor<8xui32>) -> (tensor<8xi8>, tensor<8xi64>, tensor<8xui16>, tensor<8xi1>) {
    %0 = "stablehlo.convert"(%arg0) : (tensor<8xi32>) -> (tensor<8xi8>)
    %1 = "stablehlo.convert"(%arg1) : (tensor<8xui32>) -> (tensor<8xi64>)
    %2 = "stablehlo.convert"(%arg0) : (tensor<8xi32>) -> (tensor<8xui16>)
    %3 = "stablehlo.convert"(%arg0) : (tensor<8xi32>) -> (tensor<8xi1>)
    return %0, %1, %2, %3 : tensor<8xi8>, tensor<8xi64>, tensor<8xui16>, tensor<8xi1>
  }
}
