// Cases of manual regions: each collective over all axes of a mesh and with an axis left to the
// partitioner. Results that are equal along an axis are mixed with split ones, as operands are.
#include "espalier/ops/control.h"
#include "espalier/ops/dot.h"
#include "espalier/ops/elementwise.h"
#include "espalier/ops/reduce.h"
#include "espalier/ops/shape.h"
#include "espalier/ops/shard_map.h"
#include "tests/support/op_cases.h"

namespace espalier::test {
namespace {

using Body = std::function<Tensors(const Tensors&, const Manual&)>;

struct Region {
  std::vector<std::string> axes;
  std::vector<PartitionSpec> in, out;
  Body body;
};

OpCase region_case(const std::string& label, const Mesh& mesh, std::vector<TensorType> inputs,
                   Region region) {
  const auto build = [mesh, region](const Tensors& in) {
    return shard_map(mesh, region.axes, region.in, region.out, region.body, in);
  };
  return {label, std::move(inputs), build, -2, 2, true, true, mesh};
}

const PartitionSpec kRowsByA = {{"a"}, {}};
const PartitionSpec kWhole = {{}, {}};

// Bodies over axis a alone: the first operand split by rows, the second the same everywhere.
const std::pair<const char*, Region> kOverA[] = {
    {"all_reduce",
     {{"a"},
      {kRowsByA, kWhole},
      {kWhole, kRowsByA},
      [](const Tensors& x, const Manual& m) {
        const Tensor sum = m.all_reduce(sin(x[0]) * x[1], {"a"});
        return Tensors{sum, sum * x[0]};
      }}},
    {"all_gather",
     {{"a"},
      {kRowsByA, kWhole},
      {kWhole, kRowsByA},
      [](const Tensors& x, const Manual& m) {
        const Tensor all = m.all_gather(x[0] * x[1], {"a"}, 0);
        return Tensors{sin(all), x[0] * reduce_sum(all)};
      }}},
    {"reduce_scatter",
     {{"a"},
      {kRowsByA, {{}, {"a"}}},
      {kRowsByA},
      [](const Tensors& x, const Manual& m) {
        return Tensors{m.reduce_scatter(dot_general(x[1], x[0], {}, {}, {1}, {0}), {"a"}, 0)};
      }}},
    {"collective_permute",
     {{"a"},
      {kRowsByA, kWhole},
      {kRowsByA, kRowsByA, kRowsByA},
      [](const Tensors& x, const Manual& m) {
        return Tensors{m.rotate(sin(x[0]), "a") * x[0], m.rotate(x[0] * x[1], "a", -1),
                       m.collective_permute(x[0], "a", {{0, 1}})};
      }}},
    {"all_to_all",
     {{"a"},
      {kRowsByA, kWhole},
      {{{}, {"a"}}},
      [](const Tensors& x, const Manual& m) {
        const Tensor columns = m.all_to_all(x[0] * x[1], "a", 1, 0);
        return Tensors{columns * columns};
      }}},
    {"axis_index",
     {{"a"},
      {kRowsByA, kWhole},
      {kRowsByA},
      [](const Tensors& x, const Manual& m) {
        const Tensor i = convert(m.axis_index("a"), x[0].dtype()) + 1.0;
        return Tensors{x[0] * i * i + x[1]};
      }}},
    // A step around the ring for each device, inside a scan.
    {"ring",
     {{"a"},
      {kRowsByA, kWhole},
      {kRowsByA},
      [](const Tensors& x, const Manual& m) {
        const auto body = [&](const Tensors& c, const Tensors&) {
          return ScanResult{{c[0] + sin(c[1]) * x[1], m.rotate(c[1], "a")}, {}};
        };
        return Tensors{scan(body, {x[0], x[0]}, {}, m.axis_size("a")).carry[0]};
      }}},
};

void add_over_two_axes(std::vector<OpCase>& cases) {
  const Mesh square({{"a", 2}, {"b", 2}});
  const TensorType matrix{DType::kF32, {4, 4}};
  const PartitionSpec blocks = {{"a"}, {"b"}}, rows = {{"b", "a"}, {}}, none = {};
  cases.push_back(region_case(
      "shard_map", square, {matrix, matrix, {DType::kF32, {}}},
      {{}, {blocks, rows, none}, {blocks, none, rows}, [](const Tensors& x, const Manual& m) {
         const Tensor row_sums = m.all_reduce(reduce_sum(x[0] * x[0], {1}), {"b"});
         const Tensor loss = m.all_reduce(reduce_sum(sin(x[1])) * x[2], {"a", "b"});
         return Tensors{x[0] * keep_dims(row_sums, x[0], {1}), loss, x[1] * loss};
       }}));
  cases.push_back(
      region_case("all_gather_two_axes", square, {matrix},
                  {{}, {rows}, {kWhole, rows}, [](const Tensors& x, const Manual& m) {
                     const Tensor all = m.all_gather(x[0], {"b", "a"}, 0);
                     return Tensors{all * 2.0, m.reduce_scatter(sin(all), {"b", "a"}, 0)};
                   }}));
}

}  // namespace

void add_manual_cases(std::vector<OpCase>& cases) {
  const TensorType matrix{DType::kF32, {4, 4}};
  const Mesh line({{"a", 4}}), plane({{"a", 2}, {"b", 4}}), turned({{"b", 4}, {"a", 2}});
  for (const auto& [name, region] : kOverA) {
    // The second operand has the shape of a piece of the first, except where it is split too.
    const auto second = [&](int64_t parts) -> TensorType {
      return name == std::string("reduce_scatter") ? matrix
                                                   : TensorType{DType::kF32, {4 / parts, 4}};
    };
    cases.push_back(region_case(name, line, {matrix, second(4)}, region));
    cases.push_back(
        region_case(std::string(name) + "_partial", plane, {matrix, second(2)}, region));
    cases.push_back(
        region_case(std::string(name) + "_turned", turned, {matrix, second(2)}, region));
  }
  add_over_two_axes(cases);
}

}  // namespace espalier::test
