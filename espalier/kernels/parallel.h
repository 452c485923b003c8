// Work shared among a plugin's threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

#include "xla/ffi/api/ffi.h"

namespace espalier::kernels {

// Calls work(i) for each i below `count`, on this thread and those of the pool that are free, and
// returns when all calls have. It never waits for a thread to become free: programs of several
// devices share one pool, and all its threads may be waiting for this one.
template <class Work>
void for_each_task(xla::ffi::ThreadPool& pool, int64_t count, const Work& work) {
  struct Shared {
    std::atomic<int64_t> next = 0;
    int64_t done = 0;  // under mutex
    std::mutex mutex;
    std::condition_variable finished;
  };
  const auto shared = std::make_shared<Shared>();
  // A thread that comes late finds no task left and does not touch `work`, which is gone then.
  const auto run = [shared, count, &work] {
    int64_t own = 0;
    for (int64_t i = shared->next++; i < count; i = shared->next++, ++own) work(i);
    if (own == 0) return;
    const std::lock_guard lock(shared->mutex);
    shared->done += own;
    if (shared->done == count) shared->finished.notify_one();
  };
  const int64_t helpers = std::min<int64_t>(pool.num_threads(), count) - 1;
  for (int64_t i = 0; i < helpers; ++i) pool.Schedule(std::function<void()>(run));
  run();
  std::unique_lock lock(shared->mutex);
  shared->finished.wait(lock, [&] { return shared->done == count; });
}

}  // namespace espalier::kernels
