// Speed of tokenizers: bytes of text encoded a second, on one thread and on all.
//
//   tokenizer_bench [TEXT_FILE] [Google Benchmark's flags]
//   tokenizer_bench --once TOKENIZER TEXT_FILE     prints the CPU seconds of one encoding (after
//   one
//                                                  to warm up), for tokenizer_peer.py
//
// Without a file: 8 MiB of made-up English-like text. A vocabulary that is not there is skipped.
#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstring>
#include <ctime>
#include <random>
#include <string>

#include "espalier/base/file.h"
#include "espalier/text/tokenizer.h"

namespace espalier {
namespace {

std::string made_up_text() {
  constexpr const char* kWords[] = {"the",  "of",    "and",      "mesh",        "to",  "a",
                                    "in",   "tree",  "training", "trellis",     "is",  "it",
                                    "1984", "don't", "Espalier", "parallelism", "...", "(see)"};
  std::mt19937 random(1);
  std::string text;
  while (text.size() < 8u << 20) {
    text += kWords[random() % std::size(kWords)];
    text += random() % 12 == 0 ? ".\n" : " ";
  }
  return text;
}

std::string& text() {
  static std::string text;
  return text;
}

void encode(benchmark::State& state, const std::string& name, int threads) {
  const auto tokenizer = name == "char"
                             ? Result<std::shared_ptr<const Tokenizer>>(char_tokenizer(text()))
                             : load_tokenizer(name);
  if (!tokenizer) {
    state.SkipWithError(tokenizer.failure().message.c_str());
    return;
  }
  for (auto _ : state) {
    benchmark::DoNotOptimize(encode_parallel(**tokenizer, text(), threads).data());
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(text().size()));
}

// One letter over and over: the worst case of merging.
void encode_one_long_piece(benchmark::State& state) {
  const auto tokenizer = load_tokenizer("gpt2");
  if (!tokenizer) {
    state.SkipWithError(tokenizer.failure().message.c_str());
    return;
  }
  const std::string piece(1 << 20, 'a');
  for (auto _ : state) benchmark::DoNotOptimize((*tokenizer)->encode(piece).data());
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(piece.size()));
}

int once(const std::string& name, const std::string& path) {
  const auto tokenizer = load_tokenizer(name).value_or_throw();
  const std::string text = read_file(path).value_or_throw();
  benchmark::DoNotOptimize(tokenizer->encode(text).data());
  const std::clock_t start = std::clock();
  const auto ids = tokenizer->encode(text);
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  std::printf("%.9f %zu\n", seconds, ids.size());
  return 0;
}

}  // namespace
}  // namespace espalier

int main(int argc, char** argv) {
  try {
    if (argc == 4 && std::strcmp(argv[1], "--once") == 0) return espalier::once(argv[2], argv[3]);
    benchmark::Initialize(&argc, argv);
    espalier::text() =
        argc > 1 ? espalier::read_file(argv[1]).value_or_throw() : espalier::made_up_text();
  } catch (const espalier::Error& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
  for (const char* name : {"gpt2", "llama3", "char"}) {
    for (const int threads : {1, 0}) {
      benchmark::RegisterBenchmark(
          (std::string(name) + (threads == 1 ? "/one_thread" : "/all_threads")).c_str(),
          [name, threads](benchmark::State& state) { espalier::encode(state, name, threads); })
          ->Unit(benchmark::kMillisecond)
          ->UseRealTime();
    }
  }
  benchmark::RegisterBenchmark("gpt2/one_piece_of_1_MiB", espalier::encode_one_long_piece)
      ->Unit(benchmark::kMillisecond);
  benchmark::RunSpecifiedBenchmarks();
}
