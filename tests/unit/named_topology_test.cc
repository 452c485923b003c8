// Names of machines: what they stand for, and what is said of others.
#include "espalier/pjrt/named_topology.h"

#include <gtest/gtest.h>

#include "espalier/pjrt/gpu_targets.h"
#include "espalier/train/machines.h"

namespace espalier {
namespace {

TEST(NamedTopology, SlicesOfTpus) {
  for (const auto& [text, chips] :
       {std::pair("v5e:16x16", 256), {"v5p:8x8x4", 256}, {"v6e:2x4", 8}, {"v4:2x2x1", 4}}) {
    const NamedTopology named = parse_topology(text).value_or_throw();
    EXPECT_EQ(named.plugin, "tpu");
    EXPECT_EQ(named.name, text);
    EXPECT_EQ(named.num_chips, chips);
  }
}

TEST(NamedTopology, NvidiasParts) {
  const NamedTopology one_host = parse_topology("h100:8").value_or_throw();
  EXPECT_EQ(one_host.plugin, "cuda");
  EXPECT_EQ(one_host.num_chips, 8);
  EXPECT_EQ(std::get<std::string>(one_host.options.at("topology")), "1x1x8");
  EXPECT_NE(std::get<std::string>(one_host.options.at("target_config")).find("core_count: 132"),
            std::string::npos);
  const NamedTopology two_hosts = parse_topology("a100:16").value_or_throw();
  EXPECT_EQ(std::get<std::string>(two_hosts.options.at("topology")), "1x2x8");
}

// Where what the target's text says is also in the table of machines, both say the same.
TEST(NamedTopology, TargetsAgreeWithTheTableOfMachines) {
  for (const std::string& name : gpu_target_names()) {
    const std::string config = gpu_target_config(name);
    const auto number = [&](const std::string& key) {
      const size_t at = config.find(key + ": ");
      return at == std::string::npos ? -1 : std::stod(config.substr(at + key.size() + 2));
    };
    const size_t at = config.find("  name: \"") + 9;
    const Machine* machine = find_machine(config.substr(at, config.find('"', at) - at));
    ASSERT_NE(machine, nullptr) << name;
    EXPECT_EQ(number("memory_bandwidth"), machine->memory_bandwidth) << name;
    EXPECT_EQ(number("device_memory_size"), machine->memory_bytes) << name;
  }
}

TEST(NamedTopology, OthersAreNamedWithWhatThereIs) {
  for (const auto& [text, why] : {std::pair("v5e", "a name and a size are needed"),
                                  {"v9:2x4", "no machine is called 'v9'"},
                                  {"v5p:2x2", "v5p has 3 dimensions"},
                                  {"h100:12", "above 8 a multiple of 8"},
                                  {"h100:2x4", "the size is a number of parts"},
                                  {"v5e:2xx4", "the size is no number"},
                                  {"v5e:0x4", "the size is no number"},
                                  {"h100:", "the size is no number"}}) {
    const auto named = parse_topology(text);
    ASSERT_FALSE(named) << text;
    EXPECT_EQ(named.failure().code, Code::kInvalidArgument) << text;
    EXPECT_NE(named.failure().message.find(why), std::string::npos) << named.failure().message;
    EXPECT_NE(named.failure().message.find("v5e:2x4"), std::string::npos);
    EXPECT_NE(named.failure().message.find("h100:8"), std::string::npos);
  }
}

TEST(Machines, TheSamePartWithOtherMemory) {
  EXPECT_EQ(find_machine("NVIDIA A100-SXM4-40GB")->memory_bytes, 40e9);
  EXPECT_EQ(find_machine("NVIDIA A100-SXM4-80GB")->memory_bytes, 80e9);
  EXPECT_EQ(find_machine("NVIDIA A100 80GB PCIe")->memory_bandwidth, 1935e9);
  EXPECT_EQ(find_machine("TPU v5 lite")->memory_bytes, 16.0 * (1 << 30));
  EXPECT_EQ(find_machine("cpu"), nullptr);
}

}  // namespace
}  // namespace espalier
