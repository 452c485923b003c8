#include "tests/support/oracle.h"

#include <bit>
#include <unordered_map>

#include "tests/support/oracle_array.h"

namespace espalier::test {

size_t Array::offset(const Dims& index) const {
  size_t out = 0;
  for (size_t i = 0; i < index.size(); ++i) {
    if (index[i] < 0 || index[i] >= type.dims[i]) {
      throw Error("[oracle] index " + to_string(index) + " is outside " + to_string(type));
    }
    out = out * static_cast<size_t>(type.dims[i]) + static_cast<size_t>(index[i]);
  }
  return out;
}

Array load(const HostArray& array) {
  Array out({array.dtype(), array.dims()});
  if (is_floating(array.dtype())) {
    const HostArray wide = array.converted(DType::kF64);
    for (size_t i = 0; i < out.cells.size(); ++i) out.cells[i].real = wide.as<double>()[i];
  } else {
    const HostArray wide = array.converted(DType::kS64);
    for (size_t i = 0; i < out.cells.size(); ++i) out.cells[i].whole = wide.as<int64_t>()[i];
  }
  return out;
}

HostArray store(const Array& array) {
  const bool floating = is_floating(array.type.dtype);
  HostArray wide(floating ? DType::kF64 : DType::kS64, array.type.dims);
  for (size_t i = 0; i < array.cells.size(); ++i) {
    if (floating) {
      wide.as<double>()[i] = array.cells[i].real;
    } else {
      wide.as<int64_t>()[i] = array.cells[i].whole;
    }
  }
  return wide.converted(array.type.dtype);
}

Cell fit(DType dtype, Cell cell) {
  switch (dtype) {
    case DType::kF64:
      break;
    case DType::kF32:
      cell.real = static_cast<float>(cell.real);
      break;
    case DType::kF16:
      throw Error("[oracle] has no float16");
    case DType::kBF16: {
      HostArray one = HostArray::scalar(static_cast<float>(cell.real));
      one = one.converted(DType::kBF16).converted(DType::kF64);
      cell.real = one.as<double>()[0];
      break;
    }
    case DType::kBool:
      cell.whole &= 1;
      break;
    default: {
      const auto spare = static_cast<int>(64 - 8 * byte_size(dtype));
      const auto bits = static_cast<uint64_t>(cell.whole) << spare;
      cell.whole = is_unsigned(dtype) ? static_cast<int64_t>(bits >> spare)
                                      : std::bit_cast<int64_t>(bits) >> spare;
    }
  }
  return cell;
}

bool less(DType dtype, const Cell& a, const Cell& b) {
  if (is_floating(dtype)) return a.real < b.real;
  if (is_unsigned(dtype)) return static_cast<uint64_t>(a.whole) < static_cast<uint64_t>(b.whole);
  return a.whole < b.whole;
}

bool equal(DType dtype, const Cell& a, const Cell& b) {
  return is_floating(dtype) ? a.real == b.real : a.whole == b.whole;
}

Cell plus(DType dtype, const Cell& a, const Cell& b) {
  const auto sum = static_cast<uint64_t>(a.whole) + static_cast<uint64_t>(b.whole);
  return fit(dtype, {a.real + b.real, static_cast<int64_t>(sum)});
}

void each_index(const Dims& dims, const std::function<void(const Dims&)>& visit) {
  const int64_t count = num_elements(dims);
  for (int64_t n = 0; n < count; ++n) {
    Dims index(dims.size());
    int64_t rest = n;
    for (size_t i = dims.size(); i-- > 0;) {
      index[i] = rest % dims[i];
      rest /= dims[i];
    }
    visit(index);
  }
}

namespace {

std::vector<Lanes> evaluate_node(const Node& node, const std::vector<Lanes>& in, size_t lanes) {
  std::vector<Lanes> out;
  if (evaluate_control(node, in, lanes, out) || evaluate_manual(node, in, out)) return out;
  out.resize(node.types.size());
  for (size_t lane = 0; lane < lanes; ++lane) {
    Arrays mine, made;
    for (const Lanes& value : in) mine.push_back(value[lane]);
    if (!evaluate_elementwise(node, mine, made) && !evaluate_shape(node, mine, made) &&
        !evaluate_sums(node, mine, made)) {
      throw Error("[oracle] does not know " + std::string(node.op->name()));
    }
    for (size_t i = 0; i < made.size(); ++i) out[i].push_back(std::move(made[i]));
  }
  return out;
}

}  // namespace

std::vector<Lanes> run(const Function& function, const std::vector<Lanes>& arguments,
                       size_t lanes) {
  std::unordered_map<Tensor, Lanes, TensorHash> values;
  if (arguments.size() != function.params.size()) throw Error("[oracle] wrong argument count");
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].size() != lanes || arguments[i][0].type != function.params[i].type()) {
      throw Error("[oracle] argument " + std::to_string(i) + " needs " +
                  to_string(function.params[i].type()) + ", got " +
                  to_string(arguments[i][0].type));
    }
    values[function.params[i]] = arguments[i];
  }
  for (const auto& node : reachable(function.results)) {
    if (values.contains(Tensor(node, 0))) continue;
    std::vector<Lanes> in;
    for (const Tensor& t : node->operands) in.push_back(values.at(t));
    std::vector<Lanes> out = evaluate_node(*node, in, lanes);
    for (uint32_t i = 0; i < out.size(); ++i) {
      if (out[i].at(0).type != node->types[i]) {
        throw Error("[oracle] " + std::string(node->op->name()) + " gave " +
                    to_string(out[i][0].type) + ", its rule infers " + to_string(node->types[i]));
      }
      values[Tensor(node, i)] = std::move(out[i]);
    }
  }
  std::vector<Lanes> results;
  for (const Tensor& t : function.results) results.push_back(values.at(t));
  return results;
}

std::vector<HostArray> evaluate(const Function& function, const std::vector<HostArray>& arguments) {
  std::vector<Lanes> loaded;
  for (const HostArray& array : arguments) loaded.push_back({load(array)});
  std::vector<HostArray> out;
  for (const Lanes& value : run(function, loaded, 1)) out.push_back(store(value[0]));
  return out;
}

}  // namespace espalier::test
