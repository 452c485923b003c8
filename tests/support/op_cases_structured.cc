// Cases of annotations, calls and operations with bodies.
#include "espalier/ops/annotate.h"
#include "espalier/ops/control.h"
#include "espalier/ops/custom_call.h"
#include "espalier/ops/dot.h"
#include "espalier/ops/elementwise.h"
#include "espalier/ops/reduce.h"
#include "espalier/ops/shape.h"
#include "espalier/ops/source.h"
#include "tests/support/op_cases.h"

namespace espalier::test {
namespace {

const TensorType kVector{DType::kF32, {4}};
const TensorType kScalar{DType::kF32, {}};

void add_annotations(std::vector<OpCase>& cases) {
  const auto sharded = [](const Tensors& in) {
    return Tensors{shard(in[0] * 2.0, {"rows", ""}), shard(in[0], {"", "unruled"})};
  };
  cases.push_back({"shard", {{DType::kF32, {4, 2}}}, sharded});
  cases.push_back({"shard_on_mesh",
                   {{DType::kF32, {4, 2}}},
                   sharded,
                   -2,
                   2,
                   true,
                   true,
                   Mesh({{"a", 2}, {"b", 2}})});
  cases.push_back({"optimization_barrier", {kVector, kScalar}, [](const Tensors& in) {
                     const Tensors out = optimization_barrier({in[0], in[1]});
                     return Tensors{out[0] * out[1], optimization_barrier({in[0]})[0]};
                   }});
  cases.push_back({"stop_gradient",
                   {kVector},
                   [](const Tensors& in) { return Tensors{stop_gradient(in[0] * 2.0) * in[0]}; },
                   -2,
                   2,
                   false});
  cases.push_back({"checkpoint_name", {kVector}, [](const Tensors& in) {
                     return Tensors{checkpoint_name(in[0] * in[0], "square") * 2.0};
                   }});
  cases.push_back({"place_in_memory", {kVector}, [](const Tensors& in) {
                     const Tensor host = place_in_memory(in[0] * in[0], MemoryKind::kPinnedHost);
                     return Tensors{place_in_memory(host, MemoryKind::kDevice) * 2.0};
                   }});
  // The rule is the natural one, written another way.
  cases.push_back({"custom_vjp", {kVector, kVector}, [](const Tensors& in) {
                     const Tensor product = in[0] * in[1], square = product * product;
                     return custom_vjp(
                         "square_of_product", {in[0], in[1]}, {square}, {product},
                         [](const Tensors& x, const Tensors&, const Tensors& r, const Tensors& ct) {
                           const Tensor g = ct[0] * r[0] * 2.0;
                           return Tensors{g * x[1], g * x[0]};
                         });
                   }});
  cases.push_back({"custom_call",
                   {kVector},
                   [](const Tensors& in) {
                     return custom_call(
                         "a_target", {in[0]}, {in[0].type(), {DType::kS32, {}}},
                         {{"count", int64_t{3}}, {"scale", 0.5}, {"text", "a \"b\"\n"}});
                   },
                   -2,
                   2,
                   false,
                   false});
  cases.push_back({"custom_call_config",
                   {{DType::kF32, {2, 3}}, kVector},
                   [](const Tensors& in) {
                     return custom_call("a_target", in, {{DType::kF32, {3, 2}}, {DType::kU8, {0}}},
                                        R"({"scale": 0.5})", {{0, 1}, {0}});
                   },
                   -2,
                   2,
                   false,
                   false});
}

void add_scans(std::vector<OpCase>& cases) {
  const TensorType rows{DType::kF32, {3, 4}};
  // Carry, constant, scanned array and output, each of which matters to the others.
  const auto build = [](bool reversed) {
    return [reversed](const Tensors& in) {
      const auto body = [&](const Tensors& carry, const Tensors& x) {
        const Tensor next = tanh(carry[0] * in[2] + x[0]);
        return ScanResult{{next}, {next * x[0], reduce_sum(carry[0])}};
      };
      const ScanResult out = scan(body, {in[0]}, {in[1]}, -1, reversed);
      return Tensors{out.carry[0], out.outputs[0], out.outputs[1]};
    };
  };
  cases.push_back({"scan", {kVector, rows, kVector}, build(false)});
  cases.push_back({"scan_reversed", {kVector, rows, kVector}, build(true)});
  cases.push_back(
      {"scan_counting", {kVector}, [](const Tensors& in) {
         const auto body = [&](const Tensors& carry, const Tensors&) {
           const Tensor x = carry[1] * (convert(carry[0], in[0].dtype()) + 1.0);
           return ScanResult{{carry[0] + 1.0, x}, {carry[0]}};
         };
         const ScanResult out = scan(body, {full_int({DType::kS32, {}}, 0), in[0]}, {}, 3);
         return Tensors{out.carry[0], out.carry[1], out.outputs[0]};
       }});
  cases.push_back({"scan_of_nothing", {kVector, {DType::kF32, {0, 4}}}, [](const Tensors& in) {
                     const auto body = [](const Tensors& carry, const Tensors& x) {
                       return ScanResult{{carry[0] * x[0]}, {carry[0]}};
                     };
                     const ScanResult out = scan(body, {in[0]}, {in[1]});
                     return Tensors{out.carry[0], out.outputs[0]};
                   }});
  cases.push_back({"scan_nested", {kVector, rows}, [](const Tensors& in) {
                     const auto outer = [&](const Tensors& carry, const Tensors& x) {
                       const auto inner = [&](const Tensors& c, const Tensors& element) {
                         return ScanResult{{sin(c[0]) + element[0] * c[0]}, {}};
                       };
                       const Tensor last =
                           scan(inner, {reduce_sum(carry[0]) * 0.1}, {x[0]}).carry[0];
                       return ScanResult{{carry[0] * 0.5 + last * 0.1}, {last}};
                     };
                     const ScanResult out = scan(outer, {in[0]}, {in[1]});
                     return Tensors{out.carry[0], out.outputs[0]};
                   }});
}

void add_control(std::vector<OpCase>& cases) {
  cases.push_back({"while",
                   {kVector, kScalar},
                   [](const Tensors& in) {
                     return while_loop(
                         [&](const Tensors& s) {
                           return compare(reduce_sum(abs(s[0])), in[1] + 20.0, Direction::kLt);
                         },
                         [&](const Tensors& s) {
                           return Tensors{s[0] * 2.0 + in[1], s[1] + 1.0};
                         },
                         {in[0] + 3.0, full_int({DType::kS32, {}}, 0)});
                   },
                   -0.5,
                   0.5,
                   false});
  for (const bool yes : {true, false}) {
    cases.push_back(
        {yes ? "cond_true" : "cond_false", {kVector, kVector}, [yes](const Tensors& in) {
           const Tensor predicate =
               compare(reduce_sum(in[0]), reduce_sum(in[0]) - (yes ? 1.0 : -1.0), Direction::kGt);
           return cond(
               predicate,
               [&] {
                 return Tensors{sin(in[0]) * in[1], in[0]};
               },
               [&] {
                 return Tensors{exp(in[1]), in[1] * in[1]};
               });
         }});
  }
  // The branch not taken has no finite derivative: none of it may reach the result.
  cases.push_back({"cond_guards", {kVector}, [](const Tensors& in) {
                     const Tensor zeros_here = in[0] * 0.0;
                     return cond(
                         compare(reduce_sum(abs(zeros_here)), 0.0, Direction::kGt),
                         [&] { return Tensors{log(zeros_here)}; },
                         [&] { return Tensors{in[0] * 3.0}; });
                   }});
  cases.push_back({"remat", {kVector, {DType::kF32, {4, 4}}}, [](const Tensors& in) {
                     return remat(
                         [&](const Tensors& x) {
                           const Tensor h = tanh(matmul(x[0], in[1]));
                           return Tensors{matmul(h, exp(in[1])), h};
                         },
                         {in[0]});
                   }});
}

}  // namespace

void add_structured_cases(std::vector<OpCase>& cases) {
  add_annotations(cases);
  add_scans(cases);
  add_control(cases);
}

}  // namespace espalier::test
