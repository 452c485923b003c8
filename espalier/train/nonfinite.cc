#include "espalier/train/nonfinite.h"

#include <fmt/format.h>

#include <cmath>

namespace espalier {

std::string format_number(double value) {
  return std::isnan(value) ? "nan" : fmt::format("{:.6g}", value);
}

std::string describe_nonfinite(int64_t step, const StepReport& report) {
  const std::string& parameter = report.nonfinite_parameter;
  return fmt::format("step {}: the loss is {}, the gradient's norm {}{}", step,
                     format_number(report.loss), format_number(report.grad_norm),
                     parameter.empty()
                         ? "; the update is not finite"
                         : "; the first gradient that is not finite is of '" + parameter + "'");
}

Failure nonfinite_failure(const std::string& what,
                          const std::optional<std::filesystem::path>& checkpoint) {
  const std::string kept = checkpoint ? "the last good checkpoint is '" + checkpoint->string() + "'"
                                      : "no checkpoint had been written";
  return {Code::kFailedPrecondition,
          what + ". The run stops; " + kept +
              ". Lower optimizer.learning_rate, set optimizer.clip_norm or lengthen "
              "optimizer.warmup_steps; train.nonfinite = \"skip\" leaves out single steps "
              "that are not finite"};
}

}  // namespace espalier
