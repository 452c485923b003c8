#include "espalier/data/loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "espalier/data/permutation.h"

namespace espalier {
namespace {

struct Slot {
  HostArray tokens, targets;
};

struct Filled {
  Slot slot;
  LoaderState after;
};

// Draw `at` of the state's epoch: the high half of a random 64-bit number times n, which is even to
// one part in 2^64 / n.
uint64_t draw(const LoaderState& state, uint64_t at, uint64_t n) {
  const uint64_t random = mix64(mix64(mix64(state.seed) ^ state.epoch) ^ at);
  return static_cast<uint64_t>(static_cast<unsigned __int128>(random) * n >> 64);
}

}  // namespace

// Shared by the loader, its thread and every lease, so that a batch can outlive its loader.
struct Loader::Ring {
  std::shared_ptr<const RowSource> rows;
  LoaderOptions options;

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Slot> free;
  std::deque<Filled> ready;
  bool filling = false;
  bool stop = false;
  std::optional<Failure> failure;
  std::thread thread;

  // Rows of an epoch. Drawn ones may be fewer than a batch, which is then an epoch.
  int64_t epoch_rows() const {
    return rows->starts() > 0 ? std::max(rows->rows(), options.batch_size) : rows->rows();
  }

  Slot make_slot() const {
    const Dims dims = {options.batch_size, rows->seq_len()};
    return {HostArray(DType::kS32, dims), HostArray(DType::kS32, dims)};
  }

  // Fills the slot with the batch that begins at `state`, and moves the state past it.
  Status fill(Slot& slot, LoaderState& state) const {
    const auto count = static_cast<uint64_t>(epoch_rows());
    const auto starts = static_cast<uint64_t>(rows->starts());
    const auto batch = static_cast<uint64_t>(options.batch_size);
    if (state.index > count || count - state.index < batch) {
      state = {state.seed, state.epoch + 1, 0};
    }
    const Permutation order(count, state.seed, state.epoch);
    const auto length = static_cast<size_t>(rows->seq_len());
    const auto tokens = slot.tokens.as<int32_t>();
    const auto targets = slot.targets.as<int32_t>();
    for (uint64_t i = 0; i < batch; ++i) {
      const uint64_t at = state.index + i;
      const uint64_t row = starts > 0 ? draw(state, at, starts) : options.shuffle ? order(at) : at;
      ESPALIER_TRY(rows->fill(static_cast<int64_t>(row), tokens.subspan(i * length, length),
                              targets.subspan(i * length, length)));
    }
    state.index += batch;
    if (count - state.index < batch) state = {state.seed, state.epoch + 1, 0};
    return {};
  }

  Status fill_or_fail(Slot& slot, LoaderState& state) const {
    try {
      return fill(slot, state);
    } catch (const Error& error) {
      return Failure{error.code(), error.what()};
    } catch (const std::exception& error) {
      return Failure{Code::kInternal, std::string("the data thread failed: ") + error.what()};
    }
  }

  void run(LoaderState state) {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [&] { return stop || !free.empty(); });
      if (stop) return;
      Slot slot = std::move(free.back());
      free.pop_back();
      filling = true;
      lock.unlock();
      const auto begin = std::chrono::steady_clock::now();
      Status status = fill_or_fail(slot, state);
      if (options.filled) options.filled(begin, std::chrono::steady_clock::now());
      lock.lock();
      filling = false;
      if (!status) {
        failure = status.failure();
        changed.notify_all();
        return;
      }
      ready.push_back({std::move(slot), state});
      changed.notify_all();
    }
  }
};

Result<std::unique_ptr<Loader>> Loader::start(std::shared_ptr<const RowSource> rows,
                                              const LoaderOptions& options, LoaderState state) {
  if (options.batch_size < 1 || options.slots < 1) {
    return Failure{Code::kInvalidArgument,
                   fmt::format("data.batch_size must be at least 1, got {} (with {} slots)",
                               options.batch_size, options.slots)};
  }
  if (rows->starts() == 0 && rows->rows() < options.batch_size) {
    return Failure{
        Code::kInvalidArgument,
        fmt::format(
            "the data has {} rows of {} tokens, too few for a batch of {}; {}", rows->rows(),
            rows->seq_len(), options.batch_size,
            rows->rows() > 0
                ? fmt::format("set data.batch_size to at most {}, or give more text", rows->rows())
                : std::string("give more text, or for validation a larger "
                              "data.validation_fraction"))};
  }
  std::unique_ptr<Loader> out(new Loader);
  out->ring_ = std::make_shared<Ring>();
  Ring& ring = *out->ring_;
  ring.rows = std::move(rows);
  ring.options = options;
  out->batches_per_epoch_ = ring.epoch_rows() / options.batch_size;
  for (int i = 0; i < options.slots; ++i) ring.free.push_back(ring.make_slot());
  ring.thread = std::thread([&ring, state] { ring.run(state); });
  return out;
}

Loader::~Loader() {
  if (!ring_) return;
  {
    const std::lock_guard lock(ring_->mutex);
    ring_->stop = true;
  }
  ring_->changed.notify_all();
  if (ring_->thread.joinable()) ring_->thread.join();
}

Result<Batch> Loader::next() {
  // Returns its slot to the ring when the last copy of the batch's lease goes.
  struct Lease {
    std::shared_ptr<Ring> ring;
    Slot slot;
    ~Lease() {
      {
        const std::lock_guard lock(ring->mutex);
        ring->free.push_back(std::move(slot));
      }
      ring->changed.notify_all();
    }
  };

  Ring& ring = *ring_;
  std::unique_lock lock(ring.mutex);
  if (ring.ready.empty() && ring.free.empty() && !ring.filling && !ring.failure) {
    ring.free.push_back(ring.make_slot());
    ring.changed.notify_all();
  }
  ring.changed.wait(lock, [&] { return !ring.ready.empty() || ring.failure; });
  if (ring.ready.empty()) return *ring.failure;
  Filled filled = std::move(ring.ready.front());
  ring.ready.pop_front();
  lock.unlock();
  Batch batch{filled.slot.tokens, filled.slot.targets, filled.after, nullptr};
  auto lease = std::make_shared<Lease>();
  lease->ring = ring_;
  lease->slot = std::move(filled.slot);
  batch.lease = std::move(lease);
  return batch;
}

}  // namespace espalier
