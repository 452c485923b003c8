module @custom_call attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4xf32>) -> (tensor<4xf32>, tensor<i32>) {
    %0:2 = "stablehlo.custom_call"(%arg0) <{api_version = 4 : i32, backend_config = {count = 3 : i64, scale = 5.00000000000000000e-01 : f64, text = "a \22b\22\0A"}, call_target_name = "a_target", has_side_effect = false}> : (tensor<4xf32>) -> (tensor<4xf32>, tensor<i32>)
    return %0#0, %0#1 : tensor<4xf32>, tensor<i32>
  }
}
