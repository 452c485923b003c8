#include "espalier/transform/module.h"

#include "espalier/hlo/writer.h"
#include "espalier/transform/simplify.h"

namespace espalier {
namespace {

std::string attribute_dict(const std::vector<std::string>& attributes) {
  if (attributes.empty()) return "";
  std::string out = " {";
  for (size_t i = 0; i < attributes.size(); ++i) out += (i > 0 ? ", " : "") + attributes[i];
  return out + "}";
}

}  // namespace

std::string to_stablehlo(const Function& original, const ModuleOptions& options) {
  const Function function = simplify(original);
  const bool sharded = !options.mesh.axes().empty();
  hlo::Writer w(options.mesh, options.rules);
  w.line("module @" + options.name + " attributes {mhlo.num_partitions = " +
         std::to_string(options.mesh.size()) + " : i32, mhlo.num_replicas = 1 : i32} {");
  w.indent_by(1);
  if (sharded) {
    std::string axes;
    for (const MeshAxis& axis : options.mesh.axes()) {
      axes += (axes.empty() ? "\"" : ", \"") + axis.name + "\"=" + std::to_string(axis.size);
    }
    w.line("sdy.mesh @mesh = <[" + axes + "]>");
  }
  const auto sharding = [&](const PartitionSpec& spec, const TensorType& type,
                            const std::string& what) {
    shard_dims(options.mesh, spec, type.dims, what);  // throws where it does not divide
    return "sdy.sharding = #sdy.sharding" + hlo::sharding_text(spec, type.rank());
  };

  std::string params, results;
  for (size_t i = 0; i < function.params.size(); ++i) {
    const TensorType& type = function.params[i].type();
    std::vector<std::string> attributes;
    if (sharded && i < options.in_specs.size()) {
      attributes.push_back(sharding(options.in_specs[i], type, "argument " + std::to_string(i)));
    }
    if (i < options.donated.size() && options.donated[i]) {
      attributes.push_back("tf.aliasing_output = " + std::to_string(*options.donated[i]) +
                           " : i32");
    }
    const std::string name = "%arg" + std::to_string(i);
    w.bind(function.params[i], name);
    params += (i > 0 ? ", " : "") + name + ": " + hlo::type_text(type) + attribute_dict(attributes);
  }
  std::string types;
  for (size_t i = 0; i < function.results.size(); ++i) {
    const TensorType& type = function.results[i].type();
    std::vector<std::string> attributes;
    if (sharded && i < options.out_specs.size() && options.out_specs[i]) {
      attributes.push_back(sharding(*options.out_specs[i], type, "result " + std::to_string(i)));
    }
    results += (i > 0 ? ", " : "") + hlo::type_text(type) + attribute_dict(attributes);
    types += (i > 0 ? ", " : "") + hlo::type_text(type);
  }
  w.line("func.func public @main(" + params + ") -> (" + results + ") {");
  w.indent_by(1);
  w.nodes(function.results);
  w.line("return " + w.values(function.results) + (types.empty() ? "" : " : " + types));
  w.indent_by(-1);
  w.line("}");
  w.indent_by(-1);
  w.line("}");
  return w.take();
}

}  // namespace espalier
