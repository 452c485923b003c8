#include "espalier/train/wandb.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <ctime>
#include <random>

#include "espalier/base/file.h"
#include "espalier/train/proto/wandb.pb.h"

namespace espalier {
namespace fs = std::filesystem;
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxName = 128, kMaxId = 64;

double seconds_since_epoch() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

bool is_id_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_';
}

// As wandb makes them: eight digits to the base of 36.
std::string make_id() {
  constexpr std::string_view kDigits = "abcdefghijklmnopqrstuvwxyz0123456789";
  std::random_device source;
  std::uniform_int_distribution<size_t> digit(0, kDigits.size() - 1);
  std::string id;
  for (int i = 0; i < 8; ++i) id += kDigits[digit(source)];
  return id;
}

// A number as wandb writes it: JSON has no NaN or infinity, so those are texts.
std::string number_json(double number) {
  if (std::isnan(number)) return "\"NaN\"";
  if (std::isinf(number)) return number > 0 ? "\"Infinity\"" : "\"-Infinity\"";
  return Json(number).dump();
}

Json to_json(const Value& value) {
  struct Convert {
    Json operator()(bool flag) const { return flag; }
    Json operator()(int64_t integer) const { return integer; }
    Json operator()(double number) const { return Json::parse(number_json(number)); }
    Json operator()(const std::string& text) const { return text; }
    Json operator()(const Value::Array& list) const {
      Json out = Json::array();
      for (const Value& item : list) out.push_back(to_json(item));
      return out;
    }
    Json operator()(const Value::Table& table) const {
      Json out = Json::object();
      for (const Entry& entry : table) out[entry.key] = to_json(entry.value);
      return out;
    }
  };
  return std::visit(Convert{}, value.data);
}

template <class Items>
void add_item(Items* items, const std::string& key, std::string json) {
  auto* item = items->Add();
  item->set_key(key);
  item->set_value_json(std::move(json));
}

// Of a field of wandb.json or of a checkpoint's metadata; "" where it is null or missing.
std::string text_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// Who the run was so far; null where it was nobody yet.
Result<Json> earlier_identity(const fs::path& folder, const Json& stored) {
  Json earlier = stored;
  const fs::path path = folder / "wandb.json";
  if (!earlier.is_object()) {
    auto text = read_file(path);
    if (!text) {
      if (text.failure().code == Code::kNotFound) return Json();
      return text.failure();
    }
    earlier = Json::parse(*text, nullptr, /*allow_exceptions=*/false);
  }
  const std::string id = earlier.is_object() ? text_of(earlier, "id") : std::string();
  if (id.empty() || !std::all_of(id.begin(), id.end(), is_id_character)) {
    return Failure{Code::kDataLoss,
                   fmt::format("'{}' holds no id of a W&B run; delete the file to begin a new one",
                               path.string())};
  }
  return earlier;
}

Status check_same(const char* key, const std::string& recipe, const std::string& earlier) {
  if (recipe == earlier) return {};
  return Failure{Code::kInvalidArgument,
                 fmt::format("logging.wandb.{0} is \"{1}\", but this run is logged to W&B with the "
                             "{0} \"{2}\"; set that again, or begin a new run",
                             key, recipe, earlier)};
}

// Of "...-ID" in a run's folder "wandb", in the order of their names, which hold their times.
std::vector<fs::path> session_logs(const fs::path& folder, const std::string& id) {
  std::vector<fs::path> out;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder / "wandb", ignored)) {
    const std::string name = entry.path().filename().string();
    const fs::path log = entry.path() / ("run-" + id + ".wandb");
    if (name.starts_with("offline-run-") && fs::exists(log, ignored)) out.push_back(log);
  }
  std::sort(out.begin(), out.end());
  return out;
}

// The step of a record that holds one.
std::optional<int64_t> step_of(const std::string& bytes) {
  wandb::Record record;
  if (!record.ParseFromString(bytes) || !record.has_history()) return std::nullopt;
  return record.history().step().num();
}

// Drops the numbers past `step` of a log that was not uploaded; returns the last step of one that
// was, else -1. Summaries, numbers of the exit and later ones of a log that is cut short go too.
Result<int64_t> cut_log(const fs::path& path, int64_t step) {
  ESPALIER_ASSIGN(std::vector<std::string> records, read_wandb_log(path));
  const bool uploaded = fs::exists(path.string() + ".synced");
  int64_t last = -1;
  for (size_t i = 0; i < records.size(); ++i) {
    const auto at = step_of(records[i]);
    if (!at) continue;
    last = std::max(last, *at);
    if (uploaded || *at <= step) continue;
    records.resize(i);
    ESPALIER_TRY(write_file(path, wandb_log(records)));
    return -1;
  }
  return uploaded ? last : -1;
}

std::string shell_quoted(const std::string& text) {
  const bool plain = std::all_of(text.begin(), text.end(), [](char c) {
    return is_id_character(c) || c == '/' || c == '.' || c == '+' || c == ':' || c == '@';
  });
  if (plain && !text.empty()) return text;
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

}  // namespace

Check wandb_name() {
  return {[](const Value& value) -> std::string {
            const auto* text = value.get_if<std::string>();
            const bool fine = text != nullptr && text->size() <= kMaxName &&
                              text->find_first_of("/\\#?%:") == std::string::npos;
            return fine ? "" : fmt::format("at most {} bytes without / \\ # ? % :", kMaxName);
          },
          false};
}

Check wandb_id() {
  return {[](const Value& value) -> std::string {
            const auto* text = value.get_if<std::string>();
            const bool fine = text != nullptr && !text->empty() && text->size() <= kMaxId &&
                              std::all_of(text->begin(), text->end(), is_id_character);
            return fine ? "" : fmt::format("1 to {} letters, digits, \"-\" or \"_\"", kMaxId);
          },
          false};
}

Result<WandbRun> WandbRun::open(const WandbConfig& config, const Start& start) {
  WandbRun run;
  run.folder_ = start.folder;
  if (!start.writes) return run;
  ESPALIER_ASSIGN(const Json earlier, earlier_identity(start.folder, start.stored));
  std::string id = config.id ? *config.id : std::string();
  const std::string entity = config.entity.value_or("");
  if (earlier.is_object()) {
    ESPALIER_TRY(check_same("project", config.project, text_of(earlier, "project")));
    ESPALIER_TRY(check_same("entity", entity, text_of(earlier, "entity")));
    if (config.id) ESPALIER_TRY(check_same("id", id, text_of(earlier, "id")));
    id = text_of(earlier, "id");
  }
  if (id.empty()) id = make_id();
  const std::string folder_name = fs::absolute(start.folder).lexically_normal().filename().string();
  run.identity_ = {{"project", config.project},
                   {"entity", config.entity ? Json(entity) : Json()},
                   {"name", config.name.value_or(folder_name)},
                   {"id", id}};
  ESPALIER_TRY(write_file(start.folder / "wandb.json", run.identity_.dump(1) + "\n"));
  for (const fs::path& log : session_logs(start.folder, id)) {
    ESPALIER_ASSIGN(const int64_t last, cut_log(log, start.resumed_step.value_or(-1)));
    run.uploaded_step_ = std::max(run.uploaded_step_, last);
  }
  ESPALIER_TRY(run.begin_session(start));
  return run;
}

Status WandbRun::begin_session(const Start& start) {
  const std::string id = text_of(identity_, "id");
  const double now = seconds_since_epoch();
  // A name of its own, later than those of the sessions before it.
  std::string last;
  for (const fs::path& log : session_logs(start.folder, id)) {
    last = std::max(last, log.parent_path().filename().string());
  }
  auto seconds = static_cast<std::time_t>(now);
  std::string name;
  do {
    std::tm local{};
    ::localtime_r(&seconds, &local);
    name = fmt::format("offline-run-{:%Y%m%d_%H%M%S}-{}", local, id);
    ++seconds;
  } while (name <= last);
  const fs::path session = start.folder / "wandb" / name;
  ESPALIER_TRY(make_folders(session / "files"));  // wandb writes there while it uploads
  ESPALIER_ASSIGN(WandbLogWriter log, WandbLogWriter::create(session / ("run-" + id + ".wandb")));
  log_.emplace(std::move(log));

  wandb::Record header;
  header.set_num(++records_);
  header.mutable_header()->mutable_version_info()->set_producer("espalier");
  header.mutable_header()->mutable_version_info()->set_min_consumer("0.70.0");
  ESPALIER_TRY(write(header.SerializeAsString()));

  wandb::Record begin;
  begin.set_num(++records_);
  auto* about = begin.mutable_run();
  about->set_run_id(id);
  about->set_entity(text_of(identity_, "entity"));
  about->set_project(text_of(identity_, "project"));
  about->set_display_name(text_of(identity_, "name"));
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) == 0) about->set_host(host.data());
  about->mutable_start_time()->set_seconds(static_cast<int64_t>(now));
  about->mutable_start_time()->set_nanos(static_cast<int32_t>((now - std::floor(now)) * 1e9));
  ESPALIER_ASSIGN(const Value recipe, parse_toml(start.recipe, "the run's recipe"));
  for (const Entry& entry : std::get<Value::Table>(recipe.data)) {
    add_item(about->mutable_config()->mutable_update(), entry.key, to_json(entry.value).dump());
  }
  return write(begin.SerializeAsString());
}

Status WandbRun::write(std::string record) { return log_->write(record); }

Status WandbRun::log(const StepMetrics& metrics) {
  if (!log_ || metrics.step <= uploaded_step_) return {};
  wandb::Record row, latest;
  row.set_num(++records_);
  latest.set_num(++records_);
  const auto add = [&](const std::string& key, const std::string& json) {
    add_item(row.mutable_history()->mutable_item(), key, json);
    add_item(latest.mutable_summary()->mutable_update(), key, json);
  };
  for (const auto& [name, number] : named_scalars(metrics)) add(name, number_json(number));
  add("_step", std::to_string(metrics.step));
  add("_runtime", number_json(metrics.elapsed_seconds));
  add("_timestamp", number_json(seconds_since_epoch()));
  row.mutable_history()->mutable_step()->set_num(metrics.step);
  runtime_ = metrics.elapsed_seconds;
  ESPALIER_TRY(write(row.SerializeAsString()));
  return write(latest.SerializeAsString());
}

Status WandbRun::finish(int exit_code) {
  if (!log_) return {};
  wandb::Record end;
  end.set_num(++records_);
  end.mutable_exit()->set_exit_code(exit_code);
  end.mutable_exit()->set_runtime(static_cast<int32_t>(runtime_));
  ESPALIER_TRY(write(end.SerializeAsString()));
  log_.reset();
  return {};
}

std::string WandbRun::command() const {
  return fmt::format("wandb sync {}/offline-run-*-{}", shell_quoted((folder_ / "wandb").string()),
                     text_of(identity_, "id"));
}

}  // namespace espalier
