// What a run says of losses, gradients and updates that are not finite.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "espalier/train/step.h"

namespace espalier {

// Six digits; "nan" whatever its sign.
std::string format_number(double value);
// The numbers of a step that was not finite.
std::string describe_nonfinite(int64_t step, const StepReport& report);
// The end of a run: `what` was wrong, the checkpoint that is left, and what to change.
Failure nonfinite_failure(const std::string& what,
                          const std::optional<std::filesystem::path>& checkpoint);

}  // namespace espalier
