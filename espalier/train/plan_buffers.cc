#include "espalier/train/plan_buffers.h"

#include <algorithm>
#include <limits>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "espalier/ops/op_list.h"

namespace espalier::planning {
namespace {

bool takes_a_part(const Node& node) {
  return node.as<DynamicSlice>() != nullptr || node.as<Slice>() != nullptr;
}

void merge(std::vector<Read>& into, const Read& read) {
  for (Read& r : into) {
    if (r.buffer != read.buffer) continue;
    r.bytes = std::max(r.bytes, read.bytes);
    return;
  }
  into.push_back(read);
}

class Scheduler {
 public:
  Scheduler(const Graph& graph, const Splits& splits, const PlatformTraits& traits,
            const Body& body, const Op* of, Store& store)
      : graph_(graph), splits_(splits), traits_(traits), body_(body), of_(of), store_(store) {}

  Schedule run() {
    const bool loop = of_ != nullptr && of_->kind == OpKind::kLoop;
    const size_t consts = loop ? of_->consts : body_.params.size();
    const size_t carries = loop ? of_->carries : 0;
    // Results from this one on go straight to where they stay: into a loop's stack, or the place of
    // a donated argument.
    const size_t in_place = loop ? carries : of_ != nullptr ? body_.results.size() : 0;
    const bool whole = has_whole_backward_pass();
    count_uses(in_place, traits_.recomputes_for_products && whole);
    for (size_t i = 0; i < body_.params.size(); ++i) {
      const bool carried = i >= consts && i < consts + carries;
      const int made = give_buffer(body_.params[i], !carried, store_.value(body_.params[i]).host);
      if (carried) out_.carries.push_back(made);
    }
    for (const int i : traits_.postpones_weight_gradients&& whole ? postponed() : as_traced()) {
      place(body_.ops[static_cast<size_t>(i)]);
    }
    const int end = static_cast<int>(out_.events.size());
    for (size_t i = 0; i < in_place; ++i) mark(store_.value(body_.results[i]).reads, end);
    for (const auto& [key, copy] : copies_) {
      if (loop) store_.buffer(copy).last = end;
    }
    return std::move(out_);
  }

 private:
  struct Use {
    int readers = 0;
    bool needs_buffer = false;
    bool is_result = false;  // written in place
  };

  double bytes(int v, AxisSet whole = 0) const { return splits_.bytes(v, whole); }
  const TensorType& type(int v) const { return graph_.types[static_cast<size_t>(v)]; }

  int new_buffer(double size, bool external = false, bool host = false) {
    store_.buffers.push_back({size, -1, external, host});
    return static_cast<int>(store_.buffers.size()) - 1;
  }
  int give_buffer(int v, bool external, bool host) {
    const int made = new_buffer(bytes(v), external, host);
    store_.value(v) = {{{made, bytes(v)}}, true, host};
    return made;
  }
  void mark(const std::vector<Read>& reads, int t) {
    for (const Read& read : reads) store_.buffer(read.buffer).last = t;
  }

  // The function itself, or the body of a loop over batches.
  bool has_whole_backward_pass() const {
    return of_ == nullptr || std::any_of(body_.ops.begin(), body_.ops.end(), [](const Op& op) {
             return op.node->as<AddRows>() != nullptr;  // the gradient of an embedding
           });
  }

  std::vector<int> as_traced() const {
    std::vector<int> out;
    for (size_t i = 0; i < body_.ops.size(); ++i) out.push_back(static_cast<int>(i));
    return out;
  }

  // The first half of the products that end in gradients of parameters wait for the last of them,
  // and what reads them with them.
  std::vector<int> postponed() const {
    const int end = static_cast<int>(body_.ops.size());
    std::unordered_set<int> read_by_products;
    std::vector<int> products;  // the latest first
    for (int t = end - 1; t >= 0; --t) {
      const Op& op = body_.ops[static_cast<size_t>(t)];
      const bool read = std::any_of(op.results.begin(), op.results.end(),
                                    [&](int v) { return read_by_products.contains(v); });
      if (op.kind == OpKind::kDot && !read) products.push_back(t);
      const bool product =
          op.kind == OpKind::kDot || !op.bodies.empty() || op.node->as<CustomCall>() != nullptr;
      if (product || read) read_by_products.insert(op.operands.begin(), op.operands.end());
    }
    if (products.size() < 2) return as_traced();
    const auto half = products.begin() + static_cast<int64_t>(products.size() / 2);
    const std::unordered_set<int> waiting(half, products.end());
    std::unordered_map<int, int> made_at;  // by value
    std::vector<std::pair<int, int>> places;
    for (int t = 0; t < end; ++t) {
      const Op& op = body_.ops[static_cast<size_t>(t)];
      int at = waiting.contains(t) ? *half : t;
      for (const int operand : op.operands) {
        if (const auto found = made_at.find(operand); found != made_at.end()) {
          at = std::max(at, found->second);
        }
      }
      for (const int result : op.results) made_at[result] = at;
      places.emplace_back(at, t);
    }
    std::sort(places.begin(), places.end());
    std::vector<int> out;
    for (const auto& [at, t] : places) out.push_back(t);
    return out;
  }

  // Backwards, so that whoever reads a view or a conversion is known to read what it is of.
  void count_uses(size_t in_place, bool products_fuse) {
    for (size_t i = 0; i < body_.results.size(); ++i) {
      Use& use = uses_[body_.results[i]];
      ++use.readers;
      (i < in_place ? use.needs_buffer : use.is_result) = true;
    }
    for (auto op = body_.ops.rbegin(); op != body_.ops.rend(); ++op) {
      const bool fuses = op->kind == OpKind::kElementwise || op->kind == OpKind::kReduce ||
                         (op->kind == OpKind::kDot && products_fuse);
      for (size_t i = 0; i < op->operands.size(); ++i) {
        const Use seen = uses_[op->results[std::min(i, op->results.size() - 1)]];
        Use& use = uses_[op->operands[i]];
        if (op->kind == OpKind::kView) {
          use.readers += std::max(seen.readers, 1);
          use.needs_buffer |= seen.needs_buffer || op->node->as<OptimizationBarrier>() != nullptr;
          use.is_result |= seen.is_result;
        } else if (op->node->as<Convert>() != nullptr) {
          use.readers += std::max(seen.readers, 1);
        } else {
          ++use.readers;
          use.needs_buffer |= op->kind == OpKind::kInPlace ? i == 0 : !fuses;
        }
      }
    }
  }

  bool is_stored(const Op& op, const Event& event) {
    const Use& use = uses_[op.results[0]];
    if (use.needs_buffer) return true;
    if (use.readers < 2) return false;
    const double half = splits_.elements(op.results[0]) / 2;
    int whole = 0;
    double most = 0;
    for (const Read& read : event.reads) {
      whole += read.bytes >= half ? 1 : 0;
      most = std::max(most, read.bytes);
    }
    return whole > 1 && bytes(op.results[0]) <= most;
  }

  double gathered_bytes(const Gather& g) const { return bytes(g.value, g.moved ? 0 : g.axes); }

  int copy_of(int v, AxisSet key, double size, int t) {
    const auto [at, is_new] = copies_.try_emplace({v, key});
    if (is_new) at->second = new_buffer(size);
    store_.buffer(at->second).last = t;
    return at->second;
  }

  // What is read of an operand: its copy where it was gathered.
  std::vector<Read> reads_of(const Event& event, int operand) {
    for (size_t i = 0; i < event.parts.gathers.size(); ++i) {
      const Gather& g = event.parts.gathers[i];
      if (g.value == operand) return {{event.copies[i], gathered_bytes(g)}};
    }
    return store_.value(operand).reads;
  }

  // Decides how an op's results exist, and what it reads.
  void place(const Op& op) {
    const int t = static_cast<int>(out_.events.size());
    Event& event = out_.events.emplace_back();
    event.op = &op;
    if (op.kind == OpKind::kSource) return;
    event.parts = partition(graph_, splits_, op);
    for (const Gather& g : event.parts.gathers) {
      event.copies.push_back(copy_of(g.value, g.moved ? 0 : g.axes, gathered_bytes(g), t));
    }
    const double most =
        takes_a_part(*op.node) ? bytes(op.results[0]) : std::numeric_limits<double>::infinity();
    for (const int operand : op.operands) {
      for (Read read : reads_of(event, operand)) {
        read.bytes = std::min(read.bytes, most);
        merge(event.reads, read);
      }
    }
    join_sums(op, event);
    // Gathering is work of its own, whoever reads the copy.
    event.runs = !event.copies.empty();
    for (const Gather& g : event.parts.gathers) mark(store_.value(g.value).reads, t);
    if (op.kind == OpKind::kView) {
      for (size_t i = 0; i < op.results.size(); ++i) {
        const int operand = op.operands[std::min(i, op.operands.size() - 1)];
        Value same = store_.value(operand);
        if (event.runs) same = {reads_of(event, operand), true, false};
        store_.value(op.results[i]) = std::move(same);
      }
      return;
    }
    if (op.kind == OpKind::kElementwise && !is_stored(op, event)) {
      for (const int result : op.results) store_.value(result) = {event.reads, false, false};
      if (!uses_[op.results[0]].is_result) return;
      event.runs = true;
      event.written = op.results;
      mark(event.reads, t);
      return;
    }
    event.runs = true;
    mark(event.reads, t);
    for (size_t i = 0; i < op.results.size(); ++i) make_result(op, i, t, event);
    if (op.kind == OpKind::kLoop) copy_stacks(op, t, event);
  }

  void make_result(const Op& op, size_t i, int t, Event& event) {
    const auto* moved = op.node->as<PlaceInMemory>();
    bool host = moved != nullptr && moved->kind == MemoryKind::kPinnedHost;
    const bool stacked = op.kind == OpKind::kLoop && i >= op.carries;
    if (stacked) host = goes_to_host(op.bodies[0], op.bodies[0].results[i]);
    const int result = op.results[i];
    event.born.push_back(give_buffer(result, false, host));
    store_.buffer(event.born.back()).last = t;
    if (!host || !stacked || !traits_.prefetches_from_host) return;
    event.copies.push_back(new_buffer(bytes(result) / static_cast<double>(op.length)));
    store_.buffer(event.copies.back()).last = t;
    store_.value(result).reads.push_back({event.copies.back(), 0});
  }

  static bool goes_to_host(const Body& body, int result) {
    return std::any_of(body.ops.begin(), body.ops.end(), [&](const Op& op) {
      const auto* moved = op.node->as<PlaceInMemory>();
      return moved != nullptr && moved->kind == MemoryKind::kPinnedHost && op.results[0] == result;
    });
  }

  // Sums of parts on devices that are only added to one another are added up between devices once.
  void join_sums(const Op& op, Event& event) {
    const auto pending = [&](int v) {
      const auto found = sums_.find(v);
      return found == sums_.end() || uses_[v].readers != 1 ? AxisSet{0} : found->second;
    };
    if (op.kind == OpKind::kDot && event.parts.reduced != 0) {
      sums_[op.results[0]] = event.parts.reduced;
    } else if (op.kind == OpKind::kView && event.copies.empty() && op.operands.size() == 1) {
      sums_[op.results[0]] = pending(op.operands[0]);
    } else if (const auto* binary = op.node->as<Binary>();
               binary != nullptr && binary->kind == BinaryKind::kAdd) {
      const AxisSet left = pending(op.operands[0]), right = pending(op.operands[1]);
      if (left != 0 && left == right) {
        sums_[op.results[0]] = event.joined = left;
      } else if ((left == 0) != (right == 0) && traits_.sinks_all_reduces && is_carried_sum(op)) {
        event.sunk = left | right;
      }
    }
  }

  // Whether the op adds to a carry of the loop what then is that carry.
  bool is_carried_sum(const Op& op) const {
    if (of_ == nullptr || of_->kind != OpKind::kLoop) return false;
    for (size_t i = 0; i < of_->carries; ++i) {
      if (body_.results[i] != op.results[0]) continue;
      const int carry = body_.params[of_->consts + i];
      return op.operands[0] == carry || op.operands[1] == carry;
    }
    return false;
  }

  // The copies of whole stacks that the traits tell of.
  void copy_stacks(const Op& loop, int t, Event& event) {
    if (!traits_.converts_stacks && !traits_.copies_gathered_stacks) return;
    const Body& body = loop.bodies[0];
    std::unordered_map<int, int> stacks;  // by value in the body: the operand it is a slice of
    for (size_t i = loop.consts + loop.carries; i < body.params.size(); ++i) {
      stacks.emplace(body.params[i], loop.operands[i]);
    }
    const auto add = [&](int stack, double share) {
      event.copies.push_back(copy_of(stack, ~AxisSet{0}, share * bytes(stack), t));
    };
    for (const Op& op : body.ops) {
      const auto from = op.operands.empty() ? stacks.end() : stacks.find(op.operands[0]);
      const auto* convert = op.node->as<Convert>();
      if (from != stacks.end() && convert != nullptr && traits_.converts_stacks) {
        const double share = static_cast<double>(byte_size(convert->dtype)) /
                             static_cast<double>(byte_size(type(op.operands[0]).dtype));
        if (share < 1) add(from->second, share);
      }
      if (!traits_.copies_gathered_stacks) continue;
      if (from != stacks.end() && op.operands.size() == 1 &&
          type(op.operands[0]).dims == type(op.results[0]).dims) {
        stacks.emplace(op.results[0], from->second);
      }
      for (const Gather& g : partition(graph_, splits_, op).gathers) {
        const auto found = stacks.find(g.value);
        if (found == stacks.end() || g.moved || type(g.value).rank() < 2) continue;
        if ((splits_.axes(g.value, 0) & g.axes) == 0) add(found->second, 1);
      }
    }
  }

  const Graph& graph_;
  const Splits& splits_;
  const PlatformTraits& traits_;
  const Body& body_;
  const Op* of_;
  Store& store_;
  Schedule out_;
  std::unordered_map<int, Use> uses_;
  std::unordered_map<int, AxisSet> sums_;  // values that are parts of a sum over these axes
  std::map<std::pair<int, AxisSet>, int> copies_;
};

}  // namespace

PlatformTraits traits_of(const std::string& platform, int64_t devices) {
  PlatformTraits out;
  out.sinks_all_reduces = platform != "cpu";
  if (platform == "cuda") {
    out.copies_gathered_stacks = true;
    out.postpones_weight_gradients = devices > 1;
  } else if (platform == "tpu") {
    out.converts_stacks = out.hoists_gathers = out.prefetches_from_host = true;
    out.recomputes_for_products = true;
    out.on_chip_bytes = 32 << 20;
  }
  return out;
}

Schedule schedule_body(const Graph& graph, const Splits& splits, const PlatformTraits& traits,
                       const Body& body, const Op* of, Store& store) {
  return Scheduler(graph, splits, traits, body, of, store).run();
}

}  // namespace espalier::planning
