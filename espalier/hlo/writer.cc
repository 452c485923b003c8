#include "espalier/hlo/writer.h"

namespace espalier::hlo {

std::string type_text(const TensorType& type) {
  std::string out = "tensor<";
  for (int64_t d : type.dims) out += std::to_string(d) + "x";
  return out + hlo_name(type.dtype) + ">";
}

namespace {

std::string type_list(const std::vector<TensorType>& types) {
  std::string out = "(";
  for (size_t i = 0; i < types.size(); ++i) out += (i > 0 ? ", " : "") + type_text(types[i]);
  return out + ")";
}

std::string joined(const std::vector<std::string>& parts) {
  std::string out;
  for (size_t i = 0; i < parts.size(); ++i) out += (i > 0 ? ", " : "") + parts[i];
  return out;
}

std::string properties(std::string_view attributes) {
  return attributes.empty() ? "" : " <{" + std::string(attributes) + "}>";
}

}  // namespace

std::string i64_array(const std::vector<int64_t>& values) {
  if (values.empty()) return "array<i64>";
  std::string out = "array<i64: ";
  for (size_t i = 0; i < values.size(); ++i) out += (i > 0 ? ", " : "") + std::to_string(values[i]);
  return out + ">";
}

std::string dense_groups(const std::vector<std::vector<int64_t>>& rows, size_t columns) {
  const std::string type =
      "> : tensor<" + std::to_string(rows.size()) + "x" + std::to_string(columns) + "xi64>";
  if (rows.empty()) return "dense<" + type;
  std::string out = "dense<[";
  for (size_t r = 0; r < rows.size(); ++r) {
    out += r > 0 ? ", [" : "[";
    for (size_t i = 0; i < rows[r].size(); ++i) {
      out += (i > 0 ? ", " : "") + std::to_string(rows[r][i]);
    }
    out += "]";
  }
  return out + "]" + type;
}

std::string sharding_text(const PartitionSpec& spec, int64_t rank, bool open) {
  std::string out = "<@mesh, [";
  for (int64_t i = 0; i < rank; ++i) {
    std::string dim;
    if (i < static_cast<int64_t>(spec.size())) {
      for (const std::string& axis : spec[static_cast<size_t>(i)]) {
        dim += (dim.empty() ? "\"" : ", \"") + axis + "\"";
      }
    }
    if (open) dim += dim.empty() ? "?" : ", ?";
    out += (i > 0 ? ", {" : "{") + dim + "}";
  }
  return out + "]>";
}

const std::string& Writer::value(const Tensor& t) const {
  const auto found = names_.find(t);
  if (found == names_.end()) {
    throw Error("[hlo] a value of type " + to_string(t.type()) + " made by " +
                    std::string(t.node().op->name()) + " is used before it is printed",
                Code::kInternal);
  }
  return found->second;
}

std::string Writer::values(const Tensors& tensors) const {
  std::vector<std::string> names;
  for (const Tensor& t : tensors) names.push_back(value(t));
  return joined(names);
}

std::string Writer::fresh() { return "%" + std::to_string(next_++); }

void Writer::line(const std::string& text) { text_ += indent() + text + "\n"; }

void Writer::pretty(const Node& node, std::string_view op) {
  const std::string name = fresh();
  line(name + " = " + std::string(op) + " " + values(node.operands) + " : " +
       type_text(node.types[0]));
  bind(Tensor(node.shared_from_this(), 0), name);
}

void Writer::generic(const Node& node, std::string_view op, std::string_view attributes) {
  const std::string name = fresh();
  const size_t results = node.types.size();
  const std::string head = results == 1 ? name : name + ":" + std::to_string(results);
  line((results == 0 ? "" : head + " = ") + "\"" + std::string(op) + "\"(" + values(node.operands) +
       ")" + properties(attributes) + " : " + type_list(types_of(node.operands)) + " -> " +
       type_list(node.types));
  for (uint32_t i = 0; i < results; ++i) {
    bind(Tensor(node.shared_from_this(), i), results == 1 ? name : name + "#" + std::to_string(i));
  }
}

std::string Writer::emit(std::string_view op, const std::vector<std::string>& operands,
                         const std::vector<TensorType>& operand_types, const TensorType& result,
                         std::string_view attributes) {
  const std::string name = fresh();
  line(name + " = \"" + std::string(op) + "\"(" + joined(operands) + ")" + properties(attributes) +
       " : " + type_list(operand_types) + " -> " + type_text(result));
  return name;
}

std::string Writer::constant(int64_t value, const TensorType& type) {
  const std::string name = fresh();
  line(name + " = stablehlo.constant dense<" + std::to_string(value) + "> : " + type_text(type));
  return name;
}

void Writer::nodes(const Tensors& results) {
  for (const auto& node : reachable(results)) {
    if (node->types.empty() || names_.contains(Tensor(node, 0))) continue;
    node->op->lower(*this, *node);
  }
}

std::vector<std::string> Writer::body(const Function& function,
                                      const std::vector<std::string>& arguments) {
  // Names are per printing: a body may be printed twice, and it captures nothing, constants
  // included.
  auto outer = std::exchange(names_, {});
  for (size_t i = 0; i < arguments.size(); ++i) bind(function.params[i], arguments[i]);
  nodes(function.results);
  std::vector<std::string> out;
  for (const Tensor& t : function.results) out.push_back(value(t));
  names_ = std::move(outer);
  return out;
}

void Writer::region(const std::vector<TensorType>& types,
                    const std::function<void(const std::vector<std::string>&)>& write) {
  std::vector<std::string> names, heads;
  for (const TensorType& type : types) {
    names.push_back(fresh());
    heads.push_back(names.back() + ": " + type_text(type));
  }
  text_ += "{\n";
  if (!types.empty()) text_ += indent() + "^bb0(" + joined(heads) + "):\n";
  indent_by(1);
  write(names);
  indent_by(-1);
  text_ += indent() + "}";
}

}  // namespace espalier::hlo
