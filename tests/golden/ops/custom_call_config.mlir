module @custom_call_config attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<2x3xf32>, %arg1: tensor<4xf32>) -> (tensor<3x2xf32>, tensor<0xui8>) {
    %0:2 = "stablehlo.custom_call"(%arg0, %arg1) <{api_version = 2 : i32, backend_config = "{\22scale\22: 0.5}", call_target_name = "a_target", has_side_effect = false, operand_layouts = [dense<[1, 0]> : tensor<2xindex>, dense<[0]> : tensor<1xindex>], result_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<[0]> : tensor<1xindex>]}> : (tensor<2x3xf32>, tensor<4xf32>) -> (tensor<3x2xf32>, tensor<0xui8>)
    return %0#0, %0#1 : tensor<3x2xf32>, tensor<0xui8>
  }
}
