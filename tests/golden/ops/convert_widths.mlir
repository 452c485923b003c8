module @convert_widths attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<6xf32>) -> (tensor<6xf32>) {
    %0 = "stablehlo.convert"(%arg0) : (tensor<6xf32>) -> (tensor<6xf64>)
    %1 = stablehlo.constant dense<2.00000000000000000e+00> : tensor<6xf64>
    %2 = stablehlo.multiply %0, %1 : tensor<6xf64>
    %3 = "stablehlo.convert"(%2) : (tensor<6xf64>) -> (tensor<6xf32>)
    return %3 : tensor<6xf32>
  }
}
