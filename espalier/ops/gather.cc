#include "espalier/ops/gather.h"

#include <numeric>

#include "espalier/hlo/writer.h"
#include "espalier/ops/elementwise.h"
#include "espalier/ops/shape.h"
#include "espalier/ops/source.h"

namespace espalier {
namespace {

Dims rows_dims(const TensorType& table, const TensorType& ids) {
  Dims dims = ids.dims;
  dims.insert(dims.end(), table.dims.begin() + 1, table.dims.end());
  return dims;
}

void require_table(std::string_view op, const TensorType& table, const TensorType& ids) {
  if (table.rank() < 1 || !is_integer(ids.dtype)) {
    fail(op, "needs a table of rank 1 or more and integer ids, got " + to_string(table) + " and " +
                 to_string(ids));
  }
}

// Ids moved into [0, rows), as a gather does.
Tensor clamped(const Tensor& ids, int64_t rows) {
  const auto bits = static_cast<int>(8 * byte_size(ids.dtype())) - !is_unsigned(ids.dtype());
  const bool all_below = bits < 63 && rows > (int64_t{1} << bits) - 1;  // no id reaches the end
  const Tensor low = is_unsigned(ids.dtype()) ? ids : max(ids, zeros_like(ids));
  return all_below ? low : min(low, full_int(ids.type(), rows - 1));
}

// Dims of the result that come from the table's rows: the last ones.
std::string row_dims(const TensorType& table, const TensorType& ids) {
  std::vector<int64_t> dims(static_cast<size_t>(table.rank() - 1));
  std::iota(dims.begin(), dims.end(), ids.rank());
  return to_string(dims);
}

}  // namespace

std::vector<TensorType> Take::infer(Types in) const {
  require_operands(name(), in, 2);
  require_table(name(), in[0], in[1]);
  return {{in[0].dtype, rows_dims(in[0], in[1])}};
}
Tensors Take::vjp(const VjpArgs& a) const {
  // The gather moves an id to the nearest row, the scatter would drop it.
  return {add_rows(zeros_like(a.in[0]), clamped(a.in[1], a.in[0].dim(0)), a.ct[0]), Tensor()};
}
void Take::lower(hlo::Writer& w, const Node& node) const {
  const TensorType &table = node.operands[0].type(), &ids = node.operands[1].type();
  Dims sizes = table.dims;
  sizes[0] = 1;
  w.generic(node, "stablehlo.gather",
            "dimension_numbers = #stablehlo.gather<offset_dims = " + row_dims(table, ids) +
                ", collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = " +
                std::to_string(ids.rank()) +
                ">, indices_are_sorted = false, slice_sizes = " + hlo::i64_array(sizes));
}

std::vector<TensorType> AddRows::infer(Types in) const {
  require_operands(name(), in, 3);
  require_table(name(), in[0], in[1]);
  if (in[2] != TensorType{in[0].dtype, rows_dims(in[0], in[1])}) {
    fail(name(), "needs rows " + to_string(TensorType{in[0].dtype, rows_dims(in[0], in[1])}) +
                     ", got " + to_string(in[2]));
  }
  return {in[0]};
}
Tensors AddRows::vjp(const VjpArgs& a) const {
  const Tensor& ids = a.in[1];
  const Tensor rows = take(a.ct[0], ids);
  std::vector<int64_t> map(ids.dims().size());
  std::iota(map.begin(), map.end(), 0);
  const Tensor used = compare(ids, clamped(ids, a.in[0].dim(0)), Direction::kEq);
  return {a.ct[0], Tensor(),
          select(broadcast_in_dim(used, rows.dims(), map), rows, zeros_like(rows))};
}
void AddRows::lower(hlo::Writer& w, const Node& node) const {
  const TensorType &table = node.operands[0].type(), &ids = node.operands[1].type();
  const TensorType element{table.dtype, {}};
  const std::string name = w.fresh();
  w.raw(w.indent() + name + " = \"stablehlo.scatter\"(" + w.values(node.operands) +
        ") <{indices_are_sorted = false, scatter_dimension_numbers = "
        "#stablehlo.scatter<update_window_dims = " +
        row_dims(table, ids) +
        ", inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = " +
        std::to_string(ids.rank()) + ">, unique_indices = false}> (");
  w.region({element, element}, [&](const std::vector<std::string>& args) {
    const std::string sum = w.emit("stablehlo.add", args, {element, element}, element);
    w.line("\"stablehlo.return\"(" + sum + ") : (" + hlo::type_text(element) + ") -> ()");
  });
  w.raw(") : (" + hlo::type_text(table) + ", " + hlo::type_text(ids) + ", " +
        hlo::type_text(node.operands[2].type()) + ") -> " + hlo::type_text(table) + "\n");
  w.bind(Tensor(node.shared_from_this(), 0), name);
}

Tensor take(const Tensor& table, const Tensor& ids) { return apply(Take{}, {table, ids}); }
Tensor add_rows(const Tensor& table, const Tensor& ids, const Tensor& rows) {
  return apply(AddRows{}, {table, ids, rows});
}

}  // namespace espalier
