// `espalier prepare NAME`: the data sets that are known by name.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>

#include "cli/byte_progress.h"
#include "cli/prepare.h"
#include "cli/prepare_bins.h"
#include "espalier/base/file.h"
#include "espalier/base/log.h"
#include "espalier/data/dataset.h"
#include "espalier/data/download.h"
#include "espalier/data/known_sets.h"
#include "espalier/data/stories.h"

namespace espalier {
namespace fs = std::filesystem;
namespace {

// Fetches the files of a set that `wanted` takes, into options.out, and gives their paths.
std::vector<fs::path> fetch(const std::string& set, const PrepareOptions& options,
                            const std::function<bool(const KnownFile&)>& wanted) {
  std::vector<KnownFile> files = known_files(set);
  std::erase_if(files, [&](const KnownFile& file) { return !wanted(file); });
  if (!options.sha256.empty() && files.size() > 1) {
    throw Error("--sha256 is of one file, and '" + set + "' has " + std::to_string(files.size()) +
                ": choose one by --split or --shards");
  }
  const std::string url = options.url.empty() ? known_url(set) : options.url;
  std::vector<fs::path> out_paths;
  for (const KnownFile& known : files) {
    const fs::path path = fs::path(options.out) / known.file;
    DownloadOptions download_options;
    download_options.sha256 = options.sha256.empty() ? known.sha256 : options.sha256;
    std::error_code none;
    const auto kept = fs::file_size(path.string() + ".part", none);
    auto bar = std::make_unique<ByteProgress>("downloading " + known.file, none ? 0 : kept);
    download_options.progress = [&](uint64_t done, uint64_t all) {
      (*bar)(done, all > 0 ? all : known.size);
    };
    const Downloaded got =
        download(url + "/" + known.file, path, download_options).value_or_throw();
    bar.reset();
    out().info(
        "{}: {}, SHA-256 {}{}", path.string(), got.already_there ? "already there" : "downloaded",
        got.sha256,
        got.checked ? " (as expected)" : " (compared with none: the server named no digest)");
    out_paths.push_back(path);
  }
  return out_paths;
}

// The files to make a set of: local ones by --from, or downloaded.
std::vector<fs::path> files_of(const std::string& set, const PrepareOptions& options,
                               const std::function<bool(const KnownFile&)>& wanted) {
  if (options.from.empty()) return fetch(set, options, wanted);
  std::vector<fs::path> files = files_at(options.from);
  if (files.size() == 1) {
    check_given_digest(options, files[0]);
  } else if (!options.sha256.empty()) {
    throw Error("--sha256 is of one file, and '" + options.from + "' holds " +
                std::to_string(files.size()));
  }
  return files;
}

struct Tokenized {
  TokenFile tokens;
  std::shared_ptr<const Tokenizer> tokenizer;
};

// The token file of a text of stories, for data.source = "text" and "tinystories".
Tokenized tokenize_file(const PrepareOptions& options, const fs::path& path) {
  const SourceText source = SourceText::open(path).value_or_throw();
  auto tokenizer = open_tokenizer(options.tokenizer, source).value_or_throw();
  TokenizeOptions tokenize;
  tokenize.trim = !options.no_trim;
  auto bar = std::make_unique<ByteProgress>("tokenizing " + source.stem());
  tokenize.progress = [&](uint64_t done, uint64_t all) { (*bar)(done, all); };
  TokenFile tokens = open_or_build(source, *tokenizer, tokenize, options.out).value_or_throw();
  bar.reset();
  const TokenFile::Info& info = tokens.info();
  const std::string stories =
      info.story_count > 0 ? fmt::format("{} stories, ", info.story_count) : std::string();
  out().info("{}: {}{} tokens of {} ({} ids), {:.2f} bytes a token", path.string(), stories,
             info.token_count, info.tokenizer, info.vocab_size,
             static_cast<double>(info.source_size) / static_cast<double>(info.token_count));
  out().info("  tokens: {}", tokens.path().string());
  out().info("  recipe: [data] source = \"text\", path = \"{}\", tokenizer = \"{}\"{}{}",
             path.string(), options.tokenizer,
             fs::path(options.out) == path.parent_path()
                 ? std::string()
                 : fmt::format(", cache_dir = \"{}\"", options.out),
             options.no_trim ? ", trim = false" : "");
  return {std::move(tokens), std::move(tokenizer)};
}

// Token files, for a row a story, and bins of the same tokens.
void prepare_story_files(const PrepareOptions& options, const fs::path& train,
                         const std::optional<fs::path>& val) {
  const Tokenized text = tokenize_file(options, train);
  std::optional<Tokenized> held;
  if (val) held = tokenize_file(options, *val);
  // Every text has its own alphabet: the other one's ids would mean other characters.
  const bool left_out = val && (options.tokenizer == "char" || !text.tokens.has_stories());
  if (left_out) {
    held.reset();
    err().warn("'{}' is not in val.bin: {}; val.bin is a part of '{}'", val->string(),
               options.tokenizer == "char" ? "its characters have ids of their own"
                                           : "the training file has no stories",
               train.string());
  }
  if (!text.tokens.has_stories()) return make_bins({train}, options);
  run_preparation(options, [&](const BinOptions& bins) {
    return bins_of_stories(text.tokens, held ? &held->tokens : nullptr, text.tokenizer, bins,
                           options.out);
  });
}

void prepare_stories(const PrepareOptions& options) {
  if (options.count < 1) throw Error("--count must be at least 1");
  const fs::path path = fs::path(options.out) / "stories.txt";
  write_file(path, make_stories(options.count, options.seed)).value_or_throw();
  prepare_story_files(options, path, std::nullopt);
}

void prepare_tinystories(const PrepareOptions& options) {
  const auto files = files_of("tinystories", options, [&](const KnownFile& file) {
    return options.split == "all" || options.split == file.split;
  });
  if (files.size() > 2) throw Error("--from is a file, or a folder with TinyStories' two files");
  // By name, the training file comes before the validation file.
  prepare_story_files(options, files[0],
                      files.size() == 2 ? std::optional(files[1]) : std::nullopt);
}

void prepare_shakespeare(const std::string& name, PrepareOptions options) {
  if (name == "shakespeare-char") {
    if (options.tokenizer_given && options.tokenizer != "char") {
      throw Error("shakespeare-char is tokenized by characters; use shakespeare for --tokenizer " +
                  options.tokenizer);
    }
    options.tokenizer = "char";
  }
  const auto files = files_of("shakespeare", options, [](const KnownFile&) { return true; });
  make_bins(files, options);
}

void prepare_openwebtext(const PrepareOptions& options) {
  int64_t taken = 0;
  auto files = files_of("openwebtext", options, [&](const KnownFile&) {
    return options.shards == 0 || taken++ < options.shards;
  });
  if (options.shards > 0 && files.size() > static_cast<size_t>(options.shards)) {
    files.resize(static_cast<size_t>(options.shards));
  }
  make_bins(files, options, /*web_text=*/true);
}

bool is_val(const fs::path& file) {
  return file.filename().string().find("val") != std::string::npos;
}

void prepare_fineweb(const PrepareOptions& options) {
  if (options.tokenizer != "gpt2") {
    throw Error("fineweb10B is published as GPT-2's tokens; --tokenizer " + options.tokenizer +
                " cannot be had of it");
  }
  int64_t taken = 0;
  const auto wanted = [&](const std::string& split) {
    return split == "val" || options.shards == 0 || taken++ < options.shards;
  };
  std::vector<fs::path> files =
      files_of("fineweb10B", options, [&](const KnownFile& file) { return wanted(file.split); });
  if (!options.from.empty()) {
    std::erase_if(files, [&](const fs::path& file) { return !wanted(is_val(file) ? "val" : ""); });
  }
  int64_t train = 0, val = 0;
  for (const fs::path& file : files) {
    const TokenBins bins = open_bins(file.string(), "gpt2").value_or_throw();
    for (const TokenRun& run : bins.train) train += run.count;
    for (const TokenRun& run : bins.val) val += run.count;
  }
  for (const fs::path& file : files) {
    const fs::path copy = fs::path(options.out) / file.filename();
    std::error_code error;
    if (fs::equivalent(file, copy, error)) continue;
    const MappedFile map = MappedFile::open(file).value_or_throw();
    AtomicFile to = AtomicFile::create(copy).value_or_throw();
    to.write(map.bytes()).value_or_throw();
    to.commit().value_or_throw();
  }
  out().info("{}: {} tokens to train on and {} for validation, of gpt2 (50257 ids)", options.out,
             train, val);
  out().info("  recipe: [data] source = \"bin\", path = \"{}\"", options.out);
}

}  // namespace

bool is_data_set(const std::string& name) {
  return name == "stories" || name == "tinystories" || name == "shakespeare" ||
         name == "shakespeare-char" || name == "openwebtext" || name == "fineweb10B";
}

void prepare_data_set(const std::string& name, const PrepareOptions& options) {
  make_folders(options.out).value_or_throw();
  if (name == "stories") return prepare_stories(options);
  if (name == "tinystories") return prepare_tinystories(options);
  if (name == "openwebtext") return prepare_openwebtext(options);
  if (name == "fineweb10B") return prepare_fineweb(options);
  return prepare_shakespeare(name, options);
}

}  // namespace espalier
