// Executable: a compiled program as a thing to inspect and store; LoadedExecutable runs it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "espalier/base/dtype.h"
#include "espalier/base/error.h"
#include "espalier/pjrt/named_value.h"
#include "espalier/pjrt/optimized_program.h"

struct PJRT_Executable;

namespace espalier {

class Plugin;

// Bytes per device, as the compiler planned them. Loops' buffers are counted; what the runtime
// allocates beside them is not.
struct CompiledMemoryStats {
  int64_t generated_code = 0;
  int64_t argument = 0;
  int64_t output = 0;
  int64_t alias = 0;  // part of `argument` reused for outputs
  int64_t temp = 0;
  int64_t host_argument = 0;
  int64_t host_output = 0;
  int64_t host_alias = 0;
  int64_t host_temp = 0;
  // At once, arguments included; empty when the plugin is too old to tell.
  std::optional<int64_t> peak;
};

// Owns a PJRT_Executable; keeps what it came from alive. Immutable, so thread-safe.
class Executable {
 public:
  // Takes ownership of `raw`. `owner` (a client or topology, may be null) is kept alive.
  Executable(const Plugin* plugin, std::shared_ptr<const void> owner, PJRT_Executable* raw)
      : plugin_(plugin), owner_(std::move(owner)), raw_(raw) {}
  Executable(Executable&& other) noexcept
      : plugin_(other.plugin_),
        owner_(std::move(other.owner_)),
        raw_(std::exchange(other.raw_, nullptr)) {}
  Executable& operator=(Executable&& other) noexcept;
  ~Executable() { destroy(); }

  Result<std::string> name() const;
  Result<int64_t> num_replicas() const;
  Result<int64_t> num_partitions() const;
  Result<int64_t> num_outputs() const;  // per device

  // Of each output, on one device.
  Result<std::vector<Dims>> output_dims() const;
  Result<std::vector<DType>> output_dtypes() const;
  Result<std::vector<std::string>> output_memory_kinds() const;

  // Bytes for Client::deserialize_and_load() of the same plugin; not stable over its versions.
  Result<std::string> serialize() const;
  // Equal for equal programs, options and compilers; kUnimplemented on some platforms.
  Result<std::string> fingerprint() const;

  Result<OptimizedProgram> optimized_program() const;
  Result<CompiledMemoryStats> memory_stats() const;
  // E.g. "flops", "bytes accessed"; the body of a loop counts once. Fails on platforms without it.
  Result<NamedValues> cost_analysis() const;

  PJRT_Executable* raw() const { return raw_; }

 private:
  void destroy();
  const Plugin* plugin_;
  std::shared_ptr<const void> owner_;
  PJRT_Executable* raw_;
};

}  // namespace espalier
