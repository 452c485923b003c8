#include "espalier/train/plot.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <map>

#include "espalier/base/file.h"
#include "espalier/train/metrics.h"

namespace espalier {
namespace fs = std::filesystem;
namespace {

struct Point {
  double step, loss;
};
struct Curve {
  enum Kind { kTrain, kPale, kValidation };
  Kind kind;
  std::string title;  // "" keeps it out of the legend
  size_t run;
  std::vector<Point> points;
};

// Okabe and Ito's colors, told apart by color-blind readers too; black and yellow left out.
constexpr std::array kColors = {"0072b2", "d55e00", "009e73", "cc79a7", "56b4e9", "e69f00"};
// Gnuplot's filled circle, square, triangles and rhomb.
constexpr std::array kPoints = {7, 5, 9, 13, 11};
constexpr size_t kMaxPoints = 1500;

// A folder removed with all that it holds.
class TemporaryFolder {
 public:
  static Result<TemporaryFolder> create() {
    std::error_code error;
    fs::path base = fs::temp_directory_path(error);
    if (error) base = ".";
    std::string name = (base / "espalier-plot-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) return errno_failure("create a folder in", base);
    return TemporaryFolder(name);
  }
  TemporaryFolder(TemporaryFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  TemporaryFolder& operator=(TemporaryFolder&&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  const fs::path& path() const { return path_; }

 private:
  explicit TemporaryFolder(fs::path path) : path_(std::move(path)) {}
  fs::path path_;
};

// Means of neighbours, so that a long run's picture stays small.
std::vector<Point> thinned(const std::vector<Point>& points) {
  if (points.size() <= kMaxPoints) return points;
  std::vector<Point> out;
  const size_t group = (points.size() + kMaxPoints - 1) / kMaxPoints;
  for (size_t begin = 0; begin < points.size(); begin += group) {
    const size_t end = std::min(begin + group, points.size());
    Point mean{0, 0};
    for (size_t i = begin; i < end; ++i) {
      mean.step += points[i].step;
      mean.loss += points[i].loss;
    }
    const auto count = static_cast<double>(end - begin);
    out.push_back({mean.step / count, mean.loss / count});
  }
  return out;
}

// The exponential moving average, its weights scaled so that the first points count as they should.
std::vector<Point> smoothed(std::vector<Point> points, double weight) {
  double sum = 0, weights = 0;
  for (Point& point : points) {
    sum = weight * sum + (1 - weight) * point.loss;
    weights = weight * weights + (1 - weight);
    point.loss = sum / weights;
  }
  return points;
}

// Quoted for gnuplot: between single quotes nothing is expanded, and a quote is doubled.
std::string gnuplot_text(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20) {
      out += ' ';
    } else {
      out += c == '\'' ? std::string("''") : std::string(1, c);
    }
  }
  return out + "'";
}

fs::path without_trailing_slash(const fs::path& path) {
  return path.has_filename() ? path : path.parent_path();
}

// The legend's names: labels, else folders' names, whole paths where two are the same.
std::vector<std::string> run_names(const std::vector<fs::path>& runs,
                                   const std::vector<std::string>& labels) {
  std::map<std::string, int> uses;
  for (const fs::path& run : runs) ++uses[run.filename().string()];
  std::vector<std::string> names;
  for (size_t i = 0; i < runs.size(); ++i) {
    if (i < labels.size() && !labels[i].empty()) {
      names.push_back(labels[i]);
    } else {
      const std::string name = runs[i].filename().string();
      names.push_back(uses[name] > 1 ? runs[i].string() : name);
    }
  }
  return names;
}

Result<std::vector<Curve>> read_curves(std::vector<fs::path> runs, const PlotOptions& options) {
  for (fs::path& run : runs) run = without_trailing_slash(run);
  const std::vector<std::string> names = run_names(runs, options.labels);
  std::vector<Curve> curves;
  for (size_t i = 0; i < runs.size(); ++i) {
    auto metrics = read_metrics(runs[i] / "metrics.jsonl");
    if (!metrics) {
      if (metrics.failure().code != Code::kNotFound) return metrics.failure();
      return Failure{Code::kNotFound, fmt::format("'{}' has no metrics.jsonl; give a run's folder "
                                                  "(train --run DIR makes one)",
                                                  runs[i].string())};
    }
    std::vector<Point> train, validation;
    for (const StepMetrics& line : *metrics) {
      const auto step = static_cast<double>(line.step);
      if (std::isfinite(line.loss)) train.push_back({step, line.loss});
      if (line.val_loss && std::isfinite(*line.val_loss)) {
        validation.push_back({step, *line.val_loss});
      }
    }
    const auto add = [&](Curve::Kind kind, const std::string& title,
                         const std::vector<Point>& points) {
      if (!points.empty()) curves.push_back({kind, title, i, thinned(points)});
    };
    const bool smooth = options.smooth > 0;
    // Several noisy lines would hide the validation's.
    const bool pale = runs.size() > 1 && !validation.empty();
    if (smooth) add(Curve::kPale, "", train);
    add(pale && !smooth ? Curve::kPale : Curve::kTrain, names[i] + " train",
        smooth ? smoothed(train, options.smooth) : train);
    add(Curve::kValidation, names[i] + " val", validation);
  }
  if (curves.empty()) {
    return Failure{Code::kFailedPrecondition,
                   fmt::format("no step with a finite loss is logged in '{}' yet; train longer or "
                               "lower train.log_every",
                               runs[0].string())};
  }
  // Pale lines lie under all others.
  std::stable_partition(curves.begin(), curves.end(),
                        [](const Curve& c) { return c.kind == Curve::kPale; });
  return curves;
}

// What the y axis spans: all points with a margin, which never leads a loss below zero.
std::pair<double, double> y_range(const std::vector<Curve>& curves) {
  double low = curves[0].points[0].loss, high = low;
  for (const Curve& curve : curves) {
    for (const Point& point : curve.points) {
      low = std::min(low, point.loss);
      high = std::max(high, point.loss);
    }
  }
  const double margin = high > low ? 0.04 * (high - low) : std::max(0.04 * std::abs(high), 1e-3);
  return {low >= 0 ? std::max(0.0, low - margin) : low - margin, high + margin};
}

std::string style(const Curve& curve) {
  const char* color = kColors[curve.run % kColors.size()];
  // Single points show as dots; so do the few of a validation.
  const bool dots =
      curve.points.size() == 1 || (curve.kind == Curve::kValidation && curve.points.size() <= 60);
  const std::string with = dots ? fmt::format("linespoints pointtype {} pointsize 0.6",
                                              kPoints[curve.run % kPoints.size()])
                                : "lines";
  switch (curve.kind) {
    case Curve::kPale:
      return fmt::format("{} linecolor rgb '#a0{}' linewidth 1.2", with, color);  // a0: see-through
    case Curve::kTrain:
      return fmt::format("{} linecolor rgb '#{}' linewidth 1.4", with, color);
    case Curve::kValidation:
      break;
  }
  return fmt::format("{} linecolor rgb '#{}' linewidth 2 dashtype (8,5)", with, color);
}

std::string script_text(const std::vector<Curve>& curves, const fs::path& svg) {
  const auto [low, high] = y_range(curves);
  std::string script = fmt::format(
      "set terminal svg size 960,560 dynamic noenhanced font 'Helvetica,15' linewidth 1 "
      "background '#ffffff'\n"
      "set output {}\n"
      "set border 3 linecolor rgb '#9a9a9a'\n"
      "set tics nomirror out scale 0.5 textcolor rgb '#404040'\n"
      "set grid xtics ytics linetype 1 linewidth 0.7 linecolor rgb '#e4e4e4'\n"
      "set xlabel 'step' textcolor rgb '#202020'\n"
      "set ylabel 'loss (nats per token)' textcolor rgb '#202020'\n"
      "set format x '%.0f'\n"
      "set key top right Left reverse spacing 1.25 samplen 2.5 textcolor rgb '#202020'\n"
      "set lmargin 9\nset rmargin 4\nset tmargin 1.5\n"
      "set autoscale xfixmax\n"
      "set xrange [0:*]\nset yrange [{}:{}]\n",
      gnuplot_text(svg.string()), low, high);
  std::string plots;
  for (size_t i = 0; i < curves.size(); ++i) {
    const Curve& curve = curves[i];
    script += fmt::format("$curve{} << end_of_curve\n", i);
    for (const Point& point : curve.points) {
      script += fmt::format("{} {}\n", point.step, point.loss);
    }
    script += "end_of_curve\n";
    plots += fmt::format("{}$curve{} using 1:2 with {} {}", i == 0 ? "plot " : ", \\\n  ", i,
                         style(curve),
                         curve.title.empty() ? "notitle" : "title " + gnuplot_text(curve.title));
  }
  return script + plots + "\n";
}

// Runs `gnuplot script` to its end without a shell; its messages go to a file.
Status run_gnuplot(const std::string& gnuplot, const fs::path& script, const fs::path& messages) {
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, messages.c_str(),
                                     O_WRONLY | O_CREAT | O_TRUNC, 0600);
  std::string program = gnuplot, defaults = "-d", file = script.string();
  char* const arguments[] = {program.data(), defaults.data(), file.data(), nullptr};
  pid_t child = 0;
  const int error = ::posix_spawnp(&child, gnuplot.c_str(), &actions, nullptr, arguments, environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error == ENOENT) {
    return Failure{Code::kFailedPrecondition,
                   fmt::format("drawing needs the program '{}', which is not on this machine; "
                               "install it: apt-get install gnuplot-nox",
                               gnuplot)};
  }
  if (error != 0) {
    return Failure{Code::kInternal,
                   fmt::format("cannot start '{}': {}", gnuplot, std::strerror(error))};
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return errno_failure("wait for", gnuplot);
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  const auto said = read_file(messages);
  return Failure{
      Code::kInternal,
      fmt::format("'{}' failed ({} {}): {}", gnuplot, WIFEXITED(status) ? "status" : "signal",
                  WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status),
                  said ? *said : std::string())};
}

}  // namespace

Status plot_runs(const std::vector<fs::path>& runs, const fs::path& out,
                 const PlotOptions& options) {
  if (runs.empty()) return Failure{Code::kInvalidArgument, "plot needs at least one run's folder"};
  if (options.labels.size() > runs.size()) {
    return Failure{Code::kInvalidArgument,
                   fmt::format("{} labels for {} run{}; give one label a run, in their order",
                               options.labels.size(), runs.size(), runs.size() == 1 ? "" : "s")};
  }
  if (!(options.smooth >= 0 && options.smooth < 1)) {
    return Failure{
        Code::kInvalidArgument,
        fmt::format("the smoothing must be at least 0 and less than 1, not {}", options.smooth)};
  }
  ESPALIER_ASSIGN(const auto curves, read_curves(runs, options));
  ESPALIER_ASSIGN(const auto folder, TemporaryFolder::create());
  const fs::path svg = folder.path() / "loss.svg";
  const fs::path script = folder.path() / "loss.gp";
  ESPALIER_TRY(write_file(script, script_text(curves, svg)));
  ESPALIER_TRY(run_gnuplot(options.gnuplot, script, folder.path() / "messages"));
  ESPALIER_ASSIGN(const std::string picture, read_file(svg));
  return write_file(out, picture);
}

}  // namespace espalier
