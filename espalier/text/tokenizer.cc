#include "espalier/text/tokenizer.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "espalier/base/file.h"
#include "espalier/base/locate.h"
#include "espalier/text/bpe_tokenizer.h"
#include "espalier/text/char_tokenizer.h"
#include "espalier/text/json_tokenizer.h"
#include "espalier/text/no_tokenizer.h"

namespace espalier {
namespace {

// Below this many bytes a further thread costs more than it saves.
constexpr size_t kMinChunk = 64 * 1024;

// File of a named vocabulary in the resources' text folder; empty for any other name.
std::string file_of(std::string_view name) {
  if (name == "gpt2") return "gpt2.tiktoken";
  if (name == "llama3") return "llama3.model";
  return "";
}

Result<std::shared_ptr<const Tokenizer>> load_named(const std::string& name) {
  Result<std::filesystem::path> path = find_resource("text/" + file_of(name));
  Result<std::string> text = path.ok() ? read_file(*path) : path.failure();
  if (!text) {
    return Failure{text.failure().code,
                   "tokenizer " + name + ": " + text.failure().message +
                       "; run ./dev setup, which fetches it, set ESPALIER_DEPS to the folder that "
                       "holds text/" +
                       file_of(name) + ", or give the rank file's path instead of the name"};
  }
  return bpe_tokenizer(*std::move(text), name, /*stored_by_name=*/true);
}

// A JSON object: one that serialize() wrote, which has a "kind", or Hugging Face's, with a "model".
Result<std::shared_ptr<const Tokenizer>> parse_json(const std::string& text,
                                                    const std::string& where) {
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_object() && json.contains("model")) return json_tokenizer(json, text, where);
  if (json.is_object() && json.value("kind", nlohmann::json()) == "none") {
    return parse_no_tokenizer(text, where);
  }
  return parse_char_tokenizer(text, where);
}

Result<std::shared_ptr<const Tokenizer>> parse(std::string text, const std::string& where) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) {
    return Failure{Code::kDataLoss, where + " is empty; a rank file or a stored tokenizer is due"};
  }
  const std::string word = text.substr(first, text.find_last_not_of(" \t\r\n") + 1 - first);
  if (!file_of(word).empty()) return load_named(word);
  if (word[0] == '{') return parse_json(word, where);
  return bpe_tokenizer(std::move(text), where, /*stored_by_name=*/false);
}

}  // namespace

Result<std::shared_ptr<const Tokenizer>> load_tokenizer(const std::string& name_or_path) {
  if (!file_of(name_or_path).empty()) return load_named(name_or_path);
  if (name_or_path == "char") {
    return Failure{Code::kInvalidArgument,
                   "a char tokenizer is made from a text, not loaded by name: give the path of a "
                   "stored one (a run's or a prepared data set's folder has it)"};
  }
  auto text = read_file(name_or_path);
  if (!text) {
    return Failure{text.failure().code, "tokenizer '" + name_or_path +
                                            "' is neither gpt2 nor llama3 nor a file that can be "
                                            "read: " +
                                            text.failure().message};
  }
  return parse(*std::move(text), name_or_path);
}

Result<std::shared_ptr<const Tokenizer>> parse_tokenizer(std::string_view serialized) {
  return parse(std::string(serialized), "stored tokenizer");
}

std::vector<int32_t> encode_parallel(const Tokenizer& tokenizer, std::string_view text, int threads,
                                     bool allow_special) {
  if (threads <= 0) threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  // A few chunks a thread, so that an uneven one does not leave the others waiting.
  const size_t wanted =
      std::min(static_cast<size_t>(threads) * 4, std::max<size_t>(1, text.size() / kMinChunk));
  if (threads == 1 || wanted == 1) return tokenizer.encode(text, allow_special);
  // Cutting needs valid UTF-8, and offsets in messages count from the whole text's start.
  validate_utf8(text).value_or_throw();

  std::vector<size_t> cuts = {0};
  for (size_t i = 1; i < wanted; ++i) {
    const size_t near = std::max(cuts.back(), text.size() / wanted * i);
    const size_t cut = tokenizer.cut_after(text, near);
    if (cut > cuts.back()) cuts.push_back(cut);
  }
  if (cuts.back() < text.size()) cuts.push_back(text.size());

  std::vector<std::vector<int32_t>> parts(cuts.size() - 1);
  std::atomic<size_t> next = 0;
  std::atomic<bool> failed = false;
  const auto work = [&] {
    try {
      for (size_t i = next++; i < parts.size() && !failed; i = next++) {
        parts[i] = tokenizer.encode(text.substr(cuts[i], cuts[i + 1] - cuts[i]), allow_special);
      }
    } catch (...) {
      failed = true;
    }
  };
  std::vector<std::jthread> pool;
  for (int i = 1; i < threads && static_cast<size_t>(i) < parts.size(); ++i)
    pool.emplace_back(work);
  work();
  pool.clear();
  // Encoding the whole on this thread throws the same error with the whole text's offset.
  if (failed) return tokenizer.encode(text, allow_special);

  size_t total = 0;
  for (const auto& part : parts) total += part.size();
  std::vector<int32_t> ids;
  ids.reserve(total);
  for (auto& part : parts) {
    ids.insert(ids.end(), part.begin(), part.end());
    std::vector<int32_t>().swap(part);
  }
  return ids;
}

}  // namespace espalier
