// Op: what a node does. An operation is a plain struct with its attributes as members; the concept
// below says which rules it must have, so that a missing one is a compile error.
#pragma once

#include <concepts>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <typeinfo>
#include <vector>

#include "espalier/ir/tensor.h"

namespace espalier {

namespace hlo {
class Writer;
}

using Types = std::span<const TensorType>;

// What a gradient rule may use: the node's operands and results, and the cotangent of each result
// (an empty Tensor is zero). It returns one cotangent per operand, empty where there is none.
struct VjpArgs {
  const Tensors& in;
  const Tensors& out;
  const Tensors& ct;
};

// The type-erased form that nodes hold.
class Op {
 public:
  virtual ~Op() = default;
  virtual std::string_view name() const = 0;
  // Result types; throws Error "[name] what is required, what came".
  virtual std::vector<TensorType> infer(Types in) const = 0;
  virtual Tensors vjp(const VjpArgs& args) const = 0;
  // Prints this node only.
  virtual void lower(hlo::Writer& writer, const Node& node) const = 0;
  virtual bool equals(const Op& other) const = 0;
  virtual const std::type_info& type() const = 0;
  virtual const void* attributes() const = 0;
};

template <class S>
concept OpStruct = std::equality_comparable<S> &&
    requires(const S& s, Types in, const VjpArgs& a, hlo::Writer& w, const Node& n) {
  { s.name() } -> std::convertible_to<std::string_view>;
  { s.infer(in) } -> std::same_as<std::vector<TensorType>>;
  { s.vjp(a) } -> std::same_as<Tensors>;
  s.lower(w, n);
};

template <OpStruct S>
class OpModel final : public Op {
 public:
  explicit OpModel(S s) : s_(std::move(s)) {}
  std::string_view name() const override { return s_.name(); }
  std::vector<TensorType> infer(Types in) const override { return s_.infer(in); }
  Tensors vjp(const VjpArgs& args) const override { return s_.vjp(args); }
  void lower(hlo::Writer& writer, const Node& node) const override { s_.lower(writer, node); }
  bool equals(const Op& other) const override {
    return other.type() == typeid(S) && *static_cast<const S*>(other.attributes()) == s_;
  }
  const std::type_info& type() const override { return typeid(S); }
  const void* attributes() const override { return &s_; }

 private:
  S s_;
};

template <class S>
const S* Node::as() const {
  return op->type() == typeid(S) ? static_cast<const S*>(op->attributes()) : nullptr;
}

// Applies an operation; all results.
template <OpStruct S>
Tensors apply_all(S s, Tensors operands) {
  return make_node(std::make_shared<OpModel<S>>(std::move(s)), std::move(operands));
}
// Applies an operation that has one result.
template <OpStruct S>
Tensor apply(S s, Tensors operands) {
  return apply_all(std::move(s), std::move(operands)).at(0);
}

// Throws Error("[op] message").
[[noreturn]] void fail(std::string_view op, const std::string& message);
// Throws unless there are n operands.
void require_operands(std::string_view op, Types in, size_t n);

}  // namespace espalier
