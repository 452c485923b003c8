module @convert_bf16 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<6xf32>) -> (tensor<6xf32>) {
    %0 = "stablehlo.convert"(%arg0) : (tensor<6xf32>) -> (tensor<6xbf16>)
    %1 = "stablehlo.convert"(%0) : (tensor<6xbf16>) -> (tensor<6xf32>)
    return %1 : tensor<6xf32>
  }
}
