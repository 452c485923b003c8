// Tokens a second through the loader: stories and windows, shuffled, cut from a mapped file.
// Usage: loader_bench [BATCHES]; prints the median and spread of ten runs after a warm-up.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "espalier/base/file.h"
#include "espalier/data/loader.h"
#include "espalier/data/stories.h"

namespace espalier {
namespace {

// Millions of tokens a second over `batches` batches.
double one_run(Loader& loader, int64_t batches, int64_t batch_tokens) {
  const auto begin = std::chrono::steady_clock::now();
  int64_t sum = 0;
  for (int64_t i = 0; i < batches; ++i) {
    const Batch batch = loader.next().value_or_throw();
    sum += batch.tokens.as<int32_t>()[0];
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  if (sum < 0) std::abort();
  return static_cast<double>(batches * batch_tokens) / took.count() / 1e6;
}

void measure(const char* name, DataConfig config, int64_t batches) {
  const auto dataset = open_dataset(config).value_or_throw();
  const LoaderOptions options{config.batch_size, config.shuffle, 4};
  const auto loader = Loader::start(dataset->train(), options).value_or_throw();
  const int64_t batch_tokens = config.batch_size * config.seq_len;
  one_run(*loader, batches, batch_tokens);
  std::vector<double> rates;
  for (int i = 0; i < 10; ++i) rates.push_back(one_run(*loader, batches, batch_tokens));
  std::sort(rates.begin(), rates.end());
  fmt::print("{:8} B {} T {}: median {:.1f} M tokens/s, {:.1f} to {:.1f}\n", name,
             config.batch_size, config.seq_len, rates[5], rates.front(), rates.back());
}

void run(int64_t batches) {
  std::string name = (std::filesystem::temp_directory_path() / "loader_bench.XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) throw Error("cannot make a temporary folder");
  const std::filesystem::path folder = name;
  DataConfig config;
  config.tokenizer = "char";
  config.cache_dir = folder.string();
  measure("stories", config, batches);
  std::string text = make_stories(20000, 1);
  for (size_t at = 0; (at = text.find("<|endoftext|>\n", at)) != std::string::npos;) {
    text.erase(at, 14);
  }
  config.source = "text";
  config.path = (folder / "windows.txt").string();
  write_file(config.path, text).value_or_throw();
  measure("windows", config, batches);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace espalier

int main(int argc, char** argv) {
  try {
    espalier::run(argc > 1 ? std::atoll(argv[1]) : 2000);
  } catch (const espalier::Error& error) {
    fmt::print(stderr, "loader_bench: {}\n", error.what());
    return 1;
  }
}
