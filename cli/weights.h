// `espalier prepare weights NAME`: downloads published weights.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace espalier {

// Fetches the model's files into the folder, by default where init_from and --hf look for NAME
// (train.weights_dir's default), and prints what came. `names`: what follows "weights"
// on the command line, one name; `url`: the hub or a mirror of it, empty for the hub. Throws Error
// on failure.
void prepare_weights(const std::vector<std::string>& names,
                     const std::filesystem::path& given_folder, const std::string& url);

}  // namespace espalier
