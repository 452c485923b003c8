#include "cli/bad_usage.h"

#include <cstdio>
#include <string>
#include <vector>

#include "espalier/base/log.h"
#include "espalier/config/fields.h"

namespace espalier {
namespace {

constexpr int kBadUsage = 2;

// The innermost subcommand that was named.
const CLI::App& chosen(const CLI::App& app) {
  const auto parsed = app.get_subcommands();
  return parsed.empty() ? app : chosen(*parsed.back());
}

// "espalier train"
std::string full_name(const CLI::App& app) {
  const CLI::App* parent = app.get_parent();
  return parent == nullptr ? app.get_name() : full_name(*parent) + " " + app.get_name();
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

std::vector<std::string> subcommand_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  return names;
}

}  // namespace

int report_bad_usage(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == 0) return app.exit(error);
  const CLI::App& command = chosen(app);
  const std::string see = "see " + full_name(command) + " --help";
  // What is not known is told before what is missing: a misspelled option is often the missing one.
  const std::vector<std::string> unknown = command.remaining();
  const std::vector<std::string> subcommands = subcommand_names(command);
  const auto is_option = [](const std::string& text) { return text.size() > 1 && text[0] == '-'; };
  if (!unknown.empty() && !subcommands.empty() && !is_option(unknown[0])) {
    err().error("unknown subcommand '{}'; did you mean '{}'? {}", unknown[0],
                nearest_name(unknown[0], subcommands), see);
    return kBadUsage;
  }
  for (const std::string& argument : unknown) {
    if (!is_option(argument)) continue;
    const std::string name = argument.substr(0, argument.find('='));
    err().error("unknown option '{}'; did you mean '{}'? {}", name,
                nearest_name(name, option_names(command)), see);
    return kBadUsage;
  }
  if (!unknown.empty()) {
    err().error("unexpected argument '{}'; {}", unknown[0], see);
    return kBadUsage;
  }
  if (!subcommands.empty()) {
    std::fputs(command.help().c_str(), stderr);
    err().error("name one of the subcommands above");
    return kBadUsage;
  }
  err().error("{}; {}", error.what(), see);
  return kBadUsage;
}

}  // namespace espalier
