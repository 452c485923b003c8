module @all_gather attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["a"=4]>
  func.func public @main(%arg0: tensor<4x4xf32>, %arg1: tensor<1x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
    %0:2 = sdy.manual_computation(%arg0, %arg1) in_shardings=[<@mesh, [{"a"}, {}]>, <@mesh, [{}, {}]>] out_shardings=[<@mesh, [{}, {}]>, <@mesh, [{"a"}, {}]>] manual_axes={"a"} (%1: tensor<1x4xf32>, %2: tensor<1x4xf32>) {
      %3 = stablehlo.multiply %1, %2 : tensor<1x4xf32>
      %4 = "stablehlo.all_gather"(%3) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> : (tensor<1x4xf32>) -> (tensor<4x4xf32>)
      %5 = "stablehlo.sine"(%4) : (tensor<4x4xf32>) -> (tensor<4x4xf32>)
      %6 = stablehlo.constant dense<0.000000000e+00> : tensor<f32>
      %7 = "stablehlo.reduce"(%4, %6) <{dimensions = array<i64: 0, 1>}> ({
      ^bb0(%8: tensor<f32>, %9: tensor<f32>):
        %10 = "stablehlo.add"(%8, %9) : (tensor<f32>, tensor<f32>) -> tensor<f32>
        "stablehlo.return"(%10) : (tensor<f32>) -> ()
      }) : (tensor<4x4xf32>, tensor<f32>) -> tensor<f32>
      %11 = "stablehlo.broadcast_in_dim"(%7) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> (tensor<1x4xf32>)
      %12 = stablehlo.multiply %1, %11 : tensor<1x4xf32>
      sdy.return %5, %12 : tensor<4x4xf32>, tensor<1x4xf32>
    } : (tensor<4x4xf32>, tensor<1x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>)
    return %0#0, %0#1 : tensor<4x4xf32>, tensor<4x4xf32>
  }
}
