#include "espalier/transform/structured.h"

#include <algorithm>

#include "espalier/ir/parameter.h"
#include "espalier/ops/annotate.h"
#include "espalier/ops/control.h"
#include "espalier/ops/elementwise.h"
#include "espalier/ops/shape.h"
#include "espalier/ops/shard_map.h"
#include "espalier/ops/source.h"
#include "espalier/transform/residuals.h"

namespace espalier {
namespace {

void linearize_scan(const Scan& scan_op, const Tensors& operands, std::vector<bool> active,
                    LinearNode& out) {
  const size_t consts = scan_op.consts, carries = scan_op.carries;
  const Function& body = *scan_op.body;
  // A carry is active once its initial value or, through any step, its new value is.
  while (true) {
    const std::vector<bool> results = active_results(body, active);
    bool grew = false;
    for (size_t i = 0; i < carries; ++i) {
      if (results[i] && !active[consts + i]) grew = active[consts + i] = true;
    }
    if (!grew) break;
  }
  std::vector<bool> given(body.params.size(), true);  // constants and scanned arrays
  for (size_t i = 0; i < carries; ++i) given[consts + i] = false;
  const Split parts = split(body, active, keep_all(body, given));

  // Forward: also stack the residuals and the carries that the pullback reads.
  auto augmented = std::make_shared<Function>();
  augmented->params = body.params;
  augmented->results = parts.linear.outputs;
  Tensors saved = parts.saved;
  for (size_t i = 0; i < carries; ++i) {
    if (parts.params[consts + i]) saved.push_back(body.params[consts + i]);
  }
  augmented->results.insert(augmented->results.end(), saved.begin(), saved.end());
  Scan forward = scan_op;
  forward.body = augmented;
  const Tensors all = apply_all(forward, operands);
  const size_t results = body.results.size();
  out.outputs = part(all, 0, results);
  const Tensors stacks = part(all, results, saved.size());
  out.active.clear();
  for (size_t i = 0; i < results; ++i) {
    out.active.push_back(i < carries ? active[consts + i] : bool(parts.results[i]));
  }

  out.pullback = [=, body = scan_op.body](const Tensors& ct) {
    // State: cotangents of active carries, then sums for active constants.
    std::vector<size_t> carry_ids, const_ids, scanned_ids;
    for (size_t i : parts.wrt) {
      (i < consts ? const_ids : i < consts + carries ? carry_ids : scanned_ids).push_back(i);
    }
    Tensors state, elements = stacks;
    for (size_t i : carry_ids) {
      const Tensor& incoming = ct[i - consts];
      state.push_back(incoming.empty() ? zeros_like(operands[i]) : incoming);
    }
    for (size_t i : const_ids) state.push_back(zeros_like(operands[i]));
    std::vector<size_t> scanned_used, outputs_used;
    for (size_t i = consts + carries; i < operands.size(); ++i) {
      if (parts.params[i]) scanned_used.push_back(i);
    }
    for (size_t i = carries; i < body->results.size(); ++i) {
      if (parts.results[i] && !ct[i].empty()) outputs_used.push_back(i);
    }
    for (size_t i : scanned_used) elements.push_back(operands[i]);
    for (size_t i : outputs_used) elements.push_back(ct[i]);

    const auto step = [&](const Tensors& now, const Tensors& element) {
      Tensors cts(body->results.size());
      for (size_t k = 0; k < carry_ids.size(); ++k) {
        if (parts.results[carry_ids[k] - consts]) cts[carry_ids[k] - consts] = now[k];
      }
      const size_t first_output = saved.size() + scanned_used.size();
      for (size_t k = 0; k < outputs_used.size(); ++k) {
        cts[outputs_used[k]] = element[first_output + k];
      }
      TensorMap map;
      for (size_t i = 0; i < consts; ++i) map.emplace(body->params[i], operands[i]);
      for (size_t k = 0; k < saved.size(); ++k) map.emplace(saved[k], element[k]);
      for (size_t k = 0; k < scanned_used.size(); ++k) {
        map.emplace(body->params[scanned_used[k]], element[saved.size() + k]);
      }
      const Tensors grads = substitute(parts.linear.pullback(cts), map);
      ScanResult next;
      size_t at = 0;  // wrt is ordered: constants, carries, scanned
      Tensors sums;
      for (size_t k = 0; k < const_ids.size(); ++k, ++at) {
        const Tensor& sum = now[carry_ids.size() + k];
        sums.push_back(grads[at].empty() ? sum : add(sum, grads[at]));
      }
      for (size_t i : carry_ids) {
        next.carry.push_back(grads[at].empty() ? zeros_like(operands[i]) : grads[at]);
        ++at;
      }
      next.carry.insert(next.carry.end(), sums.begin(), sums.end());
      for (size_t i : scanned_ids) {
        next.outputs.push_back(grads[at].empty() ? zeros_like(body->params[i]) : grads[at]);
        ++at;
      }
      return next;
    };
    const ScanResult backward = scan(step, state, elements, scan_op.length, !scan_op.reversed);
    Tensors grads(operands.size());
    for (size_t k = 0; k < carry_ids.size(); ++k) grads[carry_ids[k]] = backward.carry[k];
    for (size_t k = 0; k < const_ids.size(); ++k) {
      grads[const_ids[k]] = backward.carry[carry_ids.size() + k];
    }
    for (size_t k = 0; k < scanned_ids.size(); ++k) grads[scanned_ids[k]] = backward.outputs[k];
    return grads;
  };
}

// The branch that ran is computed again in the backward pass, so that no residual of the other
// branch needs a place.
void linearize_cond(const Cond& op, const Node& node, const Tensors& operands,
                    const std::vector<bool>& active, LinearNode& out) {
  out.outputs = make_node(node.op, operands);
  std::vector<bool> params(active.begin() + 1, active.end());
  const auto yes = active_results(*op.on_true, params), no = active_results(*op.on_false, params);
  for (size_t i = 0; i < yes.size(); ++i) out.active.push_back(yes[i] || no[i]);
  const Tensors arguments(operands.begin() + 1, operands.end());
  const std::vector<size_t> wrt = indices_of(params);
  out.pullback = [=](const Tensors& ct) {
    const auto branch = [&](const FunctionPtr& f) {
      return [&, f] {
        // By the branch's own parameters, since one value may be several of the arguments.
        const Tensors by = chosen(f->params, wrt);
        Tensors grads = linearize(f->results, by).pullback(ct);
        for (size_t k = 0; k < grads.size(); ++k) {
          if (grads[k].empty()) grads[k] = zeros_like(by[k]);
        }
        return inline_function({f->params, grads}, arguments);
      };
    };
    const Tensors by = cond(operands[0], branch(op.on_true), branch(op.on_false));
    Tensors grads(operands.size());
    for (size_t k = 0; k < wrt.size(); ++k) grads[wrt[k] + 1] = by[k];
    return grads;
  };
}

// Fails only when a cotangent arrives: a rule of custom_vjp may stand in for the loop.
void linearize_while(const Node& node, const Tensors& operands, LinearNode& out) {
  out.outputs = make_node(node.op, operands);
  for (size_t i = 0; i < node.types.size(); ++i) out.active.push_back(result_active(node, i));
  out.pullback = [](const Tensors&) -> Tensors {
    fail("grad",
         "a while loop has no reverse-mode gradient, since its length is not known; use "
         "scan, or stop_gradient before it");
  };
}

// Manual axes that a spec does not name: the value is the same along them.
std::vector<std::string> unnamed(const std::vector<std::string>& manual,
                                 const PartitionSpec& spec) {
  std::vector<std::string> out;
  for (const std::string& axis : manual) {
    const bool named = std::any_of(spec.begin(), spec.end(), [&](const auto& dim) {
      return std::find(dim.begin(), dim.end(), axis) != dim.end();
    });
    if (!named) out.push_back(axis);
  }
  return out;
}

// A residual leaves the region as a global array with a dim in front that is split by all manual
// axes, so that every device gets its own back.
//
// Copies: the cotangent of a result that is equal along axes belongs to all its copies together, so
// each gets its share; an operand that is equal along axes gets the sum of its copies' cotangents.
void linearize_shard_map(const ShardMap& op, const Tensors& operands,
                         const std::vector<bool>& active, LinearNode& out) {
  const Split parts =
      split(*op.body, active, keep_all(*op.body, std::vector<bool>(active.size(), true)));
  const PartitionSpec per_device = {op.axes};
  ShardMap forward = op;
  auto augmented = std::make_shared<Function>();
  augmented->params = op.body->params;
  augmented->results = parts.linear.outputs;
  for (const Tensor& t : parts.saved) {
    Dims dims = t.dims();
    dims.insert(dims.begin(), 1);
    augmented->results.push_back(reshape(t, dims));
    forward.out_specs.push_back(per_device);
  }
  forward.body = augmented;
  const Tensors all = apply_all(forward, operands);
  const size_t results = op.body->results.size();
  out.outputs = part(all, 0, results);
  out.active = parts.results;
  const Tensors stacks = part(all, results, parts.saved.size());

  out.pullback = [=](const Tensors& ct) {
    ShardMap backward = op;
    backward.in_specs.clear();
    backward.out_specs.clear();
    auto function = std::make_shared<Function>();
    Tensors arguments;
    const auto take = [&](const Tensor& global, const PartitionSpec& spec) {
      arguments.push_back(global);
      backward.in_specs.push_back(spec);
      function->params.push_back(parameter(
          {global.dtype(), shard_dims(op.mesh, spec, global.dims(), "[shard_map] cotangent")}));
      return function->params.back();
    };
    TensorMap map;
    for (size_t k = 0; k < parts.saved.size(); ++k) {
      map.emplace(parts.saved[k], reshape(take(stacks[k], per_device), parts.saved[k].dims()));
    }
    for (size_t i = 0; i < operands.size(); ++i) {
      if (parts.params[i]) map.emplace(op.body->params[i], take(operands[i], op.in_specs[i]));
    }
    Tensors cts(results);
    for (size_t i = 0; i < results; ++i) {
      if (ct[i].empty() || !parts.results[i]) continue;
      const int64_t copies = op.mesh.size(unnamed(op.axes, op.out_specs[i]));
      cts[i] = take(ct[i], op.out_specs[i]);
      if (copies > 1) cts[i] = cts[i] / static_cast<double>(copies);
    }
    const Tensors grads = substitute(parts.linear.pullback(cts), map);
    std::vector<size_t> given;
    for (size_t k = 0; k < grads.size(); ++k) {
      if (grads[k].empty()) continue;
      const PartitionSpec& spec = op.in_specs[parts.wrt[k]];
      const auto copies = unnamed(op.axes, spec);
      given.push_back(parts.wrt[k]);
      function->results.push_back(copies.empty() ? grads[k]
                                                 : apply(AllReduce{op.mesh, copies}, {grads[k]}));
      backward.out_specs.push_back(spec);
    }
    Tensors result(operands.size());
    if (given.empty()) return result;
    verify(*function);
    backward.body = function;
    const Tensors by = apply_all(backward, arguments);
    for (size_t k = 0; k < given.size(); ++k) result[given[k]] = by[k];
    return result;
  };
}

}  // namespace

bool linearize_structured(const Node& node, const Tensors& operands,
                          const std::vector<bool>& active, LinearNode& out) {
  if (const auto* op = node.as<Scan>()) {
    linearize_scan(*op, operands, active, out);
  } else if (const auto* op = node.as<Cond>()) {
    linearize_cond(*op, node, operands, active, out);
  } else if (const auto* op = node.as<Remat>()) {
    linearize_remat(*op, operands, active, out);
  } else if (const auto* op = node.as<ShardMap>()) {
    linearize_shard_map(*op, operands, active, out);
  } else if (node.as<While>() != nullptr) {
    linearize_while(node, operands, out);
  } else {
    return false;
  }
  return true;
}

}  // namespace espalier
