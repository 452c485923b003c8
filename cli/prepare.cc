#include "cli/prepare.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "espalier/base/file.h"
#include "espalier/base/log.h"
#include "espalier/base/sha256.h"
#include "espalier/data/dataset.h"
#include "espalier/data/download.h"
#include "espalier/data/stories.h"

namespace espalier {
namespace fs = std::filesystem;
namespace {

using Clock = std::chrono::steady_clock;

struct PrepareOptions {
  std::vector<std::string> items;
  std::string out, tokenizer = "gpt2", from, url{tinystories_url()}, split = "all", sha256;
  int64_t count = DataConfig{}.stories_count;
  uint64_t seed = 0;
  bool no_trim = false;
};

// A bar that is redrawn on a terminal; a line for every tenth in a pipe.
class Progress {
 public:
  // `first`: what is there already, and does not count for the speed.
  explicit Progress(std::string label, uint64_t first = 0)
      : label_(std::move(label)), first_(first) {}
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress() {
    if (drawn_) fmt::print("\n");
  }

  void operator()(uint64_t done, uint64_t all) {
    const auto now = Clock::now();
    const uint64_t tenth = all > 0 ? done * 10 / all : 0;
    if (terminal_ ? now - shown_ < std::chrono::milliseconds(100) && done != all
                  : tenth <= last_tenth_) {
      return;
    }
    shown_ = now;
    last_tenth_ = tenth;
    const double seconds = std::chrono::duration<double>(now - begun_).count();
    const auto fresh = static_cast<double>(done - std::min(first_, done));
    const std::string rate = fmt::format("{:.1f} MB/s", seconds > 0 ? fresh / seconds / 1e6 : 0);
    const double megabytes = static_cast<double>(std::max(done, all)) / 1e6;
    const size_t filled = all > 0 ? static_cast<size_t>(std::min(done, all) * kWidth / all) : 0;
    const std::string bar =
        terminal_ ? fmt::format("[{:.<{}}] ", std::string(filled, '#'), kWidth) : std::string();
    const std::string part = all > 0 ? fmt::format("{:3}% of ", done * 100 / all) : std::string();
    show(fmt::format("{} {}{}{:.1f} MB, {}", label_, bar, part, megabytes, rate));
  }

 private:
  static constexpr size_t kWidth = 30;

  void show(const std::string& line) {
    if (!terminal_) {
      out().info(line);
      return;
    }
    fmt::print("\r\x1b[K{}", line);
    std::fflush(stdout);
    drawn_ = true;
  }

  std::string label_;
  uint64_t first_;
  bool terminal_ = ::isatty(STDOUT_FILENO) == 1;
  bool drawn_ = false;
  uint64_t last_tenth_ = 0;
  Clock::time_point begun_ = Clock::now(), shown_ = begun_ - std::chrono::seconds(1);
};

void tokenize_file(const PrepareOptions& options, const fs::path& path) {
  const SourceText source = SourceText::open(path).value_or_throw();
  const auto tokenizer = open_tokenizer(options.tokenizer, source).value_or_throw();
  TokenizeOptions tokenize;
  tokenize.trim = !options.no_trim;
  auto progress = std::make_unique<Progress>("tokenizing " + source.stem());
  tokenize.progress = [&](uint64_t done, uint64_t all) { (*progress)(done, all); };
  const TokenFile tokens =
      open_or_build(source, *tokenizer, tokenize, options.out).value_or_throw();
  progress.reset();
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
}

void prepare_stories(const PrepareOptions& options) {
  if (options.count < 1) throw Error("--count must be at least 1");
  const fs::path path = fs::path(options.out) / "stories.txt";
  write_file(path, make_stories(options.count, options.seed)).value_or_throw();
  tokenize_file(options, path);
}

void prepare_local(const PrepareOptions& options, const fs::path& path) {
  if (!options.sha256.empty()) {
    const std::string digest = sha256_of_file(path).value_or_throw();
    if (digest != options.sha256) {
      throw Error(fmt::format("the SHA-256 of '{}' is {}, expected {}; get the file again, or give "
                              "the right --sha256",
                              path.string(), digest, options.sha256),
                  Code::kDataLoss);
    }
  }
  tokenize_file(options, path);
}

void prepare_tinystories(const PrepareOptions& options) {
  if (!options.from.empty()) return prepare_local(options, options.from);
  if (!options.sha256.empty() && options.split == "all") {
    throw Error("--sha256 is of one file: choose it by --split train or --split valid");
  }
  for (const KnownFile& known : known_files()) {
    if (known.data_set != "tinystories") continue;
    if (options.split != "all" && options.split != known.split) continue;
    const fs::path path = fs::path(options.out) / known.file;
    DownloadOptions fetch;
    fetch.sha256 = options.sha256.empty() ? std::string(known.sha256) : options.sha256;
    std::error_code none;
    const auto kept = fs::file_size(path.string() + ".part", none);
    auto progress =
        std::make_unique<Progress>("downloading " + std::string(known.file), none ? 0 : kept);
    fetch.progress = [&](uint64_t done, uint64_t all) {
      (*progress)(done, all > 0 ? all : known.size);
    };
    const std::string url = options.url + "/" + std::string(known.file);
    const Downloaded got = download(url, path, fetch).value_or_throw();
    progress.reset();
    out().info("{}: {}, SHA-256 {}", path.string(),
               got.already_there ? "already there" : "downloaded", got.sha256);
    tokenize_file(options, path);
  }
}

void prepare(const PrepareOptions& options) {
  make_folders(options.out).value_or_throw();
  for (const std::string& item : options.items) {
    if (item == "stories") {
      prepare_stories(options);
    } else if (item == "tinystories") {
      prepare_tinystories(options);
    } else if (fs::exists(item)) {
      prepare_local(options, item);
    } else {
      throw Error("'" + item + "' is neither a data set (stories, tinystories) nor a file",
                  Code::kNotFound);
    }
  }
}

}  // namespace

void add_prepare(CLI::App& app) {
  auto options = std::make_shared<PrepareOptions>();
  CLI::App* command = app.add_subcommand(
      "prepare", "Fetch or make a text, and tokenize it once into a memory-mapped file");
  command
      ->add_option("data", options->items,
                   "stories (made by our own grammar), tinystories (downloaded), or text files")
      ->required();
  command->add_option("--out", options->out, "folder for the texts and their tokens")->required();
  command
      ->add_option("--tokenizer", options->tokenizer,
                   "gpt2, llama3, char or the path of a rank file")
      ->capture_default_str();
  command->add_option("--count", options->count, "stories: how many")->capture_default_str();
  command->add_option("--seed", options->seed, "stories: which")->capture_default_str();
  command->add_option("--from", options->from, "tinystories: a local copy, instead of a download");
  command->add_option("--split", options->split, "tinystories: train, valid or all")
      ->check(CLI::IsMember({"train", "valid", "all"}))
      ->capture_default_str();
  command->add_option("--url", options->url, "tinystories: the folder to download from")
      ->capture_default_str();
  command
      ->add_option("--sha256", options->sha256,
                   "expected digest of the file, instead of the published one")
      ->transform([](std::string digest) { return CLI::detail::to_lower(std::move(digest)); });
  command->add_flag("--no-trim", options->no_trim, "keep the white space around stories");
  command->callback([options] { prepare(*options); });
}

}  // namespace espalier
