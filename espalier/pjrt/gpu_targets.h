// What XLA wants to know of a GPU that is not here.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace espalier {

// A GpuTargetConfigProto (xla/stream_executor/device_description.proto) in text for a part by its
// name here ("h100"); empty where there is none.
std::string gpu_target_config(std::string_view name);
std::vector<std::string> gpu_target_names();
// The device's kind as its driver names it ("NVIDIA H100 80GB HBM3"); empty where there is none.
std::string gpu_target_device(std::string_view name);

}  // namespace espalier
