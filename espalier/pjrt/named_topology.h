// NamedTopology: machines by name, to compile for without having them.
#pragma once

#include <string>
#include <string_view>

#include "espalier/base/error.h"
#include "espalier/pjrt/named_value.h"
#include "espalier/pjrt/topology.h"

namespace espalier {

struct NamedTopology {
  std::string text;     // as given: "v5e:16x16", "h100:8"
  std::string plugin;   // "tpu" or "cuda"
  std::string name;     // of the plugin's topology
  NamedValues options;  // of its creation
  int64_t num_chips = 0;
};

// "v4:2x2x2", "v5e:2x4", "v5p:8x8x4", "v6e:2x4": slices of TPUs. "a100:8", "a100-40gb:8", "h100:8",
// "h200:8": NVIDIA's parts (SXM), one host with up to 8 of them, or several with 8 each. Anything
// else is kInvalidArgument, with what there is.
Result<NamedTopology> parse_topology(std::string_view text);

// Loads the plugin and makes the topology. kNotFound, saying which command fetches it, where the
// plugin is not there. Sets two variables of libtpu when unset, since no chip is touched:
// TPU_SKIP_MDS_QUERY=1 (there is no metadata server to ask) and ALLOW_MULTIPLE_LIBTPU_LOAD=1
// (several processes may compile at once).
Result<Topology> make_topology(const NamedTopology& named);

}  // namespace espalier
