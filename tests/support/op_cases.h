// The table of operations' test cases: inputs and the graph that they go through. The table tests
// hold each against the naive oracle, numeric derivatives, golden text and the CPU plugin.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "espalier/base/host_array.h"
#include "espalier/ir/function.h"
#include "espalier/mesh/sharding_rules.h"

namespace espalier::test {

struct OpCase {
  std::string label;               // also the golden file's name
  std::vector<TensorType> inputs;  // floating ones as f32; tests ask for another width
  std::function<Tensors(const Tensors&)> build;
  double low = -2, high = 2;   // inputs are uniform between these; integers include both
  bool differentiable = true;  // false: the derivative is not that of the value, or fails
  bool runs = true;            // false: only printed
  Mesh mesh = Mesh();          // what it is compiled for
};

// Rules of the cases' logical axes: "rows" is split by mesh axis "a".
ShardingRules case_rules();

struct ErrorCase {
  std::string label;
  std::vector<TensorType> inputs;
  std::function<Tensors(const Tensors&)> build;
  std::string message;  // "[op] ..." up to what tells it from other errors
};

// All cases, labels distinct.
const std::vector<OpCase>& op_cases();
const std::vector<ErrorCase>& error_cases();

// The case's inputs with every f32 replaced by `floating`.
std::vector<TensorType> inputs_of(const OpCase& op_case, DType floating);
Function trace_case(const OpCase& op_case, DType floating);
// Numbers for these types; the same for the same seed text.
std::vector<HostArray> random_arrays(const std::vector<TensorType>& types, double low, double high,
                                     std::string_view seed);

// The files of the table; each appends its rows.
void add_elementwise_cases(std::vector<OpCase>& cases);
void add_shape_cases(std::vector<OpCase>& cases);
void add_structured_cases(std::vector<OpCase>& cases);
void add_manual_cases(std::vector<OpCase>& cases);

}  // namespace espalier::test
