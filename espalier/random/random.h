// Random numbers that equal jax.random's bit for bit (JAX 0.10.2 with its defaults: Threefry-2x32,
// jax_threefry_partitionable, 32-bit types, "low" Gumbel mode).
//
// A key is u32[2]. Element i of an array, i counted row-major over the whole array, is a function
// of the key and i alone, and i is computed from iotas: on any mesh every device draws its own
// piece without communication, and the values do not depend on the mesh.
//
// All functions trace; they throw Error "[random] ..." on a wrong key or shape. Floats are f32:
// convert() them for other element types.
//
// Sources: jax/_src/random/{threefry2x32,prng,core}.py; Salmon et al., "Parallel random numbers: as
// easy as 1, 2, 3" (SC 2011) for the generator.
#pragma once

#include <cstdint>

#include "espalier/base/host_array.h"
#include "espalier/ir/tensor.h"

namespace espalier::random {

// The key (seed >> 32, seed & 0xffffffff). jax.random.key drops the upper half unless 64-bit types
// are enabled, so seeds below 2^32 agree with it in either case.
Tensor key(uint64_t seed);
// The same as data, for a program that takes its key as an argument.
HostArray key_data(uint64_t seed);
// From a scalar of type u32, s32, u64 or s64, taken as its bits.
Tensor key(const Tensor& seed);

// n new keys, (n, 2): row i depends on i and not on n.
Tensor split(const Tensor& key, int64_t n = 2);
// One of them: row i of (n, 2).
Tensor key_at(const Tensor& keys, int64_t i);
// A key of its own for each number; the tensor is a u32 or s32 scalar.
Tensor fold_in(const Tensor& key, uint32_t data);
Tensor fold_in(const Tensor& key, const Tensor& data);

// u32, all values equally likely.
Tensor bits(const Tensor& key, const Dims& dims);
// In [low, high), from 23 random bits.
Tensor uniform(const Tensor& key, const Dims& dims, float low = 0, float high = 1);
// Mean 0, variance 1: sqrt(2) erf_inv(u), u uniform in (-1, 1).
Tensor normal(const Tensor& key, const Dims& dims);
// Normal values given that they lie in the open interval (low, high), in units of the standard
// deviation. Throws unless low < high.
Tensor truncated_normal(const Tensor& key, float low, float high, const Dims& dims);
// bool, true with probability p.
Tensor bernoulli(const Tensor& key, float p, const Dims& dims);
// -log(-log(u)), u uniform in [smallest normal number, 1).
Tensor gumbel(const Tensor& key, const Dims& dims);
// s32 index along `dim` (negative: from the end), which disappears, drawn with probability
// softmax(logits): the largest of logits + gumbel. Logits are f32.
Tensor categorical(const Tensor& key, const Tensor& logits, int64_t dim = -1);

}  // namespace espalier::random
