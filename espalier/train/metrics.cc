#include "espalier/train/metrics.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "espalier/base/file.h"

namespace espalier {
namespace {

using Json = nlohmann::ordered_json;

// Calls visit(line) for each line that ends with a newline.
template <class Visit>
void for_each_line(std::string_view text, Visit visit) {
  while (true) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) return;
    visit(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
}

Json known(const std::optional<double>& number) { return number ? Json(*number) : Json(); }

}  // namespace

std::vector<std::pair<std::string, double>> named_scalars(const StepMetrics& metrics) {
  std::vector<std::pair<std::string, double>> out = {
      {"train/loss", metrics.loss},
      {"train/learning_rate", metrics.lr},
      {"train/grad_norm", metrics.grad_norm},
      {"train/tokens_per_second", metrics.tokens_per_second},
  };
  if (metrics.step_seconds) out.emplace_back("train/step_seconds", *metrics.step_seconds);
  if (metrics.mfu) out.emplace_back("train/mfu", *metrics.mfu);
  if (metrics.memory_bytes) out.emplace_back("train/memory_bytes", *metrics.memory_bytes);
  if (std::isfinite(metrics.seconds_left)) {
    out.emplace_back("train/eta_seconds", metrics.seconds_left);
  }
  if (metrics.skipped_steps > 0) {
    out.emplace_back("train/skipped_steps", static_cast<double>(metrics.skipped_steps));
  }
  if (metrics.val_loss) out.emplace_back("val/loss", *metrics.val_loss);
  for (const auto& [name, number] : metrics.extra) out.emplace_back("train/" + name, number);
  return out;
}

std::string to_json(const StepMetrics& metrics) {
  Json json;
  json["step"] = metrics.step;
  json["loss"] = metrics.loss;
  json["lr"] = metrics.lr;
  json["grad_norm"] = metrics.grad_norm;
  json["tokens_per_second"] = metrics.tokens_per_second;
  if (metrics.step_seconds) json["step_seconds"] = *metrics.step_seconds;
  json["elapsed_seconds"] = metrics.elapsed_seconds;
  json["mfu"] = known(metrics.mfu);
  json["memory_bytes"] = known(metrics.memory_bytes);
  json["eta_seconds"] = metrics.seconds_left;
  if (metrics.skipped_steps > 0) json["skipped_steps"] = metrics.skipped_steps;
  if (metrics.val_loss) json["val_loss"] = *metrics.val_loss;
  for (const auto& [name, number] : metrics.extra) json[name] = number;
  return json.dump();  // non-finite numbers become null
}

std::optional<StepMetrics> metrics_from_json(std::string_view line) {
  const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("step") || !json["step"].is_number_integer()) return {};
  StepMetrics out;
  out.loss = out.lr = out.grad_norm = out.tokens_per_second = out.elapsed_seconds =
      std::numeric_limits<double>::quiet_NaN();
  for (const auto& [key, value] : json.items()) {
    const double number =
        value.is_number() ? value.get<double>() : std::numeric_limits<double>::quiet_NaN();
    if (key == "step") {
      out.step = value.get<int64_t>();
    } else if (key == "loss") {
      out.loss = number;
    } else if (key == "lr") {
      out.lr = number;
    } else if (key == "grad_norm") {
      out.grad_norm = number;
    } else if (key == "tokens_per_second") {
      out.tokens_per_second = number;
    } else if (key == "step_seconds") {
      if (value.is_number()) out.step_seconds = number;
    } else if (key == "elapsed_seconds") {
      out.elapsed_seconds = number;
    } else if (key == "mfu") {
      if (value.is_number()) out.mfu = number;
    } else if (key == "memory_bytes") {
      if (value.is_number()) out.memory_bytes = number;
    } else if (key == "eta_seconds") {
      out.seconds_left = number;
    } else if (key == "skipped_steps") {
      if (value.is_number_integer()) out.skipped_steps = value.get<int64_t>();
    } else if (key == "val_loss") {
      out.val_loss = number;
    } else if (value.is_number() || value.is_null()) {
      out.extra.emplace_back(key, number);
    }
  }
  return out;
}

Result<std::vector<StepMetrics>> read_metrics(const std::filesystem::path& path) {
  ESPALIER_ASSIGN(const std::string text, read_file(path));
  std::vector<StepMetrics> out;
  for_each_line(text, [&](std::string_view line) {
    if (auto metrics = metrics_from_json(line)) out.push_back(std::move(*metrics));
  });
  return out;
}

Result<MetricsWriter> MetricsWriter::open(const std::filesystem::path& path, int flags) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | flags, 0644);
  if (fd < 0) return errno_failure("open", path);
  return MetricsWriter(path, fd);
}

Result<MetricsWriter> MetricsWriter::create(const std::filesystem::path& path) {
  return open(path, O_TRUNC);
}

Result<MetricsWriter> MetricsWriter::resume(const std::filesystem::path& path, int64_t step) {
  double seconds = 0;
  auto text = read_file(path);
  if (!text && text.failure().code != Code::kNotFound) return text.failure();
  if (text) {
    std::string kept;
    for_each_line(*text, [&](std::string_view line) {
      const auto metrics = metrics_from_json(line);
      if (!metrics || metrics->step > step) return;
      kept.append(line).push_back('\n');
      if (std::isfinite(metrics->elapsed_seconds)) seconds = metrics->elapsed_seconds;
    });
    if (kept != *text) ESPALIER_TRY(write_file(path, kept));
  }
  ESPALIER_ASSIGN(MetricsWriter writer, open(path, 0));
  writer.resumed_seconds_ = seconds;
  return writer;
}

MetricsWriter::MetricsWriter(MetricsWriter&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      resumed_seconds_(other.resumed_seconds_) {}

MetricsWriter& MetricsWriter::operator=(MetricsWriter&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  std::swap(resumed_seconds_, other.resumed_seconds_);
  return *this;
}

MetricsWriter::~MetricsWriter() {
  if (fd_ >= 0) ::close(fd_);
}

Status MetricsWriter::write(const StepMetrics& metrics) {
  const std::string line = to_json(metrics) + '\n';
  std::string_view rest = line;
  while (!rest.empty()) {
    const ssize_t written = ::write(fd_, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno_failure("write", path_);
    rest.remove_prefix(static_cast<size_t>(written));
  }
  return {};
}

}  // namespace espalier
