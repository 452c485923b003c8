// Windows: rows cut out of runs of tokens. Targets are the true next tokens; no window reaches over
// the end of its run. For T = seq_len, a window at token i of a run is
// x = run[i .. i + T), y = run[i + 1 .. i + 1 + T).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "espalier/data/dataset.h"
#include "espalier/data/token_run.h"

namespace espalier {

// Consecutive windows that share no inputs: floor((n - 1) / T) of a run of n tokens. A row with an
// id that is not in [0, vocab) is kInvalidArgument naming file, token and id.
std::shared_ptr<const RowSource> consecutive_windows(std::vector<TokenRun> runs, int64_t seq_len,
                                                     int64_t vocab);

// The same tokens with a window at any of the n - T places of each run: the loader draws them with
// replacement (RowSource::starts). rows() is as above, so that an epoch reads as many tokens.
std::shared_ptr<const RowSource> random_windows(std::vector<TokenRun> runs, int64_t seq_len,
                                                int64_t vocab);

}  // namespace espalier
