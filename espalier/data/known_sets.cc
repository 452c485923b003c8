#include "espalier/data/known_sets.h"

#include <fmt/format.h>

namespace espalier {

std::vector<KnownFile> known_files(std::string_view data_set) {
  const std::string set(data_set);
  if (set == "tinystories") {
    return {{set, "train", "TinyStories-train.txt",
             "c5cf5e22ff13614e830afbe61a99fbcbe8bcb7dd72252b989fa1117a368d401f", 1924281556},
            {set, "valid", "TinyStories-valid.txt",
             "94e431816c4cce81ff71e4408ff8d3bda9a42e8d2663986697c3954288cb38b4", 19447282}};
  }
  if (set == "shakespeare") {
    return {{set, "all", "input.txt",
             "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed", 1115394}};
  }
  std::vector<KnownFile> out;
  if (set == "openwebtext") {
    for (int i = 0; i <= 20; ++i) {
      out.push_back({set, "all", fmt::format("urlsf_subset{:02}.tar", i), "", 0});
    }
  }
  if (set == "fineweb10B") {
    out.push_back({set, "val", "fineweb_val_000000.bin", "", 0});
    for (int i = 1; i <= 103; ++i) {
      out.push_back({set, "train", fmt::format("fineweb_train_{:06}.bin", i), "", 0});
    }
  }
  return out;
}

std::string known_url(std::string_view data_set) {
  if (data_set == "tinystories") {
    return "https://huggingface.co/datasets/roneneldan/TinyStories/resolve/main";
  }
  if (data_set == "shakespeare") {
    return "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare";
  }
  if (data_set == "openwebtext") {
    return "https://huggingface.co/datasets/Skylion007/openwebtext/resolve/main/subsets";
  }
  if (data_set == "fineweb10B") {
    return "https://huggingface.co/datasets/kjj0/fineweb10B-gpt2/resolve/"
           "889765ea1f903759787add96995d81171b632d0c";
  }
  return "";
}

}  // namespace espalier
