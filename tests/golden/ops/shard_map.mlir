module @shard_map attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["a"=2, "b"=2]>
  func.func public @main(%arg0: tensor<4x4xf32>, %arg1: tensor<4x4xf32>, %arg2: tensor<f32>) -> (tensor<4x4xf32>, tensor<f32>, tensor<4x4xf32>) {
    %0:3 = sdy.manual_computation(%arg0, %arg1, %arg2) in_shardings=[<@mesh, [{"a"}, {"b"}]>, <@mesh, [{"b", "a"}, {}]>, <@mesh, []>] out_shardings=[<@mesh, [{"a"}, {"b"}]>, <@mesh, []>, <@mesh, [{"b", "a"}, {}]>] manual_axes={"a", "b"} (%1: tensor<2x2xf32>, %2: tensor<1x4xf32>, %3: tensor<f32>) {
      %4 = stablehlo.multiply %1, %1 : tensor<2x2xf32>
      %5 = stablehlo.constant dense<0.000000000e+00> : tensor<f32>
      %6 = "stablehlo.reduce"(%4, %5) <{dimensions = array<i64: 1>}> ({
      ^bb0(%7: tensor<f32>, %8: tensor<f32>):
        %9 = "stablehlo.add"(%7, %8) : (tensor<f32>, tensor<f32>) -> tensor<f32>
        "stablehlo.return"(%9) : (tensor<f32>) -> ()
      }) : (tensor<2x2xf32>, tensor<f32>) -> tensor<2xf32>
      %10 = "stablehlo.all_reduce"(%6) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> ({
      ^bb0(%11: tensor<f32>, %12: tensor<f32>):
        %13 = "stablehlo.add"(%11, %12) : (tensor<f32>, tensor<f32>) -> tensor<f32>
        "stablehlo.return"(%13) : (tensor<f32>) -> ()
      }) : (tensor<2xf32>) -> tensor<2xf32>
      %14 = "stablehlo.sine"(%2) : (tensor<1x4xf32>) -> (tensor<1x4xf32>)
      %15 = stablehlo.constant dense<0.000000000e+00> : tensor<f32>
      %16 = "stablehlo.reduce"(%14, %15) <{dimensions = array<i64: 0, 1>}> ({
      ^bb0(%17: tensor<f32>, %18: tensor<f32>):
        %19 = "stablehlo.add"(%17, %18) : (tensor<f32>, tensor<f32>) -> tensor<f32>
        "stablehlo.return"(%19) : (tensor<f32>) -> ()
      }) : (tensor<1x4xf32>, tensor<f32>) -> tensor<f32>
      %20 = stablehlo.multiply %16, %3 : tensor<f32>
      %21 = "stablehlo.all_reduce"(%20) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
      ^bb0(%22: tensor<f32>, %23: tensor<f32>):
        %24 = "stablehlo.add"(%22, %23) : (tensor<f32>, tensor<f32>) -> tensor<f32>
        "stablehlo.return"(%24) : (tensor<f32>) -> ()
      }) : (tensor<f32>) -> tensor<f32>
      %25 = "stablehlo.reshape"(%10) : (tensor<2xf32>) -> (tensor<2x1xf32>)
      %26 = "stablehlo.broadcast_in_dim"(%25) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<2x1xf32>) -> (tensor<2x2xf32>)
      %27 = stablehlo.multiply %1, %26 : tensor<2x2xf32>
      %28 = "stablehlo.broadcast_in_dim"(%21) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> (tensor<1x4xf32>)
      %29 = stablehlo.multiply %2, %28 : tensor<1x4xf32>
      sdy.return %27, %21, %29 : tensor<2x2xf32>, tensor<f32>, tensor<1x4xf32>
    } : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) -> (tensor<4x4xf32>, tensor<f32>, tensor<4x4xf32>)
    return %0#0, %0#1, %0#2 : tensor<4x4xf32>, tensor<f32>, tensor<4x4xf32>
  }
}
