// DataConfig: the [data] table of a recipe.
#pragma once

#include <cstdint>
#include <string>

namespace espalier {

struct DataConfig {
  // "stories": the embedded stories (stories.h). "text" or "file": the file at `path`.
  // "tinystories": the file that `espalier prepare tinystories --out data` fetched, or `path`.
  std::string source = "stories";
  std::string path;                // text, file: required; tinystories: data/TinyStories-train.txt
  std::string tokenizer = "gpt2";  // "gpt2", "llama3", "char" or the path of a rank file
  int64_t seq_len = 256;           // tokens in a row (maxlen)
  int64_t batch_size = 32;         // rows in a global batch
  uint64_t seed = 0;               // of the order; of the stories: stories_seed
  bool shuffle = true;             // false: rows in the order of the text, each epoch alike
  int64_t stories_count = 20000;   // stories made for source = "stories"
  uint64_t stories_seed = 0;
  // Removes white space around each story, so that every row begins with its first word. With
  // false, a story keeps the line break after the separator before it, as in the JAX tutorial.
  bool trim = true;
  double validation_fraction = 0.1;      // the last rows, held out of training; 0: none
  std::string cache_dir = "data/cache";  // tokenized files
};

}  // namespace espalier
