module @argmax attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<2x3x4xf32>, %arg1: tensor<2x5xi1>) -> (tensor<2x3xi32>, tensor<3x4xi32>, tensor<2xi32>) {
    %0 = "stablehlo.iota"() <{iota_dimension = 2 : i64}> : () -> (tensor<2x3x4xi32>)
    %1 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %2 = "stablehlo.reduce"(%arg0, %1) <{dimensions = array<i64: 2>}> ({
    ^bb0(%3: tensor<f32>, %4: tensor<f32>):
      %5 = "stablehlo.maximum"(%3, %4) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%5) : (tensor<f32>) -> ()
    }) : (tensor<2x3x4xf32>, tensor<f32>) -> tensor<2x3xf32>
    %6 = "stablehlo.reshape"(%2) : (tensor<2x3xf32>) -> (tensor<2x3x1xf32>)
    %7 = "stablehlo.broadcast_in_dim"(%6) <{broadcast_dimensions = array<i64: 0, 1, 2>}> : (tensor<2x3x1xf32>) -> (tensor<2x3x4xf32>)
    %8 = "stablehlo.compare"(%arg0, %7) <{compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction EQ>}> : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> (tensor<2x3x4xi1>)
    %9 = stablehlo.constant dense<3> : tensor<2x3x4xi32>
    %10 = "stablehlo.select"(%8, %0, %9) : (tensor<2x3x4xi1>, tensor<2x3x4xi32>, tensor<2x3x4xi32>) -> (tensor<2x3x4xi32>)
    %11 = stablehlo.constant dense<2147483647> : tensor<i32>
    %12 = "stablehlo.reduce"(%10, %11) <{dimensions = array<i64: 2>}> ({
    ^bb0(%13: tensor<i32>, %14: tensor<i32>):
      %15 = "stablehlo.minimum"(%13, %14) : (tensor<i32>, tensor<i32>) -> tensor<i32>
      "stablehlo.return"(%15) : (tensor<i32>) -> ()
    }) : (tensor<2x3x4xi32>, tensor<i32>) -> tensor<2x3xi32>
    %16 = "stablehlo.iota"() <{iota_dimension = 0 : i64}> : () -> (tensor<2x3x4xi32>)
    %17 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %18 = "stablehlo.reduce"(%arg0, %17) <{dimensions = array<i64: 0>}> ({
    ^bb0(%19: tensor<f32>, %20: tensor<f32>):
      %21 = "stablehlo.maximum"(%19, %20) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%21) : (tensor<f32>) -> ()
    }) : (tensor<2x3x4xf32>, tensor<f32>) -> tensor<3x4xf32>
    %22 = "stablehlo.reshape"(%18) : (tensor<3x4xf32>) -> (tensor<1x3x4xf32>)
    %23 = "stablehlo.broadcast_in_dim"(%22) <{broadcast_dimensions = array<i64: 0, 1, 2>}> : (tensor<1x3x4xf32>) -> (tensor<2x3x4xf32>)
    %24 = "stablehlo.compare"(%arg0, %23) <{compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction EQ>}> : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> (tensor<2x3x4xi1>)
    %25 = stablehlo.constant dense<1> : tensor<2x3x4xi32>
    %26 = "stablehlo.select"(%24, %16, %25) : (tensor<2x3x4xi1>, tensor<2x3x4xi32>, tensor<2x3x4xi32>) -> (tensor<2x3x4xi32>)
    %27 = stablehlo.constant dense<2147483647> : tensor<i32>
    %28 = "stablehlo.reduce"(%26, %27) <{dimensions = array<i64: 0>}> ({
    ^bb0(%29: tensor<i32>, %30: tensor<i32>):
      %31 = "stablehlo.minimum"(%29, %30) : (tensor<i32>, tensor<i32>) -> tensor<i32>
      "stablehlo.return"(%31) : (tensor<i32>) -> ()
    }) : (tensor<2x3x4xi32>, tensor<i32>) -> tensor<3x4xi32>
    %32 = "stablehlo.convert"(%arg1) : (tensor<2x5xi1>) -> (tensor<2x5xi32>)
    %33 = "stablehlo.iota"() <{iota_dimension = 1 : i64}> : () -> (tensor<2x5xi32>)
    %34 = stablehlo.constant dense<-2147483648> : tensor<i32>
    %35 = "stablehlo.reduce"(%32, %34) <{dimensions = array<i64: 1>}> ({
    ^bb0(%36: tensor<i32>, %37: tensor<i32>):
      %38 = "stablehlo.maximum"(%36, %37) : (tensor<i32>, tensor<i32>) -> tensor<i32>
      "stablehlo.return"(%38) : (tensor<i32>) -> ()
    }) : (tensor<2x5xi32>, tensor<i32>) -> tensor<2xi32>
    %39 = "stablehlo.reshape"(%35) : (tensor<2xi32>) -> (tensor<2x1xi32>)
    %40 = "stablehlo.broadcast_in_dim"(%39) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<2x1xi32>) -> (tensor<2x5xi32>)
    %41 = "stablehlo.compare"(%32, %40) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction EQ>}> : (tensor<2x5xi32>, tensor<2x5xi32>) -> (tensor<2x5xi1>)
    %42 = stablehlo.constant dense<4> : tensor<2x5xi32>
    %43 = "stablehlo.select"(%41, %33, %42) : (tensor<2x5xi1>, tensor<2x5xi32>, tensor<2x5xi32>) -> (tensor<2x5xi32>)
    %44 = stablehlo.constant dense<2147483647> : tensor<i32>
    %45 = "stablehlo.reduce"(%43, %44) <{dimensions = array<i64: 1>}> ({
    ^bb0(%46: tensor<i32>, %47: tensor<i32>):
      %48 = "stablehlo.minimum"(%46, %47) : (tensor<i32>, tensor<i32>) -> tensor<i32>
      "stablehlo.return"(%48) : (tensor<i32>) -> ()
    }) : (tensor<2x5xi32>, tensor<i32>) -> tensor<2xi32>
    return %12, %28, %45 : tensor<2x3xi32>, tensor<3x4xi32>, tensor<2xi32>
  }
}
