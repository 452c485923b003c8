#include "espalier/ops/threefry.h"

#include "espalier/hlo/writer.h"
#include "espalier/ops/shape.h"

namespace espalier {

std::vector<TensorType> Threefry::infer(Types in) const {
  require_operands(name(), in, 4);
  for (const TensorType& t : in) {
    if (t.dtype != DType::kU32 || t != in[0]) {
      fail(name(), "needs four u32 arrays of one shape, got " + to_string(t));
    }
  }
  return {in[0], in[0]};
}
Tensors Threefry::vjp(const VjpArgs&) const { return Tensors(4); }

void Threefry::lower(hlo::Writer& w, const Node& node) const {
  const TensorType& type = node.types[0];
  const auto op = [&](const char* what, const std::string& a, const std::string& b) {
    return w.emit(what, {a, b}, {type, type}, type);
  };
  // Constants of the paper: rotation distances and the parity word of the key schedule.
  constexpr int kRotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  constexpr int64_t kParity = 0x1BD11BDA;
  const std::string k0 = w.value(node.operands[0]), k1 = w.value(node.operands[1]);
  const std::string k2 =
      op("stablehlo.xor", op("stablehlo.xor", k0, k1), w.constant(kParity, type));
  const std::string keys[3] = {k0, k1, k2};
  std::string x0 = op("stablehlo.add", w.value(node.operands[2]), k0);
  std::string x1 = op("stablehlo.add", w.value(node.operands[3]), k1);
  for (int block = 0; block < 5; ++block) {
    for (const int distance : kRotations[block % 2]) {
      x0 = op("stablehlo.add", x0, x1);
      const std::string left = op("stablehlo.shift_left", x1, w.constant(distance, type));
      const std::string right =
          op("stablehlo.shift_right_logical", x1, w.constant(32 - distance, type));
      x1 = op("stablehlo.xor", op("stablehlo.or", left, right), x0);
    }
    x0 = op("stablehlo.add", x0, keys[(block + 1) % 3]);
    x1 = op("stablehlo.add", op("stablehlo.add", x1, keys[(block + 2) % 3]),
            w.constant(block + 1, type));
  }
  w.bind(Tensor(node.shared_from_this(), 0), x0);
  w.bind(Tensor(node.shared_from_this(), 1), x1);
}

TwoWords threefry(const Tensor& key0, const Tensor& key1, const Tensor& count0,
                  const Tensor& count1) {
  const Dims& dims = count0.dims();
  const Tensors out =
      apply_all(Threefry{}, {broadcast_to(key0, dims), broadcast_to(key1, dims), count0, count1});
  return {out[0], out[1]};
}

}  // namespace espalier
