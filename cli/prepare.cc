#include "cli/prepare.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "cli/byte_progress.h"
#include "cli/prepare_bins.h"
#include "cli/weights.h"
#include "espalier/base/log.h"
#include "espalier/base/sha256.h"
#include "espalier/train/stop_signal.h"

namespace espalier {
namespace fs = std::filesystem;
namespace {

std::string described(const BinMeta::Split& split) {
  const std::string documents =
      split.documents > 0
          ? fmt::format(" in {} document{}", split.documents, split.documents == 1 ? "" : "s")
          : std::string();
  return fmt::format("{} tokens{}", split.tokens, documents);
}

void prepare_files(const PrepareOptions& options) {
  std::vector<fs::path> files;
  for (const std::string& item : options.items) {
    if (is_data_set(item)) {
      throw Error("the data set '" + item + "' is prepared for itself: name it alone, and give " +
                  "every set its own --out");
    }
    if (!fs::exists(item)) {
      throw Error("'" + item +
                      "' is neither a data set (stories, tinystories, shakespeare, "
                      "shakespeare-char, openwebtext, fineweb10B) nor a file",
                  Code::kNotFound);
    }
    for (fs::path& file : files_at(item)) files.push_back(std::move(file));
  }
  if (!options.sha256.empty() && files.size() > 1) throw Error("--sha256 is of one file");
  check_given_digest(options, files.front());
  make_bins(files, options);
}

void prepare(const PrepareOptions& options) {
  if (options.items[0] == "weights") {
    return prepare_weights({options.items.begin() + 1, options.items.end()}, options.out,
                           options.url);
  }
  if (options.out.empty()) {
    throw Error("prepare needs --out DIR, the folder for what is made and downloaded; only " +
                std::string("\"weights NAME\" has one of its own"));
  }
  if (options.items.size() == 1 && is_data_set(options.items[0])) {
    prepare_data_set(options.items[0], options);
  } else {
    prepare_files(options);
  }
}

}  // namespace

std::vector<fs::path> files_at(const fs::path& path) {
  if (!fs::is_directory(path)) return {path};
  std::vector<fs::path> out;
  for (const auto& entry : fs::directory_iterator(path)) {
    const fs::path name = entry.path().filename();
    const std::string extension = name.extension().string();
    const bool beside = extension == ".part" || extension == ".bad" || extension == ".sha256";
    if (entry.is_regular_file() && !beside && !name.string().starts_with(".")) {
      out.push_back(entry.path());
    }
  }
  std::sort(out.begin(), out.end());
  if (out.empty()) throw Error("no files in the folder '" + path.string() + "'", Code::kNotFound);
  return out;
}

void check_given_digest(const PrepareOptions& options, const fs::path& file) {
  if (options.sha256.empty()) return;
  const std::string digest = sha256_of_file(file).value_or_throw();
  if (digest == options.sha256) return;
  throw Error(fmt::format("the SHA-256 of '{}' is {}, expected {}; get the file again, or give the "
                          "right --sha256",
                          file.string(), digest, options.sha256),
              Code::kDataLoss);
}

void run_preparation(const PrepareOptions& options,
                     const std::function<Result<BinMeta>(const BinOptions&)>& make) {
  const StopSignal stop;
  std::unique_ptr<ByteProgress> bar;
  std::string shown;
  BinOptions bins;
  bins.tokenizer = options.tokenizer;
  bins.text_key = options.text_key;
  bins.trim = !options.no_trim;
  bins.val_fraction = options.val_fraction;
  bins.seed = options.seed;
  bins.stop = [&] { return stop.received() != 0; };
  bins.progress = [&](std::string_view what, uint64_t done, uint64_t all) {
    if (what != shown) {
      shown = what;
      bar.reset();
      bar = std::make_unique<ByteProgress>(shown);
    }
    (*bar)(done, all);
  };
  const BinMeta meta = make(bins).value_or_throw();
  bar.reset();
  const fs::path folder = options.out;
  out().info("{}: {} of {} ({} ids)", (folder / "train.bin").string(), described(meta.train),
             meta.tokenizer, meta.vocab_size);
  out().info("{}: {}", (folder / "val.bin").string(), described(meta.val));
  out().info("  recipe: [data] source = \"bin\", path = \"{}\"", options.out);
  const auto warn_if_short = [&](const char* file, const BinMeta::Split& split) {
    if (split.tokens >= 2) return;
    err().warn("{} has {} token{}: nothing can be predicted in it", (folder / file).string(),
               split.tokens, split.tokens == 1 ? "" : "s");
  };
  warn_if_short("train.bin", meta.train);
  // An empty val.bin may be what was asked for.
  if (meta.val_fraction > 0 || meta.val.tokens > 0) warn_if_short("val.bin", meta.val);
}

void make_bins(const std::vector<fs::path>& files, const PrepareOptions& options, bool web_text) {
  run_preparation(options, [&](const BinOptions& given) {
    BinOptions bins = given;
    bins.web_text = web_text;
    return prepare_bins(files, bins, options.out);
  });
}

void add_prepare(CLI::App& app) {
  auto options = std::make_shared<PrepareOptions>();
  CLI::App* command = app.add_subcommand(
      "prepare",
      "Make train.bin, val.bin and meta.json out of texts: nanoGPT's format, documents joined by "
      "the end-of-text token, or of a single text the last tenth for validation");
  command
      ->add_option("source", options->items,
                   "files or folders of .txt and .jsonl, also in gz, xz, zst, bz2 and tar; or a "
                   "data set: stories (made by our own grammar), tinystories, shakespeare, "
                   "shakespeare-char, openwebtext, fineweb10B (downloaded); or \"weights NAME\", "
                   "published weights such as gpt2")
      ->required();
  command->add_option("--out", options->out,
                      "folder for what is made and downloaded; weights: data/weights/NAME by "
                      "default");
  CLI::Option* tokenizer = command
                               ->add_option("--tokenizer", options->tokenizer,
                                            "gpt2, llama3, char or the path of a rank file")
                               ->capture_default_str();
  command->add_option("--text-key", options->text_key, "JSON lines: the key of the text")
      ->capture_default_str();
  command
      ->add_option("--val-fraction", options->val_fraction,
                   "of the documents, drawn for val.bin; a single text is cut at nine tenths")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  command->add_option("--seed", options->seed, "draws the documents of val.bin; stories: which")
      ->capture_default_str();
  command->add_option("--count", options->count, "stories: how many")->capture_default_str();
  command->add_option("--from", options->from,
                      "data sets: a local file, or a folder of them, instead of a download");
  command->add_option("--split", options->split, "tinystories: train, valid or all")
      ->check(CLI::IsMember({"train", "valid", "all"}))
      ->capture_default_str();
  command
      ->add_option("--shards", options->shards,
                   "openwebtext, fineweb10B: only the first so many files of the training data; "
                   "0: all")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--url", options->url,
                      "data sets, weights: where to download from, instead of the publisher");
  command
      ->add_option("--sha256", options->sha256,
                   "expected digest of the file, instead of the published one")
      ->transform([](std::string digest) { return CLI::detail::to_lower(std::move(digest)); });
  command->add_flag("--no-trim", options->no_trim,
                    "keep the white space around documents between separators");
  command->callback([options, tokenizer] {
    options->tokenizer_given = tokenizer->count() > 0;
    prepare(*options);
  });
}

}  // namespace espalier
