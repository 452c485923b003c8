// The oracle's scan, while, cond and remat, on all devices in step.
#include "espalier/ops/control.h"
#include "tests/support/oracle_array.h"

namespace espalier::test {
namespace {

std::vector<Lanes> part(const std::vector<Lanes>& all, size_t first, size_t count) {
  const auto begin = all.begin() + static_cast<int64_t>(first);
  return {begin, begin + static_cast<int64_t>(count)};
}

void append(std::vector<Lanes>& to, const std::vector<Lanes>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

// Element i of the first dim.
Lanes element(const Lanes& arrays, int64_t i) {
  Lanes out;
  for (const Array& array : arrays) {
    TensorType type = array.type;
    type.dims.erase(type.dims.begin());
    Array one(type);
    each_index(type.dims, [&](const Dims& at) {
      Dims from = at;
      from.insert(from.begin(), i);
      one.at(at) = array.at(from);
    });
    out.push_back(std::move(one));
  }
  return out;
}

void set_element(Lanes& arrays, int64_t i, const Lanes& ones) {
  for (size_t lane = 0; lane < arrays.size(); ++lane) {
    each_index(ones[lane].type.dims, [&](const Dims& at) {
      Dims to = at;
      to.insert(to.begin(), i);
      arrays[lane].at(to) = ones[lane].at(at);
    });
  }
}

std::vector<Lanes> run_scan(const Scan& op, const Node& node, const std::vector<Lanes>& in,
                            size_t lanes) {
  const std::vector<Lanes> consts = part(in, 0, op.consts);
  std::vector<Lanes> carry = part(in, op.consts, op.carries), outputs;
  const std::vector<Lanes> scanned =
      part(in, op.consts + op.carries, in.size() - op.consts - op.carries);
  for (size_t i = op.carries; i < node.types.size(); ++i) {
    outputs.emplace_back(lanes, Array(node.types[i]));
  }
  for (int64_t step = 0; step < op.length; ++step) {
    const int64_t i = op.reversed ? op.length - 1 - step : step;
    std::vector<Lanes> arguments = consts;
    append(arguments, carry);
    for (const Lanes& xs : scanned) arguments.push_back(element(xs, i));
    const std::vector<Lanes> results = run(*op.body, arguments, lanes);
    carry = part(results, 0, op.carries);
    for (size_t k = 0; k < outputs.size(); ++k) {
      set_element(outputs[k], i, results[op.carries + k]);
    }
  }
  append(carry, outputs);
  return carry;
}

// Devices whose condition is false keep their state while others go on.
std::vector<Lanes> run_while(const While& op, const std::vector<Lanes>& in, size_t lanes) {
  const size_t fixed = op.condition_consts + op.body_consts;
  std::vector<Lanes> state = part(in, fixed, in.size() - fixed);
  while (true) {
    std::vector<Lanes> test = part(in, 0, op.condition_consts);
    append(test, state);
    const Lanes go_on = run(*op.condition, test, lanes)[0];
    bool any = false;
    for (const Array& one : go_on) any |= one.cells[0].whole != 0;
    if (!any) return state;
    std::vector<Lanes> arguments = part(in, op.condition_consts, op.body_consts);
    append(arguments, state);
    const std::vector<Lanes> next = run(*op.body, arguments, lanes);
    for (size_t lane = 0; lane < lanes; ++lane) {
      if (go_on[lane].cells[0].whole == 0) continue;
      for (size_t i = 0; i < state.size(); ++i) state[i][lane] = next[i][lane];
    }
  }
}

std::vector<Lanes> run_cond(const Cond& op, const std::vector<Lanes>& in, size_t lanes) {
  const std::vector<Lanes> arguments = part(in, 1, in.size() - 1);
  std::vector<Lanes> out = run(*op.on_true, arguments, lanes);
  const std::vector<Lanes> other = run(*op.on_false, arguments, lanes);
  for (size_t lane = 0; lane < lanes; ++lane) {
    if (in[0][lane].cells[0].whole != 0) continue;
    for (size_t i = 0; i < out.size(); ++i) out[i][lane] = other[i][lane];
  }
  return out;
}

}  // namespace

bool evaluate_control(const Node& node, const std::vector<Lanes>& in, size_t lanes,
                      std::vector<Lanes>& out) {
  if (const auto* op = node.as<Scan>()) {
    out = run_scan(*op, node, in, lanes);
  } else if (const auto* op = node.as<While>()) {
    out = run_while(*op, in, lanes);
  } else if (const auto* op = node.as<Cond>()) {
    out = run_cond(*op, in, lanes);
  } else if (const auto* op = node.as<Remat>()) {
    out = run(*op->body, in, lanes);
  } else {
    return false;
  }
  return true;
}

}  // namespace espalier::test
