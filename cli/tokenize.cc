#include "cli/tokenize.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>

namespace espalier {
namespace {

struct Options {
  std::string tokenizer;
  std::string file = "-";
  bool decode = false;
};

// One line's failure; tokenize_lines adds where it is.
Error bad_line(const std::string& what) { return Error(what, Code::kDataLoss); }

void encode_line(const Tokenizer& tokenizer, const nlohmann::json& line, fmt::memory_buffer& out) {
  if (!line.is_string()) throw bad_line("a JSON string is due (with --decode an array of ids)");
  out.push_back('[');
  const auto ids = tokenizer.encode(line.get_ref<const std::string&>());
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i != 0) out.push_back(',');
    const fmt::format_int digits(ids[i]);
    out.append(digits.data(), digits.data() + digits.size());
  }
  out.push_back(']');
}

void decode_line(const Tokenizer& tokenizer, const nlohmann::json& line, fmt::memory_buffer& out) {
  if (!line.is_array()) throw bad_line("a JSON array of ids is due");
  std::vector<int32_t> ids;
  ids.reserve(line.size());
  for (const auto& id : line) {
    const bool fits =
        id.is_number_integer() && id >= 0 && id <= std::numeric_limits<int32_t>::max();
    if (!fits) throw bad_line("'" + id.dump() + "' is not a token id");
    ids.push_back(id.get<int32_t>());
  }
  const std::string text = tokenizer.decode(ids).value_or_throw();
  if (!validate_utf8(text)) {
    throw bad_line(
        "the ids stand for bytes that are not valid UTF-8 (they begin or end inside a character), "
        "which JSON cannot hold; decode them together with their neighbours");
  }
  const std::string json = nlohmann::json(text).dump();
  out.append(json.data(), json.data() + json.size());
}

void run(const Options& options) {
  const auto tokenizer = load_tokenizer(options.tokenizer).value_or_throw();
  if (options.file == "-") {
    std::ios::sync_with_stdio(false);
    std::cin.tie(nullptr);
    tokenize_lines(*tokenizer, options.decode, std::cin, std::cout, "standard input");
    return;
  }
  std::ifstream file(options.file, std::ios::binary);
  if (!file) {
    throw Error("cannot open '" + options.file + "': " + std::strerror(errno), Code::kNotFound);
  }
  tokenize_lines(*tokenizer, options.decode, file, std::cout, options.file);
}

}  // namespace

void tokenize_lines(const Tokenizer& tokenizer, bool decode, std::istream& input,
                    std::ostream& output, const std::string& input_name) {
  std::string line;
  fmt::memory_buffer out;
  for (int64_t number = 1; std::getline(input, line); ++number) {
    out.clear();
    try {
      const auto json = nlohmann::json::parse(line);
      decode ? decode_line(tokenizer, json, out) : encode_line(tokenizer, json, out);
    } catch (const nlohmann::json::parse_error& error) {
      output.flush();
      throw Error(fmt::format("{}:{}: not JSON at byte {} of the line; a JSON {} is due",
                              input_name, number, error.byte, decode ? "array of ids" : "string"),
                  Code::kDataLoss);
    } catch (const Error& error) {
      output.flush();
      throw Error(fmt::format("{}:{}: {}", input_name, number, error.what()), Code::kDataLoss);
    }
    out.push_back('\n');
    output.write(out.data(), static_cast<std::streamsize>(out.size()));
    if (input.rdbuf()->in_avail() <= 0) output.flush();
    if (!output) break;
  }
  output.flush();
  if (!output) throw Error("cannot write the output (disk full?)", Code::kUnavailable);
  if (input.bad()) throw Error("cannot read " + input_name, Code::kUnavailable);
}

void add_tokenize(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "tokenize", "Turn JSON strings, one a line, into JSON arrays of token ids, or back");
  command->add_option("--tokenizer", options->tokenizer, "gpt2, llama3, or a tokenizer file's path")
      ->required();
  command->add_flag("--decode", options->decode, "read arrays of ids, write strings");
  command->add_option("FILE", options->file, "input file; - is standard input")
      ->capture_default_str();
  command->callback([options] { run(*options); });
}

}  // namespace espalier
