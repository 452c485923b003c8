// Which values of a body have a buffer of their own, and which op reads what.
//
// It follows what XLA does on every platform:
//  - results of products, reductions, collectives and loops have one; sources and views have none;
//  - an elementwise value has one where a product, a loop or a collective reads it, or where it has
//    several readers, joins two arrays of its size and is no wider than they; otherwise its readers
//    compute it from what it is made of (instruction fusion);
//  - an array gathered for an op is a buffer, which later ops that need the same share; in a loop's
//    body it stays to the end, since schedulers gather early and free it late.
#pragma once

#include <string>
#include <vector>

#include "espalier/train/plan_splits.h"

namespace espalier::planning {

// What the compilers of the platforms do differently.
struct PlatformTraits {
  // A stacked weight that is gathered along another dim than its first is kept a second time with
  // that dim in front, since a gather writes its pieces one after another (XLA for GPU).
  bool copies_gathered_stacks = false;
  // Sums over devices that a loop only adds up are made once, after it (XLA for GPU and
  // TPU).
  bool sinks_all_reduces = false;
  // Where layers stand one after another, the products that make weights' gradients wait until half
  // of them are due, and what they read waits with them (XLA for GPU's scheduler, which hides the
  // time of collectives; it does so only where there are some).
  bool postpones_weight_gradients = false;
  // Stacked weights that a loop converts to a narrower type are converted whole, before it, and
  // kept; what a loop gathers of its constants is gathered once, before it; and of what waits in
  // the host's memory for a loop, one iteration's part is fetched early (XLA for TPU).
  bool converts_stacks = false, hoists_gathers = false, prefetches_from_host = false;
  // Where layers stand one after another, what waits for the backward pass's products is not kept
  // but computed in them from what it is made of (XLA for TPU fuses products with what they read).
  bool recomputes_for_products = false;
  // Buffers up to this size stay in the chip's own memory and count for no bytes accessed: a
  // quarter of a TPU's 128 MiB, which all that is in use at a time shares.
  double on_chip_bytes = 0;
};
PlatformTraits traits_of(const std::string& platform, int64_t devices);

// Of a buffer, as much as is read.
struct Read {
  int buffer = 0;
  double bytes = 0;
};

struct Buffer {
  double bytes = 0;
  int last = -1;          // place in the order of the last op that reads it
  bool external = false;  // held by whoever runs the body
  bool host = false;      // in the host's memory
};

// How a value exists: as a buffer of its own, or made by its readers from others.
struct Value {
  std::vector<Read> reads;
  bool stored = false;
  bool host = false;
};

struct Store {
  std::vector<Value> values;  // by the graph's numbers
  std::vector<Buffer> buffers;
  Value& value(int v) { return values[static_cast<size_t>(v)]; }
  Buffer& buffer(int b) { return buffers[static_cast<size_t>(b)]; }
};

// An op in time.
struct Event {
  const Op* op = nullptr;
  Partition parts;
  std::vector<Read> reads;
  std::vector<int> born;     // buffers of its results
  std::vector<int> copies;   // buffers: gathered first, in the order of parts.gathers, then others
  std::vector<int> written;  // results without a buffer, that go straight to where they stay
  bool runs = false;         // otherwise its readers do its work
  // Axes of two sums of parts on devices that this op adds: they are added up between devices once.
  AxisSet joined = 0;
  // Axes of a sum that a loop carries on: its parts are added up after the loop.
  AxisSet sunk = 0;
};

// The ops of a body in the order they run in. Its parameters are external but for a loop's carries.
struct Schedule {
  std::vector<Event> events;
  std::vector<int> carries;  // buffers, of a loop's body
};
// `of` is the op whose body it is, null for the function itself. Fills `store` in.
Schedule schedule_body(const Graph& graph, const Splits& splits, const PlatformTraits& traits,
                       const Body& body, const Op* of, Store& store);

}  // namespace espalier::planning
