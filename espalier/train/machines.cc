#include "espalier/train/machines.h"

#include <cctype>
#include <string>

namespace espalier {
namespace {

constexpr double kTera = 1e12, kGiga = 1e9, kGib = 1024.0 * 1024.0 * 1024.0;

// NVIDIA: the data sheets of the parts, which print FLOP/s "with sparsity", twice those here, for
// H100, H200 and L4, and both for A10, A100, L40 and L40S; H100 SXM and PCIe also the H100
// architecture white paper. Memory is in units of 1e9 bytes, a little less than what the driver
// reports: the driver, its contexts and libraries need some of it. NVLink's bandwidths are printed
// for both directions together, halved here; parts that are bridged in pairs have none. V100 is not
// here: it multiplies neither bf16 nor TF32.
//
// TPU: Google Cloud's pages "TPU v4", "TPU v5e", "TPU v5p" and "TPU v6e", "key specifications". The
// plugin calls v5e "v5 lite", v5p "v5", v6e "v6 lite". Memory in units of 2^30 bytes, of which the
// compiler keeps some back (it compiles for 15.75 of v5e's 16). Interchip bandwidth, one way: 2,400
// Gbit/s for v4 (6 links), 1,600 for v5e (4), 4,800 for v5p (6); v6e's page gives 800 GB/s for
// both.
constexpr Machine kMachines[] = {
    {"A10", "", 125e12, 62.5e12, 24 * kGiga, 600 * kGiga},
    {"A100 PCIE", "40GB", 312e12, 156e12, 40 * kGiga, 1555 * kGiga},
    {"A100 PCIE", "", 312e12, 156e12, 80 * kGiga, 1935 * kGiga},
    {"A100 SXM4", "40GB", 312e12, 156e12, 40 * kGiga, 1555 * kGiga, 300 * kGiga},
    {"A100 SXM4", "", 312e12, 156e12, 80 * kGiga, 2039 * kGiga, 300 * kGiga},
    {"H100 HBM3", "", 989.4e12, 494.7e12, 80 * kGiga, 3.35 * kTera, 450 * kGiga},
    {"H100 PCIE", "", 756e12, 378e12, 80 * kGiga, 2 * kTera},
    {"H100 NVL", "", 835e12, 417.5e12, 94 * kGiga, 3.9 * kTera},
    {"H200", "", 989.4e12, 494.7e12, 141 * kGiga, 4.8 * kTera, 450 * kGiga},
    {"H200 NVL", "", 835e12, 417.5e12, 141 * kGiga, 4.8 * kTera},
    {"L4", "", 121e12, 60e12, 24 * kGiga, 300 * kGiga},
    {"L40", "", 181e12, 90.5e12, 48 * kGiga, 864 * kGiga},
    {"L40S", "", 362e12, 183e12, 48 * kGiga, 864 * kGiga},
    {"TPU V4", "", 275e12, 275e12, 32 * kGib, 1200 * kGiga, 300 * kGiga},
    {"TPU V5 LITE", "", 197e12, 197e12, 16 * kGib, 819 * kGiga, 200 * kGiga},
    {"TPU V5E", "", 197e12, 197e12, 16 * kGib, 819 * kGiga, 200 * kGiga},
    {"TPU V5", "", 459e12, 459e12, 95 * kGib, 2765 * kGiga, 600 * kGiga},
    {"TPU V5P", "", 459e12, 459e12, 95 * kGib, 2765 * kGiga, 600 * kGiga},
    {"TPU V6 LITE", "", 918e12, 918e12, 32 * kGib, 1638 * kGiga, 400 * kGiga},
    {"TPU V6E", "", 918e12, 918e12, 32 * kGib, 1638 * kGiga, 400 * kGiga},
};

bool is_memory(std::string_view word) {
  const size_t digits = word.find_first_not_of("0123456789");
  return digits > 0 && digits != std::string_view::npos && word.substr(digits) == "GB";
}

struct Kind {
  std::string part;    // the words that tell parts apart, in capitals
  std::string memory;  // the word that tells how much memory, or none
};

// "NVIDIA A100-SXM4-80GB" is {"A100 SXM4", "80GB"}.
Kind words_of(std::string_view kind) {
  Kind out;
  std::string word;
  const auto end_word = [&] {
    if (is_memory(word)) {
      out.memory = word;
    } else if (!word.empty() && word != "NVIDIA") {
      out.part += (out.part.empty() ? "" : " ") + word;
    }
    word.clear();
  };
  for (const char c : kind) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte)) {
      word += static_cast<char>(std::toupper(byte));
    } else {
      end_word();
    }
  }
  end_word();
  return out;
}

}  // namespace

const Machine* find_machine(std::string_view device_kind) {
  const Kind kind = words_of(device_kind);
  for (const Machine& machine : kMachines) {
    if (machine.part != kind.part) continue;
    if (machine.memory.empty() || machine.memory == kind.memory) return &machine;
  }
  return nullptr;
}

}  // namespace espalier
