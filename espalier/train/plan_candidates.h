// The ways to train a recipe that a plan looks at: meshes and rematerializations.
#pragma once

#include "espalier/train/config.h"

namespace espalier {

// From 1 on, rising.
std::vector<int64_t> divisors(int64_t number);

// Every way to share `devices` among mesh axes: those of the recipe's own mesh, those that its
// rules and patterns name, and of default rules' axes that mean the same ("data" and "dp") one. An
// axis of size 1 is left out unless a rule or pattern of the recipe's own names it. What is in the
// recipe's mesh comes last and keeps its order: the last varies fastest over the devices.
std::vector<NamedInts> candidate_meshes(const RunConfig& config, int64_t devices);

struct CandidateRemat {
  std::string remat;  // as train.remat
  std::vector<std::string> names{};
  bool offload = false;
};
// The recipe's own names, or what costs most to compute again (attention's output); offload where
// the platform has a host's memory apart from the device's.
std::vector<CandidateRemat> candidate_remats(const RunConfig& config, const std::string& platform);

}  // namespace espalier
