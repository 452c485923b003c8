// What the subcommand's parts share about token bins.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "cli/prepare.h"
#include "espalier/data/prepare_bins.h"

namespace espalier {

// Runs `make` while SIGINT and SIGTERM ask it to stop, with a progress bar for each thing it does,
// and says what was made. Throws Error.
void run_preparation(const PrepareOptions& options,
                     const std::function<Result<BinMeta>(const BinOptions&)>& make);

}  // namespace espalier
