// The graph: immutable nodes that point to their operands. A Tensor is a handle to one result of a
// node. There is no graph object and no global state: a program is what its outputs reach.
//
// Vocabulary: an Op is an operation with its attributes; a Node is one use of an Op; a Function is
// a list of parameters and of results that reach no other parameters ("closed").
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/base/dtype.h"
#include "espalier/base/error.h"

namespace espalier {

struct TensorType {
  DType dtype = DType::kF32;
  Dims dims;
  int64_t rank() const { return static_cast<int64_t>(dims.size()); }
  bool operator==(const TensorType&) const = default;
};
std::string to_string(const TensorType& type);  // "f32[2, 3]"

class Op;
struct Node;

// A handle, cheap to copy. Default-constructed it is empty, which in gradients means "zero".
// Thread-safe to read; nodes never change.
class Tensor {
 public:
  Tensor() = default;
  Tensor(std::shared_ptr<const Node> node, uint32_t index)
      : node_(std::move(node)), index_(index) {}

  bool empty() const { return node_ == nullptr; }
  const Node& node() const { return *node_; }
  const std::shared_ptr<const Node>& node_ptr() const { return node_; }
  uint32_t index() const { return index_; }
  const TensorType& type() const;
  DType dtype() const { return type().dtype; }
  const Dims& dims() const { return type().dims; }
  int64_t rank() const { return type().rank(); }
  // Size of a dim; negative counts from the end.
  int64_t dim(int64_t i) const;
  int64_t size() const { return num_elements(dims()); }

  bool operator==(const Tensor&) const = default;

 private:
  friend struct Node;
  std::shared_ptr<const Node> node_;
  uint32_t index_ = 0;
};
using Tensors = std::vector<Tensor>;

struct TensorHash {
  size_t operator()(const Tensor& t) const {
    return std::hash<const void*>()(t.empty() ? nullptr : &t.node()) * 31 + t.index();
  }
};

struct Node : std::enable_shared_from_this<Node> {
  Node(uint64_t id, std::shared_ptr<const Op> op, Tensors operands, std::vector<TensorType> types);
  ~Node();  // frees long operand chains without recursion
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  uint64_t id;  // grows with creation, so operands have smaller ids
  std::shared_ptr<const Op> op;
  Tensors operands;
  std::vector<TensorType> types;  // of the results
  bool constant;                  // depends on no Parameter: may be copied into any function

  // The op's attributes if it is an S, else null.
  template <class S>
  const S* as() const;
};

inline const TensorType& Tensor::type() const { return node_->types[index_]; }

struct Function {
  Tensors params;   // each a Parameter
  Tensors results;  // reach constants and these params only
};
using FunctionPtr = std::shared_ptr<const Function>;

// Makes a node after op.infer() has accepted the operands; returns its results.
Tensors make_node(std::shared_ptr<const Op> op, Tensors operands);

// Nodes that the tensors reach, operands first (by id).
std::vector<std::shared_ptr<const Node>> reachable(const Tensors& from);

std::vector<TensorType> types_of(const Tensors& tensors);

}  // namespace espalier
