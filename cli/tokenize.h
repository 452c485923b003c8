// `espalier tokenize`: JSON strings to JSON arrays of token ids, a line each, or back.
#pragma once

#include <CLI/CLI.hpp>
#include <istream>
#include <ostream>
#include <string>

#include "espalier/text/tokenizer.h"

namespace espalier {

// Adds the subcommand; its callback throws Error on failure. Output lines that came before a
// failing line are written.
void add_tokenize(CLI::App& app);

// Reads lines until the input ends and writes one line for each: a JSON string's ids as a JSON
// array, or, with `decode`, an array's text as a JSON string. Output is flushed whenever the input
// has nothing more to read at once, so the command can answer line by line in a pipe. Throws Error
// naming `input_name` and the line: kDataLoss for a line that is not what is due, that the
// vocabulary cannot hold, or whose bytes JSON cannot hold; kUnavailable where writing fails.
void tokenize_lines(const Tokenizer& tokenizer, bool decode, std::istream& input,
                    std::ostream& output, const std::string& input_name);

}  // namespace espalier
