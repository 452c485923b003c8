// DataConfig: the [data] table of a recipe.
#pragma once

#include <cstdint>
#include <string>

#include "espalier/config/fields.h"

namespace espalier {

struct DataConfig {
  // "stories": the embedded stories (stories.h). "text" or "file": the file at `path`.
  // "tinystories": the file that `espalier prepare tinystories --out data` fetched, or `path`.
  // "synthetic": random ids of the model's vocabulary, without end (synthetic.h).
  // "bin": the token bins at `path` (bins.h), such as `espalier prepare FILE --out PATH` makes.
  std::string source = "stories";
  // text, file, bin: required; tinystories: data/TinyStories-train.txt. bin: a folder, or for
  // llm.c's shards also a glob pattern.
  std::string path;
  // "gpt2", "llama3", "char" or the path of a rank file or of a Hugging Face tokenizer.json. bin:
  // used where there is no meta.json; synthetic: not used.
  std::string tokenizer = "gpt2";
  // "epoch": every row once before any comes again. "windows": nanoGPT's random windows, drawn with
  // replacement, and `shuffle` has no meaning; for bins and texts without separators.
  std::string sampling = "epoch";
  int64_t seq_len = 256;    // tokens in a row (maxlen)
  int64_t batch_size = 32;  // rows in a global batch
  uint64_t seed = 0;        // of the order, and of synthetic tokens; of the stories: stories_seed
  bool shuffle = true;      // false: rows in the order of the text, each epoch alike
  int64_t stories_count = 20000;  // stories made for source = "stories"
  uint64_t stories_seed = 0;
  // Removes white space around each story, so that every row begins with its first word. With
  // false, a story keeps the line break after the separator before it, as in the JAX tutorial.
  bool trim = true;
  // The last rows of a text, held out of training; 0: none. Bins bring their own validation set.
  double validation_fraction = 0.1;
  std::string cache_dir = "data/cache";  // tokenized files
};

template <class V>
void bind(V& v, DataConfig& c) {
  v("source", c.source, one_of({"stories", "text", "file", "tinystories", "bin", "synthetic"}));
  v("path", c.path);
  v("tokenizer", c.tokenizer, not_empty());
  v("seq_len", c.seq_len, at_least(2));
  v("batch_size", c.batch_size, at_least(1));
  v("sampling", c.sampling, one_of({"epoch", "windows"}));
  v("seed", c.seed);
  v("shuffle", c.shuffle);
  v("trim", c.trim);
  v("stories_count", c.stories_count, at_least(1));
  v("stories_seed", c.stories_seed);
  v("validation_fraction", c.validation_fraction, at_least(0), less_than(1));
  v("cache_dir", c.cache_dir, not_empty());
}

}  // namespace espalier
