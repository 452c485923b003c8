// Random tokens, made as they are asked for: data for measuring and for trying out, without any
// file. Nothing can be learned from them but that every id is as likely: log(vocab) nats a token.
#pragma once

#include <cstdint>
#include <memory>

#include "espalier/data/dataset.h"

namespace espalier {

// Rows of seq_len + 1 ids, each even over [0, vocab): tokens and true next tokens. The id at place
// t of row r is a function of seed, `held_out`, r and t alone, so rows may be filled in any order.
// A row that is held out is none of the others.
std::shared_ptr<const RowSource> synthetic_rows(int64_t rows, int64_t seq_len, int64_t vocab,
                                                uint64_t seed, bool held_out);

}  // namespace espalier
