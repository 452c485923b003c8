// Every operation against its case table: types, gradient, text, errors, and that none is left out.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <regex>
#include <set>
#include <typeindex>

#include "espalier/base/file.h"
#include "espalier/ops/op_list.h"
#include "espalier/transform/module.h"
#include "espalier/transform/simplify.h"
#include "tests/support/compare.h"
#include "tests/support/derivatives.h"
#include "tests/support/op_cases.h"
#include "tests/support/oracle.h"

namespace espalier::test {
namespace {

std::vector<TensorType> types_of_arrays(const std::vector<HostArray>& arrays) {
  std::vector<TensorType> out;
  for (const HostArray& a : arrays) out.push_back({a.dtype(), a.dims()});
  return out;
}

void expect_same(const std::vector<HostArray>& got, const std::vector<HostArray>& want,
                 double tolerance, const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_TRUE(close_to(got[i], want[i], tolerance)) << what << " " << i;
  }
}

class OpTable : public testing::TestWithParam<OpCase> {};

TEST_P(OpTable, ValueHasTheInferredTypesAndSurvivesSimplification) {
  const OpCase& c = GetParam();
  if (!c.runs) return;
  const Function function = trace_case(c, DType::kF64);
  const auto arguments = random_arrays(types_of(function.params), c.low, c.high, c.label);
  const auto results = evaluate(function, arguments);
  EXPECT_EQ(types_of_arrays(results), types_of(function.results));
  const Function simple = simplify(function);
  verify(simple);
  expect_same(evaluate(simple, arguments), results, 0, "result of the simplified function");
}

TEST_P(OpTable, GradientAgreesWithNumericDifferences) {
  const OpCase& c = GetParam();
  if (!c.runs || !c.differentiable) return;
  const Function function = trace_case(c, DType::kF64);
  auto arguments = random_arrays(types_of(function.params), c.low, c.high, c.label);
  const auto cotangents = random_arrays(cotangent_types(function), -1, 1, c.label + " cotangents");
  const auto numeric = numeric_cotangents(function, arguments, cotangents);
  arguments.insert(arguments.end(), cotangents.begin(), cotangents.end());
  const Function pullback = pullback_of(function);
  const auto grads = evaluate(pullback, arguments);
  expect_same(grads, numeric, 1e-8, "cotangent of floating-point input");
  expect_same(evaluate(simplify(pullback), arguments), grads, 0, "simplified cotangent");
}

TEST_P(OpTable, TextIsTheGoldenText) {
  const OpCase& c = GetParam();
  ModuleOptions options;
  options.name = c.label;
  options.mesh = c.mesh;
  options.rules = case_rules();
  const std::string text = to_stablehlo(trace_case(c, DType::kF32), options);
  EXPECT_EQ(to_stablehlo(trace_case(c, DType::kF32), options), text) << "a second trace differs";
  const std::filesystem::path path =
      std::filesystem::path(ESPALIER_SOURCE_DIR) / "tests/golden/ops" / (c.label + ".mlir");
  if (std::getenv("ESPALIER_UPDATE_GOLDEN") != nullptr) {
    std::filesystem::create_directories(path.parent_path());
    write_file(path, text).value_or_throw();
    return;
  }
  const auto golden = read_file(path);
  ASSERT_TRUE(golden) << golden.failure().message
                      << "; ESPALIER_UPDATE_GOLDEN=1 in the environment writes golden files";
  EXPECT_EQ(text, *golden) << "where the change is meant, ESPALIER_UPDATE_GOLDEN=1 in the "
                              "environment writes the file anew";
}

std::string case_name(const testing::TestParamInfo<OpCase>& info) { return info.param.label; }
INSTANTIATE_TEST_SUITE_P(Cases, OpTable, testing::ValuesIn(op_cases()), case_name);

class OpErrors : public testing::TestWithParam<ErrorCase> {};

TEST_P(OpErrors, AreThrownWithTheOpsName) {
  const ErrorCase& c = GetParam();
  try {
    trace(c.inputs, c.build);
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(std::string(e.what()).substr(0, c.message.size()), c.message);
    EXPECT_EQ(e.code(), Code::kInvalidArgument);
  }
}

std::string error_name(const testing::TestParamInfo<ErrorCase>& info) { return info.param.label; }
INSTANTIATE_TEST_SUITE_P(Cases, OpErrors, testing::ValuesIn(error_cases()), error_name);

// --- completeness ---

// Every node of a function and of the bodies in it.
void each_node(const Function& function, const std::function<void(const Node&)>& visit) {
  for (const auto& node : reachable(function.results)) {
    visit(*node);
    std::vector<FunctionPtr> bodies;
    if (const auto* op = node->as<Scan>()) bodies = {op->body};
    if (const auto* op = node->as<While>()) bodies = {op->condition, op->body};
    if (const auto* op = node->as<Cond>()) bodies = {op->on_true, op->on_false};
    if (const auto* op = node->as<Remat>()) bodies = {op->body};
    if (const auto* op = node->as<ShardMap>()) bodies = {op->body};
    for (const FunctionPtr& body : bodies) each_node(*body, visit);
  }
}

TEST(OpList, EveryOpHasACase) {
  std::set<std::type_index> ops;
  std::set<std::string> names;
  std::set<Direction> directions;
  for (const OpCase& c : op_cases()) {
    each_node(trace_case(c, DType::kF32), [&](const Node& node) {
      ops.insert(node.op->type());
      names.insert(std::string(node.op->name()));
      if (const auto* op = node.as<Compare>()) directions.insert(op->direction);
    });
  }
  AllOps::each([&]<class S>() {
    EXPECT_TRUE(ops.contains(typeid(S))) << "no case for " << S{}.name();
    ops.erase(typeid(S));
  });
  EXPECT_EQ(ops.size(), 0U) << "an operation in the cases is missing in espalier/ops/op_list.h";
  for (int i = 0; i < kUnaryKinds; ++i) {
    const std::string name(Unary{static_cast<UnaryKind>(i)}.name());
    EXPECT_TRUE(names.contains(name)) << "no case for " << name;
  }
  for (int i = 0; i < kBinaryKinds; ++i) {
    const std::string name(Binary{static_cast<BinaryKind>(i)}.name());
    EXPECT_TRUE(names.contains(name)) << "no case for " << name;
  }
  for (const char* name : {"reduce_sum", "reduce_max", "reduce_min", "reduce_and", "reduce_or"}) {
    EXPECT_TRUE(names.contains(name)) << "no case for " << name;
  }
  EXPECT_EQ(directions.size(), 6U);
}

TEST(OpList, EveryOpHasAnErrorCase) {
  std::set<std::string> names;
  for (const ErrorCase& c : error_cases()) {
    names.insert(c.message.substr(1, c.message.find(']') - 1));
  }
  AllOps::each([&]<class S>() {
    const std::string name(S{}.name());
    const bool by_kind = std::is_same_v<S, Binary>;  // named for one of its kinds
    EXPECT_TRUE(names.contains(name) || by_kind) << "no error case for " << name;
  });
}

// A struct with rules that is missing in the list would escape the tests above.
TEST(OpList, HoldsEveryOpOfTheHeaders) {
  const std::filesystem::path folder =
      std::filesystem::path(ESPALIER_SOURCE_DIR) / "espalier" / "ops";
  const std::string list = read_file(folder / "op_list.h").value_or_throw();
  const std::regex declared(R"((?:ESPALIER_OP_RULES\((\w+), ")|(?:bool operator==\(const (\w+)&))");
  size_t found = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".h" || entry.path().filename() == "rules.h") continue;
    const std::string text = read_file(entry.path()).value_or_throw();
    for (std::sregex_iterator it(text.begin(), text.end(), declared), end; it != end; ++it) {
      const std::string name = (*it)[1].matched ? (*it)[1] : (*it)[2];
      EXPECT_TRUE(std::regex_search(list, std::regex("\\b" + name + "[,>]")))
          << name << " of " << entry.path().filename() << " is not in op_list.h";
      ++found;
    }
  }
  EXPECT_GE(found, 39U);
}

TEST(OpCases, HaveDistinctLabels) {
  std::set<std::string> labels;
  for (const OpCase& c : op_cases()) EXPECT_TRUE(labels.insert(c.label).second) << c.label;
}

}  // namespace
}  // namespace espalier::test
