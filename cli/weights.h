// `espalier prepare weights NAME --out DIR`: downloads published weights.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace espalier {

// Fetches the model's files into the folder and prints what came. `names`: what follows "weights"
// on the command line, one name; `url`: the hub or a mirror of it, empty for the hub. Throws Error
// on failure.
void prepare_weights(const std::vector<std::string>& names, const std::filesystem::path& folder,
                     const std::string& url);

}  // namespace espalier
