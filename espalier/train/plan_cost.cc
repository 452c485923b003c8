#include "espalier/train/plan_cost.h"

#include <algorithm>
#include <map>
#include <string>
#include <unordered_set>

#include "espalier/ops/gather.h"
#include "espalier/ops/shard_map.h"

namespace espalier::planning {
namespace {

struct Peak {
  double device = 0, host = 0;
};

struct Account {
  const Graph& graph;
  const Splits& splits;
  const PlatformTraits& traits;
  Store store;
  GraphCost cost;
  std::map<std::pair<std::string, int64_t>, CollectiveCost> collectives;
};

// One body in time, run `times` in all.
class Timeline {
 public:
  Timeline(Account& all, const Body& body, const Op* of, double times)
      : all_(all), of_(of), times_(times) {
    schedule_ = schedule_body(all.graph, all.splits, all.traits, body, of, all.store);
    if (of == nullptr || of->kind != OpKind::kLoop) return;
    for (size_t i = 0; i < of->consts; ++i) constants_.insert(body.params[i]);
  }

  Peak run() {
    for (const int b : schedule_.carries) add(b);
    note();
    for (size_t t = 0; t < schedule_.events.size(); ++t) {
      const Event& event = schedule_.events[t];
      if (event.joined != 0) {
        count_collective("all-reduce", event.joined, bytes(event.op->results[0]), 2, -times_);
      }
      if (event.sunk != 0) {
        count_collective("all-reduce", event.sunk, bytes(event.op->results[0]), 2,
                         times_ / static_cast<double>(of_->length) - times_);
      }
      if (event.runs) step(event, static_cast<int>(t));
    }
    return peak_;
  }

 private:
  Value& value(int v) { return all_.store.value(v); }
  Buffer& buffer(int b) { return all_.store.buffer(b); }
  double bytes(int v, AxisSet whole = 0) const { return all_.splits.bytes(v, whole); }

  void note(double device = 0, double host = 0) {
    peak_.device = std::max(peak_.device, device_ + device);
    peak_.host = std::max(peak_.host, host_ + host);
  }
  void add(int b) { (buffer(b).host ? host_ : device_) += buffer(b).bytes; }
  void remove(int b) {
    if (gone_.insert(b).second) (buffer(b).host ? host_ : device_) -= buffer(b).bytes;
  }

  void step(const Event& event, int t) {
    const Op& op = *event.op;
    count_traffic(event);
    for (const int copy : event.copies) {
      if (made_.insert(copy).second) add(copy);
    }
    const bool loop = op.kind == OpKind::kLoop;
    for (size_t i = 0; loop && i < op.results.size(); ++i) {
      if (i >= op.carries) add(event.born[i]);
    }
    const double taken = loop ? carries_taken(op, t) : 0;
    for (size_t i = 0; loop && i < op.operands.size(); ++i) {
      value(op.bodies[0].params[i]).host = value(op.operands[i]).host;
    }
    run_bodies(op, taken);
    double sums = 0;  // whole, before they are scattered
    for (const int result : op.results) {
      if (event.parts.scattered != 0) sums += bytes(result, event.parts.scattered);
    }
    for (size_t i = 0; i < event.born.size(); ++i) {
      if (loop && i >= op.carries) continue;
      take_over(event, event.born[i], t);
      add(event.born[i]);
    }
    // A loop's carries may have been smaller in sum than what its body held.
    note(sums);
    for (const Read& read : event.reads) bury(read.buffer, t);
    for (const int b : event.copies) bury(b, t);
    for (const int b : event.born) bury(b, t);
  }

  // Of a conditional's branches, the one that moves most counts.
  void run_bodies(const Op& op, double taken) {
    const GraphCost cost = all_.cost;
    const auto collectives = all_.collectives;
    for (size_t i = 0; i < op.bodies.size(); ++i) {
      GraphCost first = std::move(all_.cost);
      auto first_collectives = std::move(all_.collectives);
      all_.cost = cost;
      all_.collectives = collectives;
      const Peak inner =
          Timeline(all_, op.bodies[i], &op, times_ * static_cast<double>(op.length)).run();
      note(inner.device - taken, inner.host);
      if (i == 0 || all_.cost.bytes_accessed >= first.bytes_accessed) continue;
      all_.cost = std::move(first);
      all_.collectives = std::move(first_collectives);
    }
  }

  void bury(int b, int t) {
    if (buffer(b).last == t && !buffer(b).external) remove(b);
  }

  // Gives a result the place of an operand that ends here.
  void take_over(const Event& event, int born, int t) {
    if (event.op->kind == OpKind::kLoop) {
      for (const Read& read : event.reads) bury_carry(event, read.buffer, t);
      return;
    }
    if (event.op->kind != OpKind::kElementwise && event.op->kind != OpKind::kInPlace) return;
    const Buffer& made = buffer(born);
    for (const Read& read : event.reads) {
      const Buffer& b = buffer(read.buffer);
      if (b.last != t || b.external || b.bytes != made.bytes || b.host != made.host ||
          gone_.contains(read.buffer)) {
        continue;
      }
      remove(read.buffer);
      return;
    }
  }

  // Whether the buffer is an initial carry that ends with the loop, which goes on in its place.
  bool is_taken(const Op& op, int b, int t) {
    if (buffer(b).last != t || buffer(b).external) return false;
    for (size_t i = op.consts; i < op.consts + op.carries; ++i) {
      const Value& v = value(op.operands[i]);
      if (v.stored && v.reads.size() == 1 && v.reads[0].buffer == b) return true;
    }
    return false;
  }
  void bury_carry(const Event& event, int b, int t) {
    if (is_taken(*event.op, b, t)) remove(b);
  }
  double carries_taken(const Op& op, int t) {
    double out = 0;
    std::unordered_set<int> seen;
    for (size_t i = op.consts; i < op.consts + op.carries; ++i) {
      for (const Read& read : value(op.operands[i]).reads) {
        if (is_taken(op, read.buffer, t) && seen.insert(read.buffer).second) {
          out += buffer(read.buffer).bytes;
        }
      }
    }
    return out;
  }

  bool on_chip(int b) {
    return !buffer(b).external && buffer(b).bytes <= all_.traits.on_chip_bytes;
  }

  double bytes_moved(const Event& event) {
    const Op& op = *event.op;
    if (op.kind == OpKind::kInPlace) return 2 * bytes(op.operands[1]);
    if (op.node->as<Take>() != nullptr) return 3 * bytes(op.results[0]);
    if (op.node->as<AddRows>() != nullptr) return 3 * bytes(op.operands[2]);
    if (!op.bodies.empty()) return 0;
    double out = 0;
    for (const Read& read : event.reads) out += on_chip(read.buffer) ? 0 : read.bytes;
    for (const int b : event.born) out += on_chip(b) ? 0 : buffer(b).bytes;
    for (const int result : op.results) out += bytes(result, event.parts.scattered) - bytes(result);
    for (const int result : event.written) out += bytes(result);
    return out;
  }

  void count_traffic(const Event& event) {
    const Op& op = *event.op;
    const Partition& parts = event.parts;
    all_.cost.flops += times_ * parts.flops;
    all_.cost.bytes_accessed += times_ * bytes_moved(event);
    count_manual(op);
    for (size_t i = 0; i < parts.gathers.size(); ++i) {
      const Gather& g = parts.gathers[i];
      if (made_.contains(event.copies[i])) continue;  // gathered before
      const bool once = all_.traits.hoists_gathers && constants_.contains(g.value);
      count_collective(g.moved ? "all-to-all" : "all-gather", g.axes,
                       bytes(g.value, g.moved ? 0 : g.axes), 1,
                       once ? times_ / static_cast<double>(of_->length) : times_);
    }
    for (const int result : op.results) {
      if (parts.scattered != 0) {
        count_collective("reduce-scatter", parts.scattered, bytes(result, parts.scattered), 1,
                         times_);
      }
      if (parts.reduced != 0) {
        count_collective("all-reduce", parts.reduced, bytes(result), 2, times_);
      }
    }
  }

  // Collectives of a manual region, which the model itself asked for.
  void count_manual(const Op& op) {
    const auto axes = [&](const auto& names) { return all_.splits.bits(names); };
    const auto in = [&] { return bytes(op.operands[0]); };
    if (const auto* reduce = op.node->as<AllReduce>()) {
      count_collective("all-reduce", axes(reduce->axes), in(), 2, times_);
    } else if (const auto* gather = op.node->as<AllGather>()) {
      count_collective("all-gather", axes(gather->axes), bytes(op.results[0]), 1, times_);
    } else if (const auto* scatter = op.node->as<ReduceScatter>()) {
      count_collective("reduce-scatter", axes(scatter->axes), in(), 1, times_);
    } else if (const auto* all = op.node->as<AllToAll>()) {
      count_collective("all-to-all", axes(std::vector{all->axis}), in(), 1, times_);
    } else if (op.node->as<CollectivePermute>() != nullptr) {
      CollectiveCost& c = all_.collectives[{"collective-permute", 0}];
      c.kind = "collective-permute";
      c.group_size = 0;
      c.count += times_;
      c.bytes += times_ * in();
      c.received_bytes += times_ * in();
    }
  }

  void count_collective(const char* kind, AxisSet axes, double size, double rounds, double times) {
    const int64_t group = all_.splits.devices(axes);
    CollectiveCost& c = all_.collectives[{kind, group}];
    c.kind = kind;
    c.group_size = group;
    c.count += times;
    c.bytes += times * size;
    c.received_bytes +=
        times * rounds * size * static_cast<double>(group - 1) / static_cast<double>(group);
  }

  Account& all_;
  const Op* of_;
  double times_;
  Schedule schedule_;
  std::unordered_set<int> constants_;    // values, of the loop whose body this is
  std::unordered_set<int> made_, gone_;  // buffers
  double device_ = 0, host_ = 0;
  Peak peak_;
};

}  // namespace

GraphCost graph_cost(const Graph& graph, const Splits& splits, const PlatformTraits& traits) {
  Account account{graph, splits, traits, {}, {}, {}};
  account.store.values.resize(graph.types.size());
  const Peak peak = Timeline(account, graph.main, nullptr, 1).run();
  GraphCost out = std::move(account.cost);
  out.temporary_bytes = peak.device;
  out.host_bytes = peak.host;
  for (auto& [key, cost] : account.collectives) out.collectives.push_back(std::move(cost));
  return out;
}

}  // namespace espalier::planning
