#include "espalier/pjrt/named_topology.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <vector>

#include "espalier/pjrt/gpu_targets.h"

namespace espalier {
namespace {

constexpr int64_t kGpusPerHost = 8;

struct TpuGeneration {
  std::string_view name;
  size_t dims;  // of its network: a 2-D or 3-D torus
};
constexpr TpuGeneration kTpus[] = {{"v2", 2},  {"v3", 2},  {"v4", 3},
                                   {"v5e", 2}, {"v5p", 3}, {"v6e", 2}};

// "16x16": numbers from 1.
std::optional<std::vector<int64_t>> parse_sizes(std::string_view text) {
  std::vector<int64_t> out;
  while (true) {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || value < 1 || value > (int64_t{1} << 20)) return std::nullopt;
    out.push_back(value);
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    if (text.empty()) return out;
    if (text[0] != 'x') return std::nullopt;
    text.remove_prefix(1);
  }
}

Failure unknown(std::string_view text, std::string_view why) {
  std::vector<std::string> tpus;
  for (const TpuGeneration& tpu : kTpus) {
    tpus.push_back(fmt::format("{}:{}", tpu.name, tpu.dims == 2 ? "2x4" : "2x2x2"));
  }
  return {Code::kInvalidArgument,
          fmt::format("topology '{}': {}. Give a slice of TPUs ({}), a number of NVIDIA's parts "
                      "({}:8), or local for the recipe's own plugin",
                      text, why, fmt::join(tpus, ", "), fmt::join(gpu_target_names(), ":8, "))};
}

}  // namespace

Result<NamedTopology> parse_topology(std::string_view text) {
  NamedTopology out;
  out.text = text;
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) return unknown(text, "a name and a size are needed");
  const std::string_view machine = text.substr(0, colon);
  const auto sizes = parse_sizes(text.substr(colon + 1));
  if (!sizes) return unknown(text, "the size is no number, or numbers with an x between");
  out.num_chips = 1;
  for (const int64_t size : *sizes) out.num_chips *= size;
  for (const TpuGeneration& tpu : kTpus) {
    if (tpu.name != machine) continue;
    if (sizes->size() != tpu.dims) {
      return unknown(text, fmt::format("{} has {} dimensions", machine, tpu.dims));
    }
    out.plugin = "tpu";
    out.name = text;
    return out;
  }
  const std::string config = gpu_target_config(machine);
  if (config.empty()) return unknown(text, fmt::format("no machine is called '{}'", machine));
  const int64_t hosts = (out.num_chips + kGpusPerHost - 1) / kGpusPerHost;
  if (sizes->size() != 1 || (hosts > 1 && out.num_chips % kGpusPerHost != 0)) {
    return unknown(text, fmt::format("the size is a number of parts, above {0} a multiple of {0}",
                                     kGpusPerHost));
  }
  out.plugin = "cuda";
  out.name = text;
  out.options = {{"target_config", config},
                 {"topology", fmt::format("1x{}x{}", hosts, out.num_chips / hosts)}};
  return out;
}

Result<Topology> make_topology(const NamedTopology& named) {
  setenv("TPU_SKIP_MDS_QUERY", "1", /*overwrite=*/0);
  setenv("ALLOW_MULTIPLE_LIBTPU_LOAD", "1", /*overwrite=*/0);
  ESPALIER_ASSIGN(auto plugin, Plugin::load(named.plugin));
  return Topology::create(std::move(plugin), named.name, named.options);
}

}  // namespace espalier
