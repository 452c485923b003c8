// Cases of operations that move elements, reductions, products and random bits.
#include "espalier/ops/dot.h"
#include "espalier/ops/elementwise.h"
#include "espalier/ops/gather.h"
#include "espalier/ops/reduce.h"
#include "espalier/ops/shape.h"
#include "espalier/ops/source.h"
#include "espalier/ops/threefry.h"
#include "tests/support/op_cases.h"

namespace espalier::test {
namespace {

const TensorType kCube{DType::kF32, {2, 3, 4}};
const TensorType kMatrix{DType::kF32, {3, 4}};
const TensorType kIndex{DType::kS32, {}};

void add_moves(std::vector<OpCase>& cases) {
  cases.push_back({"reshape", {kCube}, [](const Tensors& in) {
                     return Tensors{reshape(in[0], {4, -1}), reshape(in[0], {1, 24, 1})};
                   }});
  cases.push_back({"broadcast_in_dim", {{DType::kF32, {3, 1}}}, [](const Tensors& in) {
                     return Tensors{broadcast_in_dim(in[0], {3, 2, 4}, {0, 2}),
                                    broadcast_in_dim(in[0], {3, 1, 2}, {0, 1}),
                                    broadcast_to(in[0], {2, 3, 2})};
                   }});
  cases.push_back(
      {"broadcast_in_dim_empty", {{DType::kF32, {1}}}, [](const Tensors& in) {
         return Tensors{broadcast_in_dim(in[0], {0}, {0}), broadcast_in_dim(in[0], {0, 1}, {1})};
       }});
  cases.push_back({"transpose", {kCube}, [](const Tensors& in) {
                     return Tensors{transpose(in[0], {2, 0, 1}), transpose(in[0], {1, 0, 2})};
                   }});
  cases.push_back({"slice", {kCube}, [](const Tensors& in) {
                     return Tensors{slice(in[0], {0, 1, 0}, {2, 3, 4}, {1, 1, 3}),
                                    slice(in[0], {1, 0, 1}, {2, 3, 4}, {2, 2, 2}),
                                    slice_dim(in[0], -1, 1, 3), slice_dim(in[0], 1, 2, 2)};
                   }});
  cases.push_back(
      {"pad", {kMatrix}, [](const Tensors& in) {
         return Tensors{pad(in[0], 1.5, {1, 0}, {0, 2}), pad(in[0], 0, {0, 1}, {1, 0}, {2, 1})};
       }});
  cases.push_back(
      {"pad_negative", {kMatrix}, [](const Tensors& in) {
         return Tensors{pad(in[0], 7, {-1, 2}, {1, -1}), pad(in[0], 7, {-2, -1}, {-1, 1}, {1, 2})};
       }});
  cases.push_back({"pad_value", {kMatrix, {DType::kF32, {}}}, [](const Tensors& in) {
                     return Tensors{apply(Pad{{1, -1}, {0, 2}, {1, 0}}, {in[0], in[1]})};
                   }});
  cases.push_back({"concatenate",
                   {kMatrix, {DType::kF32, {3, 1}}, {DType::kF32, {3, 0}}},
                   [](const Tensors& in) {
                     return Tensors{concatenate({in[0], in[1], in[2], in[0]}, 1),
                                    concatenate({in[0], in[0]}, -2), stack({in[1], in[1]})};
                   }});
  cases.push_back({"reverse", {kCube}, [](const Tensors& in) {
                     return Tensors{reverse(in[0], {0, 2})};
                   }});
  cases.push_back({"dynamic_slice",
                   {kMatrix, kIndex, kIndex},
                   [](const Tensors& in) {
                     return Tensors{dynamic_slice(in[0], {in[1], in[2]}, {2, 3})};
                   },
                   -1,
                   3});
  cases.push_back({"dynamic_update_slice",
                   {kMatrix, {DType::kF32, {2, 3}}, kIndex, kIndex},
                   [](const Tensors& in) {
                     return Tensors{dynamic_update_slice(in[0], in[1], {in[2], in[3]})};
                   },
                   -1,
                   3});
  // Ids reach outside the table on both sides.
  cases.push_back({"take",
                   {{DType::kF32, {4, 3}}, {DType::kS32, {2, 5}}},
                   [](const Tensors& in) { return Tensors{take(in[0], in[1])}; },
                   -2,
                   6});
  cases.push_back({"take_scalars",
                   {{DType::kF32, {5}}, {DType::kU32, {7}}},
                   [](const Tensors& in) { return Tensors{take(in[0], in[1])}; },
                   0,
                   6});
  cases.push_back({"take_bytes",
                   {{DType::kF32, {200, 1}}, {DType::kS8, {3}}},
                   [](const Tensors& in) { return Tensors{take(in[0], in[1])}; },
                   -2,
                   120});
  cases.push_back({"add_rows",
                   {{DType::kF32, {4, 3}}, {DType::kS32, {6}}, {DType::kF32, {6, 3}}},
                   [](const Tensors& in) { return Tensors{add_rows(in[0], in[1], in[2])}; },
                   -2,
                   5});
}

void add_reductions(std::vector<OpCase>& cases) {
  const TensorType ints{DType::kS32, {2, 5}}, words{DType::kU32, {2, 5}},
      bools{DType::kBool, {2, 5}};
  cases.push_back(
      {"reduce_sum", {kCube}, [](const Tensors& in) {
         return Tensors{reduce_sum(in[0], {1}), reduce_sum(in[0], {-1, 0}), reduce_sum(in[0])};
       }});
  cases.push_back({"reduce_sum_integers",
                   {ints},
                   [](const Tensors& in) { return Tensors{reduce_sum(in[0], {1})}; },
                   -100,
                   100});
  cases.push_back({"reduce_max", {kCube}, [](const Tensors& in) {
                     return Tensors{reduce_max(in[0], {2}), reduce_max(in[0], {0, 1})};
                   }});
  cases.push_back(
      {"reduce_min", {kCube}, [](const Tensors& in) { return Tensors{reduce_min(in[0], {1})}; }});
  cases.push_back({"reduce_extremes_integers",
                   {ints, words, {DType::kS8, {2, 5}}, bools},
                   [](const Tensors& in) {
                     Tensors out;
                     for (const Tensor& x : in) {
                       out.push_back(reduce_max(x, {1}));
                       out.push_back(reduce_min(x, {1}));
                     }
                     return out;
                   },
                   -100,
                   100});
  cases.push_back({"reduce_and",
                   {bools, ints, words},
                   [](const Tensors& in) {
                     Tensors out;
                     for (const Tensor& x : in) out.push_back(reduce(ReduceKind::kAnd, x, {0}));
                     return out;
                   },
                   -100,
                   100});
  cases.push_back({"reduce_or",
                   {bools, ints, words},
                   [](const Tensors& in) {
                     Tensors out;
                     for (const Tensor& x : in) out.push_back(reduce(ReduceKind::kOr, x, {1}));
                     return out;
                   },
                   -100,
                   100});
  cases.push_back({"reduce_empty", {{DType::kF32, {2, 0}}}, [](const Tensors& in) {
                     return Tensors{reduce_sum(in[0], {1}), reduce_max(in[0], {1})};
                   }});
  cases.push_back(
      {"mean", {kCube}, [](const Tensors& in) {
         return Tensors{mean(in[0], {-1}), keep_dims(mean(in[0], {0, 2}), in[0], {0, 2})};
       }});
  cases.push_back({"argmax", {kCube, {DType::kBool, {2, 5}}}, [](const Tensors& in) {
                     return Tensors{argmax(in[0], -1), argmax(in[0], 0),
                                    argmax(convert(in[1], DType::kS32), 1)};
                   }});
  cases.push_back({"top_k", {{DType::kF32, {2, 6}}}, [](const Tensors& in) {
                     const TopKResult top = top_k(in[0], 3);
                     return Tensors{top.values, top.indices};
                   }});
  cases.push_back({"top_k_rank_1", {{DType::kF32, {5}}}, [](const Tensors& in) {
                     const TopKResult top = top_k(in[0], 5);
                     return Tensors{top.values * 2.0, top.indices};
                   }});
}

void add_products(std::vector<OpCase>& cases) {
  cases.push_back({"matmul", {kCube, {DType::kF32, {4, 5}}}, [](const Tensors& in) {
                     return Tensors{matmul(in[0], in[1])};
                   }});
  cases.push_back({"matmul_transposed", {kCube, {DType::kF32, {5, 4}}}, [](const Tensors& in) {
                     return Tensors{matmul_transposed(in[0], in[1])};
                   }});
  cases.push_back(
      {"dot_general", {{DType::kF32, {2, 3, 4}}, {DType::kF32, {2, 4, 2}}}, [](const Tensors& in) {
         return Tensors{dot_general(in[0], in[1], {0}, {0}, {2}, {1})};
       }});
  // Batch and contracted dims anywhere, contracted in a different order on each side.
  cases.push_back({"dot_general_orders",
                   {{DType::kF32, {4, 2, 3, 2, 1}}, {DType::kF32, {3, 5, 2, 4}}},
                   [](const Tensors& in) {
                     return Tensors{dot_general(in[0], in[1], {3}, {2}, {0, 2}, {3, 0})};
                   }});
  cases.push_back({"dot_general_two_batches",
                   {{DType::kF32, {2, 3, 4}}, {DType::kF32, {3, 2, 4}}},
                   [](const Tensors& in) {
                     return Tensors{dot_general(in[0], in[1], {1, 0}, {0, 1}, {2}, {2}),
                                    dot_general(in[0], in[1], {0}, {1}, {}, {})};
                   }});
  cases.push_back({"dot_general_accumulate",
                   {kMatrix, kMatrix},
                   [](const Tensors& in) {
                     const Tensor a = convert(in[0], DType::kBF16),
                                  b = convert(in[1], DType::kBF16);
                     return Tensors{apply(DotGeneral{{}, {}, {1}, {1}, DType::kF32}, {a, b})};
                   },
                   -2,
                   2,
                   false});
  cases.push_back({"threefry",
                   {{DType::kU32, {}}, {DType::kU32, {}}, {DType::kU32, {5}}, {DType::kU32, {5}}},
                   [](const Tensors& in) {
                     const TwoWords words = threefry(in[0], in[1], in[2], in[3]);
                     return Tensors{words.first, words.second};
                   },
                   0,
                   4e9});
}

}  // namespace

void add_shape_cases(std::vector<OpCase>& cases) {
  add_moves(cases);
  add_reductions(cases);
  add_products(cases);
}

}  // namespace espalier::test
