module @take_bytes attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<200x1xf32>, %arg1: tensor<3xi8>) -> (tensor<3x1xf32>) {
    %0 = "stablehlo.gather"(%arg0, %arg1) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1>}> : (tensor<200x1xf32>, tensor<3xi8>) -> (tensor<3x1xf32>)
    return %0 : tensor<3x1xf32>
  }
}
