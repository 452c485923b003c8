module @dot_general_accumulate attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<3x4xf32>, %arg1: tensor<3x4xf32>) -> (tensor<3x3xf32>) {
    %0 = "stablehlo.convert"(%arg0) : (tensor<3x4xf32>) -> (tensor<3x4xbf16>)
    %1 = "stablehlo.convert"(%arg1) : (tensor<3x4xf32>) -> (tensor<3x4xbf16>)
    %2 = "stablehlo.dot_general"(%0, %1) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1]>}> : (tensor<3x4xbf16>, tensor<3x4xbf16>) -> (tensor<3x3xf32>)
    return %2 : tensor<3x3xf32>
  }
}
