// Parameters: what a model has before anything is traced or allocated.
//
// A model is built by handing its constructor an Init; each `param` call notes name, shape,
// initializer and logical axes, and returns a handle. The names are those of checkpoints.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/ir/tensor.h"
#include "espalier/mesh/sharding_rules.h"

namespace espalier {

struct Initializer {
  enum class Kind { kZeros, kOnes, kNormal, kUniform };
  Kind kind = Kind::kZeros;
  double scale = 0;  // normal: standard deviation; uniform: values in [-scale, scale)
};
Initializer zeros_init();
Initializer ones_init();
Initializer normal_init(double standard_deviation);
// Uniform in ±sqrt(6 / (fan_in + fan_out)): Glorot and Bengio (2010), jax.nn.initializers'
// xavier_uniform.
Initializer xavier_uniform(int64_t fan_in, int64_t fan_out);

enum class ParamKind {
  kVector,  // bias or scale: never decayed, whatever its shape
  kTable,   // embedding or output layer
  kHidden,  // weight between hidden layers, with a matrix for Muon to update
};

// How a parameter's dims are to be read, where that is not plain.
struct ParamForm {
  // kHidden: which dims are the matrix's input and output; the others count matrices. Both empty:
  // a parameter of two dims is one matrix (in, out), others are none.
  std::vector<int64_t> in, out;
  // Its shape in checkpoints, of as many elements in the same order; empty: that of the parameter.
  Dims stored_dims;
};

struct ParamSpec {
  std::string name;  // "blocks.2.l1.kernel"; of stacked layers "blocks.*.l1.kernel"
  Dims dims;         // of one layer
  Initializer init;
  LogicalAxes axes;    // one per dim
  int64_t layers = 0;  // above 0: one array (layers, dims...) holds this parameter of all layers
  ParamKind kind = ParamKind::kHidden;
  ParamForm form{};
  DType dtype = DType::kF32;  // it is held and updated in

  // Shape and axes of the array: with a dim "layers" in front where stacked.
  Dims array_dims() const;
  LogicalAxes array_axes() const;
  // The name of one layer's parameter; the name itself where not stacked.
  std::string layer_name(int64_t layer) const;
};
using ParamSpecs = std::vector<ParamSpec>;

int64_t num_parameters(const ParamSpecs& specs);

// Handle of a parameter of the model it was made for.
struct Param {
  size_t index = 0;
};

// Hands out parameters to a model under construction. Copies share one list.
class Init {
 public:
  explicit Init(ParamSpecs& specs) : specs_(&specs) {}

  // Names below continue with "name.".
  Init operator/(std::string_view name) const;
  // Names below stand for all layers of a stack: "*" takes the place of the layer's number.
  Init stacked(int64_t layers) const;

  // Throws Error on a name used twice, or on axes or a form that do not match the shape.
  Param param(std::string_view name, Dims dims, Initializer init, LogicalAxes axes,
              ParamKind kind = ParamKind::kHidden, ParamForm form = {}) const;
  size_t count() const { return specs_->size(); }

 private:
  ParamSpecs* specs_;
  std::string prefix_;
  int64_t layers_ = 0;
};

}  // namespace espalier
