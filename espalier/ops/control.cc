#include "espalier/ops/control.h"

#include <algorithm>
#include <set>

#include "espalier/hlo/writer.h"
#include "espalier/ir/parameter.h"
#include "espalier/ops/annotate.h"
#include "espalier/ops/source.h"

namespace espalier {
namespace {

using Names = std::vector<std::string>;

[[noreturn]] Tensors no_rule(std::string_view op) {
  fail(op, "is differentiated by espalier/transform, not by a rule of its own");
}

void require_types(std::string_view op, std::string_view what, const Tensors& params, Types in) {
  if (params.size() != in.size()) {
    fail(op, std::string(what) + " takes " + std::to_string(params.size()) + " values, got " +
                 std::to_string(in.size()));
  }
  for (size_t i = 0; i < in.size(); ++i) {
    if (params[i].type() != in[i]) {
      fail(op, std::string(what) + " takes " + to_string(params[i].type()) + " as value " +
                   std::to_string(i) + ", got " + to_string(in[i]));
    }
  }
}

TensorType stacked(TensorType type, int64_t length) {
  type.dims.insert(type.dims.begin(), length);
  return type;
}

TensorType element(std::string_view op, TensorType type, int64_t length) {
  if (type.rank() < 1 || type.dims[0] != length) {
    fail(op,
         "needs scanned arrays of length " + std::to_string(length) + ", got " + to_string(type));
  }
  type.dims.erase(type.dims.begin());
  return type;
}

std::string type_list(const std::vector<TensorType>& types) {
  std::string out;
  for (const TensorType& t : types) out += (out.empty() ? "" : ", ") + hlo::type_text(t);
  return out;
}

std::string join(const Names& names) {
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "" : ", ") + name;
  return out;
}

void print_return(hlo::Writer& w, const Names& names, const std::vector<TensorType>& types) {
  w.line("\"stablehlo.return\"(" + join(names) + ") : (" + type_list(types) + ") -> ()");
}

// "%n:k = "op"(operands) ({region}, {region}) : types": returns the result names.
Names print_regions(hlo::Writer& w, const std::string& op, const Names& operands,
                    const std::vector<TensorType>& operand_types,
                    const std::vector<TensorType>& results,
                    const std::vector<std::function<void()>>& regions) {
  const std::string name = w.fresh();
  w.raw(w.indent() + name + (results.size() == 1 ? "" : ":" + std::to_string(results.size())) +
        " = \"" + op + "\"(" + join(operands) + ") (");
  for (size_t i = 0; i < regions.size(); ++i) {
    if (i > 0) w.raw(", ");
    regions[i]();
  }
  w.raw(") : (" + type_list(operand_types) + ") -> (" + type_list(results) + ")\n");
  Names out;
  for (size_t i = 0; i < results.size(); ++i) {
    out.push_back(results.size() == 1 ? name : name + "#" + std::to_string(i));
  }
  return out;
}

Names names_of(hlo::Writer& w, const Tensors& tensors) {
  Names out;
  for (const Tensor& t : tensors) out.push_back(w.value(t));
  return out;
}

template <class T>
std::vector<T> part(const std::vector<T>& all, size_t first, size_t count) {
  const auto begin = all.begin() + static_cast<int64_t>(first);
  return {begin, begin + static_cast<int64_t>(count)};
}

}  // namespace

// --- scan ---

std::vector<TensorType> Scan::infer(Types in) const {
  if (in.size() < consts + carries) fail(name(), "has too few operands");
  std::vector<TensorType> seen(in.begin(), in.begin() + static_cast<int64_t>(consts + carries));
  for (size_t i = consts + carries; i < in.size(); ++i) {
    seen.push_back(element(name(), in[i], length));
  }
  require_types(name(), "the body", body->params, seen);
  std::vector<TensorType> out;
  for (size_t i = 0; i < body->results.size(); ++i) {
    const TensorType& type = body->results[i].type();
    if (i < carries && type != in[consts + i]) {
      fail(name(), "needs carry " + std::to_string(i) + " to keep its type " +
                       to_string(in[consts + i]) + ", but the body returns " + to_string(type));
    }
    out.push_back(i < carries ? type : stacked(type, length));
  }
  return out;
}

Tensors Scan::vjp(const VjpArgs&) const { no_rule(name()); }

void Scan::lower(hlo::Writer& w, const Node& node) const {
  // One stablehlo.while over (counter, operands, output buffers). Constants travel as loop state
  // that does not change, since regions capture nothing.
  const TensorType index_type{DType::kS32, {}};
  const size_t scanned = node.operands.size() - consts - carries;
  const size_t outputs = node.types.size() - carries;
  std::vector<TensorType> types = {index_type};
  Names init = {w.constant(0, index_type)};
  for (const Tensor& t : node.operands) {
    types.push_back(t.type());
    init.push_back(w.value(t));
  }
  for (size_t i = 0; i < outputs; ++i) {
    const Tensor buffer = zeros(node.types[carries + i]);
    w.nodes({buffer});
    types.push_back(buffer.type());
    init.push_back(w.value(buffer));
  }
  const auto bind_results = [&](const Names& state) {
    for (uint32_t i = 0; i < node.types.size(); ++i) {
      const size_t at = i < carries ? 1 + consts + i : 1 + consts + scanned + i;
      w.bind(Tensor(node.shared_from_this(), i), state[at]);
    }
  };
  if (length == 0) return bind_results(init);  // a step would slice arrays without elements
  const auto condition = [&] {
    w.region(types, [&](const Names& args) {
      const std::string limit = w.constant(length, index_type);
      const std::string more = w.emit(
          "stablehlo.compare", {args[0], limit}, {index_type, index_type}, {DType::kBool, {}},
          "compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = "
          "#stablehlo<comparison_direction LT>");
      print_return(w, {more}, {{DType::kBool, {}}});
    });
  };
  const auto step = [&] {
    w.region(types, [&](const Names& args) {
      std::string at = args[0];
      if (reversed) {
        const std::string last = w.constant(length - 1, index_type);
        at = w.emit("stablehlo.subtract", {last, at}, {index_type, index_type}, index_type);
      }
      const std::string zero = w.constant(0, index_type);
      const auto indices = [&](const TensorType& t, Names names) {
        names.push_back(at);
        names.resize(names.size() + t.dims.size() - 1, zero);
        return names;
      };
      const auto with_indices = [&](std::vector<TensorType> list, const TensorType& t) {
        list.resize(list.size() + t.dims.size(), index_type);
        return list;
      };
      Names arguments = part(args, 1, consts + carries);
      for (size_t i = 0; i < scanned; ++i) {
        const size_t k = 1 + consts + carries + i;
        TensorType one = types[k];
        one.dims[0] = 1;
        const std::string row = w.emit("stablehlo.dynamic_slice", indices(types[k], {args[k]}),
                                       with_indices({types[k]}, types[k]), one,
                                       "slice_sizes = " + hlo::i64_array(one.dims));
        arguments.push_back(
            w.emit("stablehlo.reshape", {row}, {one}, body->params[consts + carries + i].type()));
      }
      const Names results = w.body(*body, arguments);
      Names next = {w.emit("stablehlo.add", {args[0], w.constant(1, index_type)},
                           {index_type, index_type}, index_type)};
      const Names kept = part(args, 1, consts);
      next.insert(next.end(), kept.begin(), kept.end());
      next.insert(next.end(), results.begin(), results.begin() + static_cast<int64_t>(carries));
      const Names arrays = part(args, 1 + consts + carries, scanned);
      next.insert(next.end(), arrays.begin(), arrays.end());
      for (size_t i = 0; i < outputs; ++i) {
        const size_t k = 1 + consts + carries + scanned + i;
        TensorType one = types[k];
        one.dims[0] = 1;
        const std::string row = w.emit("stablehlo.reshape", {results[carries + i]},
                                       {body->results[carries + i].type()}, one);
        next.push_back(w.emit("stablehlo.dynamic_update_slice", indices(types[k], {args[k], row}),
                              with_indices({types[k], one}, types[k]), types[k]));
      }
      print_return(w, next, types);
    });
  };
  bind_results(print_regions(w, "stablehlo.while", init, types, types, {condition, step}));
}

// --- while ---

std::vector<TensorType> While::infer(Types in) const {
  const size_t fixed = condition_consts + body_consts;
  if (in.size() < fixed) fail(name(), "has too few operands");
  std::vector<TensorType> state(in.begin() + static_cast<int64_t>(fixed), in.end());
  const auto with_consts = [&](size_t first, size_t count) {
    std::vector<TensorType> out(in.begin() + static_cast<int64_t>(first),
                                in.begin() + static_cast<int64_t>(first + count));
    out.insert(out.end(), state.begin(), state.end());
    return out;
  };
  require_types(name(), "the condition", condition->params, with_consts(0, condition_consts));
  require_types(name(), "the body", body->params, with_consts(condition_consts, body_consts));
  if (types_of(condition->results) != std::vector<TensorType>{{DType::kBool, {}}}) {
    fail(name(), "needs a condition that returns one bool scalar");
  }
  if (types_of(body->results) != state) fail(name(), "needs a body that keeps the state's types");
  return state;
}

Tensors While::vjp(const VjpArgs&) const { no_rule(name()); }

void While::lower(hlo::Writer& w, const Node& node) const {
  const std::vector<TensorType> types = types_of(node.operands);
  const size_t fixed = condition_consts + body_consts;
  const auto run = [&](const Function& f, const Names& args, size_t first, size_t count) {
    Names arguments = part(args, first, count);
    const Names state = part(args, fixed, args.size() - fixed);
    arguments.insert(arguments.end(), state.begin(), state.end());
    return w.body(f, arguments);
  };
  const auto test = [&] {
    w.region(types, [&](const Names& args) {
      print_return(w, run(*condition, args, 0, condition_consts), {{DType::kBool, {}}});
    });
  };
  const auto step = [&] {
    w.region(types, [&](const Names& args) {
      Names next = part(args, 0, fixed);
      const Names state = run(*body, args, condition_consts, body_consts);
      next.insert(next.end(), state.begin(), state.end());
      print_return(w, next, types);
    });
  };
  const Names results =
      print_regions(w, "stablehlo.while", names_of(w, node.operands), types, types, {test, step});
  for (uint32_t i = 0; i < node.types.size(); ++i) {
    w.bind(Tensor(node.shared_from_this(), i), results[fixed + i]);
  }
}

// --- cond ---

std::vector<TensorType> Cond::infer(Types in) const {
  if (in.empty() || in[0] != TensorType{DType::kBool, {}}) {
    fail(name(), "needs a bool scalar as predicate");
  }
  const Types rest = in.subspan(1);
  require_types(name(), "the true branch", on_true->params, rest);
  require_types(name(), "the false branch", on_false->params, rest);
  if (types_of(on_true->results) != types_of(on_false->results)) {
    fail(name(), "needs branches that return the same types");
  }
  return types_of(on_true->results);
}

Tensors Cond::vjp(const VjpArgs&) const { no_rule(name()); }

void Cond::lower(hlo::Writer& w, const Node& node) const {
  // stablehlo.if takes no operands: its branches may name the values around them.
  const Names arguments = names_of(w, {node.operands.begin() + 1, node.operands.end()});
  const auto branch = [&](const FunctionPtr& f) {
    return [&w, &arguments, &node, f] {
      w.region({}, [&](const Names&) { print_return(w, w.body(*f, arguments), node.types); });
    };
  };
  const Names results =
      print_regions(w, "stablehlo.if", {w.value(node.operands[0])}, {{DType::kBool, {}}},
                    node.types, {branch(on_true), branch(on_false)});
  for (uint32_t i = 0; i < node.types.size(); ++i) {
    w.bind(Tensor(node.shared_from_this(), i), results[i]);
  }
}

// --- remat ---

std::vector<TensorType> Remat::infer(Types in) const {
  require_types(name(), "the body", body->params, in);
  return types_of(body->results);
}

Tensors Remat::vjp(const VjpArgs&) const { no_rule(name()); }

void Remat::lower(hlo::Writer& w, const Node& node) const {
  const Names results = w.body(*body, names_of(w, node.operands));
  for (uint32_t i = 0; i < node.types.size(); ++i) {
    w.bind(Tensor(node.shared_from_this(), i), results[i]);
  }
}

// --- builders ---

ScanResult scan(const ScanBody& body, const Tensors& carry, const Tensors& scanned, int64_t length,
                bool reversed) {
  for (const Tensor& x : scanned) {
    if (x.rank() < 1) fail("scan", "cannot scan over " + to_string(x.type()));
    if (length < 0) length = x.dim(0);
  }
  if (length < 0) fail("scan", "needs a length where no array is scanned");
  std::vector<TensorType> types = types_of(carry);
  for (const Tensor& x : scanned) types.push_back(element("scan", x.type(), length));
  size_t carries = carry.size();
  const Closed closed = trace_closed(types, [&](const Tensors& params) {
    const ScanResult result = body(part(params, 0, carries), part(params, carries, scanned.size()));
    if (result.carry.size() != carries) {
      fail("scan", "needs a body that returns " + std::to_string(carries) + " carries, got " +
                       std::to_string(result.carry.size()));
    }
    Tensors out = result.carry;
    out.insert(out.end(), result.outputs.begin(), result.outputs.end());
    return out;
  });
  Tensors operands = closed.captured;
  operands.insert(operands.end(), carry.begin(), carry.end());
  operands.insert(operands.end(), scanned.begin(), scanned.end());
  const Tensors out =
      apply_all(Scan{length, closed.captured.size(), carries, reversed, closed.function}, operands);
  return {part(out, 0, carries), part(out, carries, out.size() - carries)};
}

Tensors while_loop(const std::function<Tensor(const Tensors&)>& condition,
                   const std::function<Tensors(const Tensors&)>& body, const Tensors& state) {
  const auto types = types_of(state);
  const Closed test =
      trace_closed(types, [&](const Tensors& params) { return Tensors{condition(params)}; });
  const Closed step = trace_closed(types, body);
  Tensors operands = test.captured;
  operands.insert(operands.end(), step.captured.begin(), step.captured.end());
  operands.insert(operands.end(), state.begin(), state.end());
  return apply_all(While{test.captured.size(), step.captured.size(), test.function, step.function},
                   operands);
}

Tensors cond(const Tensor& predicate, const std::function<Tensors()>& on_true,
             const std::function<Tensors()>& on_false) {
  const auto close_branch = [](const std::function<Tensors()>& f) {
    return trace_inside({}, [&](const Tensors&) { return f(); });
  };
  const Closed yes = close_branch(on_true), no = close_branch(on_false);
  // Both branches take the union of what they capture.
  Tensors operands = yes.captured;
  std::vector<size_t> yes_at, no_at;  // where in the union each captured value is
  for (size_t i = 0; i < operands.size(); ++i) yes_at.push_back(i);
  for (const Tensor& t : no.captured) {
    const auto found = std::find(operands.begin(), operands.end(), t);
    no_at.push_back(static_cast<size_t>(found - operands.begin()));
    if (found == operands.end()) operands.push_back(t);
  }
  const auto widen = [&](const Closed& branch, const std::vector<size_t>& at) {
    auto out = std::make_shared<Function>();
    out->params = parameters(types_of(operands));
    Tensors arguments;
    for (size_t i : at) arguments.push_back(out->params[i]);
    out->results = inline_function(*branch.function, arguments);
    return out;
  };
  const FunctionPtr t = widen(yes, yes_at), f = widen(no, no_at);
  operands.insert(operands.begin(), predicate);
  return apply_all(Cond{t, f}, operands);
}

namespace {

void require_names(const RematPolicy& policy, const Function& body) {
  if (policy.saves != RematPolicy::Saves::kNames) return;
  std::set<std::string> known;
  for (const auto& node : reachable(body.results)) {
    if (const auto* named = node->as<CheckpointName>()) known.insert(named->value_name);
  }
  for (const std::string& name : policy.names) {
    if (known.contains(name)) continue;
    std::string list;
    for (const std::string& one : known) list += (list.empty() ? "'" : ", '") + one + "'";
    fail("remat", "no value of the body is named '" + name + "' (train.remat_names); " +
                      (known.empty() ? "none has a name" : "there are " + list));
  }
}

}  // namespace

Tensors remat(const std::function<Tensors(const Tensors&)>& body, const Tensors& operands,
              const RematPolicy& policy, bool guarded) {
  const Closed closed = trace_inside(types_of(operands), body);
  require_names(policy, *closed.function);
  Tensors all = closed.captured;
  all.insert(all.end(), operands.begin(), operands.end());
  return apply_all(Remat{closed.function, policy, guarded}, all);
}

}  // namespace espalier
