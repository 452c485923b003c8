module @all_reduce attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["a"=4]>
  func.func public @main(%arg0: tensor<4x4xf32>, %arg1: tensor<1x4xf32>) -> (tensor<1x4xf32>, tensor<4x4xf32>) {
    %0:2 = sdy.manual_computation(%arg0, %arg1) in_shardings=[<@mesh, [{"a"}, {}]>, <@mesh, [{}, {}]>] out_shardings=[<@mesh, [{}, {}]>, <@mesh, [{"a"}, {}]>] manual_axes={"a"} (%1: tensor<1x4xf32>, %2: tensor<1x4xf32>) {
      %3 = "stablehlo.sine"(%1) : (tensor<1x4xf32>) -> (tensor<1x4xf32>)
      %4 = stablehlo.multiply %3, %2 : tensor<1x4xf32>
      %5 = "stablehlo.all_reduce"(%4) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
      ^bb0(%6: tensor<f32>, %7: tensor<f32>):
        %8 = "stablehlo.add"(%6, %7) : (tensor<f32>, tensor<f32>) -> tensor<f32>
        "stablehlo.return"(%8) : (tensor<f32>) -> ()
      }) : (tensor<1x4xf32>) -> tensor<1x4xf32>
      %9 = stablehlo.multiply %5, %1 : tensor<1x4xf32>
      sdy.return %5, %9 : tensor<1x4xf32>, tensor<1x4xf32>
    } : (tensor<4x4xf32>, tensor<1x4xf32>) -> (tensor<1x4xf32>, tensor<4x4xf32>)
    return %0#0, %0#1 : tensor<1x4xf32>, tensor<4x4xf32>
  }
}
