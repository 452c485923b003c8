// `espalier prepare`: makes or fetches data sets, and tokenizes them.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "espalier/data/config.h"

namespace espalier {

void add_prepare(CLI::App& app);

// The options of `espalier prepare`, as given.
struct PrepareOptions {
  std::vector<std::string> items;
  std::string out, tokenizer = "gpt2", text_key = "text", from, url, split = "all", sha256;
  double val_fraction = 0.0005;
  int64_t count = DataConfig{}.stories_count, shards = 0;
  uint64_t seed = 0;
  bool no_trim = false;
  bool tokenizer_given = false;  // on the command line
};

// A data set by its name: stories, tinystories, shakespeare, shakespeare-char, openwebtext,
// fineweb10B. Throws Error.
bool is_data_set(const std::string& name);
void prepare_data_set(const std::string& name, const PrepareOptions& options);

// The files that a path names: itself, or those in a folder, by name; hidden ones and what
// downloads leave beside theirs are passed over. Throws Error where there is none.
std::vector<std::filesystem::path> files_at(const std::filesystem::path& path);

// Tokenizes files into train.bin, val.bin and meta.json in options.out with a progress bar, and
// says what was made. A signal stops it, and nothing is left. Throws Error. `web_text`: see
// DocumentOptions.
void make_bins(const std::vector<std::filesystem::path>& files, const PrepareOptions& options,
               bool web_text = false);

// kDataLoss where --sha256 was given and is not the file's.
void check_given_digest(const PrepareOptions& options, const std::filesystem::path& file);

}  // namespace espalier
