// Loader: batches of rows in a reproducible order, filled ahead by a thread of its own.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

#include "espalier/base/host_array.h"
#include "espalier/data/dataset.h"

namespace espalier {

// Where a loader stands: these numbers are all that a checkpoint needs, and any loader over the
// same rows with the same options goes on from them exactly.
struct LoaderState {
  uint64_t seed = 0;   // of the order, or of the draws
  uint64_t epoch = 0;  // passes over the rows completed
  uint64_t index = 0;  // rows of this pass already given out
  bool operator==(const LoaderState&) const = default;
};

struct LoaderOptions {
  int64_t batch_size = 32;  // rows of a batch, over all devices
  // false: rows in order, each epoch alike. Without meaning where the rows are drawn
  // (RowSource::starts).
  bool shuffle = true;
  int slots = 4;  // batches kept in memory, at least 1
  // Called in the loader's thread after each batch was filled, with when that began and ended.
  using Time = std::chrono::steady_clock::time_point;
  std::function<void(Time begin, Time end)> filled{};
};

// The arrays are a slot of the loader's ring, 64-byte aligned, filled straight from the mapped
// file. They stay unchanged while `lease` or a copy of it lives, then the slot is filled anew:
// whoever reads them later, such as a transfer to a device, keeps the lease until it is done. A
// batch may outlive its loader.
struct Batch {
  HostArray tokens;   // (B, T) int32
  HostArray targets;  // (B, T) int32
  LoaderState after;  // the state that gives the next batch
  std::shared_ptr<const void> lease;
};

// Goes through the rows epoch after epoch, without end; the rows that do not fill a last batch are
// left out of their epoch. Where rows are drawn, draw i of an epoch depends on seed, epoch and i
// alone, and is even over the places. One thread may call next() at a time.
class Loader {
 public:
  // Starts the thread. kInvalidArgument where the rows are fewer than a batch (drawn ones: where
  // there is none), or an option is out of range.
  static Result<std::unique_ptr<Loader>> start(std::shared_ptr<const RowSource> rows,
                                               const LoaderOptions& options,
                                               LoaderState state = {});
  // Stops the thread and waits for it.
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // The next batch, waiting until it is filled. A failure of a row source, or anything thrown in
  // the thread, is returned after the batches before it, and again by every later call. Never waits
  // for leases: when the caller holds every slot, the ring grows by one.
  Result<Batch> next();

  // Batches of one epoch that starts at its first row.
  int64_t batches_per_epoch() const { return batches_per_epoch_; }

 private:
  struct Ring;
  Loader() = default;
  std::shared_ptr<Ring> ring_;
  int64_t batches_per_epoch_ = 0;
};

}  // namespace espalier
