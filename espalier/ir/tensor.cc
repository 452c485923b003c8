#include "espalier/ir/tensor.h"

#include <algorithm>
#include <atomic>
#include <unordered_set>

#include "espalier/ir/op.h"
#include "espalier/ir/parameter.h"

namespace espalier {

std::string to_string(const TensorType& type) {
  return hlo_name(type.dtype) + to_string(type.dims);
}

int64_t Tensor::dim(int64_t i) const {
  const int64_t n = rank();
  if (i < -n || i >= n) {
    throw Error("dim " + std::to_string(i) + " asked of " + to_string(type()));
  }
  return dims()[static_cast<size_t>(i < 0 ? i + n : i)];
}

Node::Node(uint64_t id, std::shared_ptr<const Op> op, Tensors operands,
           std::vector<TensorType> types)
    : id(id), op(std::move(op)), operands(std::move(operands)), types(std::move(types)) {
  constant =
      as<Parameter>() == nullptr && std::all_of(this->operands.begin(), this->operands.end(),
                                                [](const Tensor& t) { return t.node().constant; });
}

Node::~Node() {
  // The last handle to a long chain would free it link by link through nested destructors; taking
  // the operands of nodes that only we hold turns that recursion into a loop.
  Tensors pending = std::move(operands);
  while (!pending.empty()) {
    Tensor t = std::move(pending.back());
    pending.pop_back();
    if (t.node_ != nullptr && t.node_.use_count() == 1) {
      auto& dying = const_cast<Node&>(*t.node_);
      for (Tensor& operand : dying.operands) pending.push_back(std::move(operand));
      dying.operands.clear();
    }
  }
}

Tensors make_node(std::shared_ptr<const Op> op, Tensors operands) {
  static std::atomic<uint64_t> next_id{1};
  for (const Tensor& t : operands) {
    if (t.empty()) fail(op->name(), "an operand is an empty Tensor");
  }
  std::vector<TensorType> types = op->infer(types_of(operands));
  const size_t results = types.size();
  auto node =
      std::make_shared<const Node>(next_id++, std::move(op), std::move(operands), std::move(types));
  Tensors out;
  out.reserve(results);
  for (size_t i = 0; i < results; ++i) out.emplace_back(node, static_cast<uint32_t>(i));
  return out;
}

std::vector<std::shared_ptr<const Node>> reachable(const Tensors& from) {
  std::unordered_set<const Node*> seen;
  std::vector<std::shared_ptr<const Node>> out;
  const auto visit = [&](const Tensor& t) {
    if (!t.empty() && seen.insert(&t.node()).second) out.push_back(t.node_ptr());
  };
  for (const Tensor& t : from) visit(t);
  for (size_t i = 0; i < out.size(); ++i) {
    const std::shared_ptr<const Node> node = out[i];  // `out` grows below
    for (const Tensor& operand : node->operands) visit(operand);
  }
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a->id < b->id; });
  return out;
}

std::vector<TensorType> types_of(const Tensors& tensors) {
  std::vector<TensorType> out;
  out.reserve(tensors.size());
  for (const Tensor& t : tensors) out.push_back(t.type());
  return out;
}

void fail(std::string_view op, const std::string& message) {
  throw Error("[" + std::string(op) + "] " + message);
}

void require_operands(std::string_view op, Types in, size_t n) {
  if (in.size() != n) {
    fail(op, "needs " + std::to_string(n) + " operands, got " + std::to_string(in.size()));
  }
}

}  // namespace espalier
