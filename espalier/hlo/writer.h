// Writer: prints nodes as StableHLO text with Shardy annotations. It knows values, types, regions
// and meshes, and no operation: each op prints itself through it.
//
// Syntax: the StableHLO specification (openxla/stablehlo, docs/spec.md) and Shardy's dialect
// (openxla/shardy, docs/sdy_dialect.md).
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "espalier/ir/op.h"
#include "espalier/mesh/mesh.h"
#include "espalier/mesh/sharding_rules.h"

namespace espalier::hlo {

std::string type_text(const TensorType& type);  // "tensor<2x3xf32>"
// "array<i64: 0, 1>"
std::string i64_array(const std::vector<int64_t>& values);
// "dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>"; each row holds `columns` numbers.
std::string dense_groups(const std::vector<std::vector<int64_t>>& rows, size_t columns);
// "<@mesh, [{"data"}, {}]>" with one entry per dim: closed, or open, "[{"data", ?}, {?}]", for the
// partitioner to split further.
std::string sharding_text(const PartitionSpec& spec, int64_t rank, bool open = false);

class Writer {
 public:
  // `mesh` may have no axes (then sharding ops print nothing); both must outlive the Writer.
  Writer(const Mesh& mesh, const ShardingRules& rules) : mesh_(mesh), rules_(rules) {}

  const Mesh& mesh() const { return mesh_; }
  const ShardingRules& rules() const { return rules_; }
  // Mesh axes that the enclosing manual region took: constraints inside may not name them.
  std::vector<std::string>& manual_axes() { return manual_axes_; }

  // Name of a value that was printed or bound. Throws Error on an unknown one.
  const std::string& value(const Tensor& t) const;
  // "%1, %4"
  std::string values(const Tensors& tensors) const;
  // Gives a tensor a name that stands already in the text.
  void bind(const Tensor& t, std::string name) { names_[t] = std::move(name); }
  std::string fresh();  // "%17"
  int64_t next_channel() { return ++channel_; }

  // One indented line.
  void line(const std::string& text);
  // "%r = stablehlo.add %a, %b : type": an op whose operands and result share the result's type.
  void pretty(const Node& node, std::string_view op);
  // Generic form, binding the node's results: "%r = "op"(%a) <{attributes}> : (types) -> types".
  void generic(const Node& node, std::string_view op, std::string_view attributes = "");
  // Generic form of text that stands for no node: returns the name of the one result.
  std::string emit(std::string_view op, const std::vector<std::string>& operands,
                   const std::vector<TensorType>& operand_types, const TensorType& result,
                   std::string_view attributes = "");
  // Integer scalar constant of a type: its name.
  std::string constant(int64_t value, const TensorType& type);

  // Prints every node that `results` reach and that has no name yet, operands first.
  void nodes(const Tensors& results);
  // Prints a function's nodes with its parameters bound to these names; returns result names.
  std::vector<std::string> body(const Function& function,
                                const std::vector<std::string>& arguments);

  // A region "({ ^bb0(%a: t, ...): ... })": `write` prints the lines, given the argument names.
  // Lines go to the writer's text between begin and end of the call.
  void region(const std::vector<TensorType>& types,
              const std::function<void(const std::vector<std::string>&)>& write);
  void raw(std::string_view text) { text_ += text; }
  std::string indent() const { return std::string(static_cast<size_t>(depth_) * 2, ' '); }
  void indent_by(int delta) { depth_ += delta; }

  // All text so far, taken away.
  std::string take() { return std::move(text_); }

 private:
  const Mesh& mesh_;
  const ShardingRules& rules_;
  std::vector<std::string> manual_axes_;
  std::unordered_map<Tensor, std::string, TensorHash> names_;
  std::string text_;
  int64_t next_ = 0;
  int64_t channel_ = 0;
  int depth_ = 0;
};

}  // namespace espalier::hlo
