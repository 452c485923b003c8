"""The safetensors package as a peer for tests/unit/checkpoint_python_test.cc.

read FILE   prints one line a tensor, sorted by name: NAME DTYPE SHAPE SHA256-OF-BYTES
write FILE  writes tensors of several types, made by bytes_of() below, and prints the same lines
"""

import hashlib
import math
import sys

import numpy
import safetensors
import safetensors.numpy

WRITTEN = {
    "matrix": ("float32", 4, [3, 5]),
    "half": ("float16", 2, [7]),
    "ids": ("int32", 4, [2, 2, 2]),
    "mask": ("bool", 1, [3]),
    "scalar": ("float64", 8, []),
    "empty": ("float32", 4, [0, 4]),
}


def bytes_of(name, size):
    """Bytes 0 and 1 in a pattern that differs from tensor to tensor."""
    return bytes((i * len(name) // 3) % 2 for i in range(size))


def lines(path):
    with open(path, "rb") as file:
        tensors = safetensors.deserialize(file.read())
    for name, t in sorted(tensors, key=lambda pair: pair[0]):
        shape = ",".join(str(d) for d in t["shape"])
        yield f"{name} {t['dtype']} [{shape}] {hashlib.sha256(bytes(t['data'])).hexdigest()}"


def write(path):
    tensors = {}
    for name, (dtype, element, shape) in WRITTEN.items():
        data = bytes_of(name, element * math.prod(shape))
        tensors[name] = numpy.frombuffer(data, dtype).reshape(shape)
    safetensors.numpy.save_file(tensors, path, {"made": "by Python"})


if __name__ == "__main__":
    action, path = sys.argv[1:]
    if action == "write":
        write(path)
    print("\n".join(lines(path)))
