"""Training steps of Llama 3 beside JAX's: the same sizes on the same device, in turns.

    python benchmarks/llama_peer.py [BENCH_BINARY] [--cases NAME...] [--rounds N] [--set KEY=VALUE...]

BENCH_BINARY is the built llama_bench; without it JAX is timed alone. The peer is the model as one
writes it in JAX: layers scanned and rematerialized whole, jax.nn.dot_product_attention (cuDNN's on
NVIDIA), logits of all positions at once, SGD, the whole step jitted with the parameters donated.
Each program has a process of its own, and they take turns (A B A B), each alone on the device while
it runs. In the small case both start from the same parameters and see the same random tokens, and
their losses must agree; the large ones, in bfloat16, start from parameters of their own. Needs jax
(with CUDA for the cases of 8B, which need a GPU of 141 GB), numpy and safetensors.
"""

import argparse
import functools
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

RECIPES = pathlib.Path(__file__).resolve().parent.parent / "recipes"
LARGE = dict(vocab=128256, width=4096, layers=32, heads=32, key_heads=8, inner=14336,
             dtype="bfloat16", plugin="cuda", steps=8, rounds=2)
CASES = {
    "small": dict(vocab=512, width=256, layers=4, heads=8, key_heads=4, inner=768, batch=4,
                  length=256, dtype="float32", plugin="cpu", steps=4, rounds=3),
    "8b-8192": dict(LARGE, batch=4, length=8192),
    "8b-2048": dict(LARGE, batch=16, length=2048),
}
DEFAULT_CASES = ["small"]
RATE = 0.01
# A step's losses differ by float32's rounding, which training then enlarges.
LOSS_TOLERANCE = 1e-3
# Dense FLOP/s of bfloat16 products, by the data sheets (without sparsity).
PEAKS = {"H200": 989.4e12, "H100": 989.4e12, "A100": 312e12}


def rows(case, first, np):
    """The rows of RandomRows in benchmarks/training_bench.h."""
    batch, length = case["batch"], case["length"]
    state = np.arange(first + 1, first + batch + 1, dtype=np.uint64)
    tokens = np.empty((batch, length), np.int32)
    for i in range(length):
        state = state * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
        tokens[:, i] = (state >> np.uint64(33)) % np.uint64(case["vocab"])
    targets = np.concatenate([tokens[:, 1:], np.zeros((batch, 1), np.int32)], axis=1)
    return tokens, targets


def model_flops(case):
    """Of a step: 6 for each weight and token, attention over all pairs (Chowdhery et al. 2022)."""
    width, head = case["width"], case["width"] // case["heads"]
    layer = width * head * (2 * case["heads"] + 2 * case["key_heads"]) + 3 * width * case["inner"]
    weights = case["layers"] * layer + width * case["vocab"]
    tokens = case["batch"] * case["length"]
    return 6 * weights * tokens + 12 * case["layers"] * width * case["length"] * tokens


def serve_jax(case, weights):
    """Answers each number of steps on standard input as llama_bench --serve does."""
    if case["plugin"] == "cpu":
        os.environ["JAX_PLATFORMS"] = "cpu"
    import jax
    import jax.numpy as jnp
    import numpy as np

    dtype = jnp.dtype(case["dtype"])
    width, layers, heads, key_heads = (case[k] for k in ("width", "layers", "heads", "key_heads"))
    head, inner, length = width // heads, case["inner"], case["length"]
    attention = "cudnn" if case["plugin"] == "cuda" else "xla"
    shapes = {"self_attn.q_proj": (heads * head, width), "self_attn.k_proj": (key_heads * head, width),
              "self_attn.v_proj": (key_heads * head, width), "self_attn.o_proj": (width, heads * head),
              "mlp.gate_proj": (inner, width), "mlp.up_proj": (inner, width),
              "mlp.down_proj": (width, inner), "input_layernorm": (width,),
              "post_attention_layernorm": (width,)}

    def make(key, shape):
        if len(shape) - (shape[0] == layers) == 1:
            return jnp.ones(shape, dtype)
        return 0.02 * jax.random.normal(key, shape, dtype)

    keys = iter(jax.random.split(jax.random.key(0), 16))
    params = {name: make(next(keys), (layers, *shape)) for name, shape in shapes.items()}
    params |= {"embed_tokens": make(next(keys), (case["vocab"], width)),
               "norm": jnp.ones((width,), dtype),
               "lm_head": make(next(keys), (case["vocab"], width))}
    if weights:
        import safetensors.numpy
        tensors = {"lm_head.weight": params["lm_head"], "model.norm.weight": params["norm"],
                   "model.embed_tokens.weight": params["embed_tokens"]}
        for name in shapes:
            for i in range(layers):
                tensors[f"model.layers.{i}.{name}.weight"] = params[name][i]
        safetensors.numpy.save_file({name: np.asarray(value) for name, value in tensors.items()},
                                    pathlib.Path(weights) / "model.safetensors")

    angles = (jnp.arange(length)[:, None] *
              500000.0 ** (-jnp.arange(0, head, 2) / head)[None, :])
    cos, sin = (jnp.concatenate([f(angles)] * 2, axis=-1)[None, :, None, :]
                for f in (jnp.cos, jnp.sin))

    def norm(x, scale):
        wide = x.astype(jnp.float32)
        return (wide * jax.lax.rsqrt(jnp.mean(wide * wide, -1, keepdims=True) + 1e-5)
                ).astype(dtype) * scale

    def rotate(x):
        wide = x.astype(jnp.float32)
        left, right = jnp.split(wide, 2, axis=-1)
        return (wide * cos + jnp.concatenate([-right, left], axis=-1) * sin).astype(dtype)

    @functools.partial(jax.checkpoint, policy=jax.checkpoint_policies.nothing_saveable)
    def block(x, p):
        h = norm(x, p["input_layernorm"])
        q, k, v = ((h @ p[f"self_attn.{n}_proj"].T).reshape(*x.shape[:2], -1, head) for n in "qkv")
        o = jax.nn.dot_product_attention(rotate(q), rotate(k), v, is_causal=True,
                                         implementation=attention)
        x = x + o.reshape(*x.shape[:2], -1) @ p["self_attn.o_proj"].T
        h = norm(x, p["post_attention_layernorm"])
        h = jax.nn.silu(h @ p["mlp.gate_proj"].T) * (h @ p["mlp.up_proj"].T)
        return x + h @ p["mlp.down_proj"].T, None

    def loss_of(params, tokens, targets):
        x = params["embed_tokens"][tokens]
        x, _ = jax.lax.scan(block, x, {name: params[name] for name in shapes})
        logits = (norm(x, params["norm"]) @ params["lm_head"].T).astype(jnp.float32)
        picked = jnp.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
        return jnp.mean(jax.nn.logsumexp(logits, axis=-1) - picked)

    @functools.partial(jax.jit, donate_argnums=0)
    def step(params, tokens, targets):
        loss, grads = jax.value_and_grad(loss_of)(params, tokens, targets)
        return jax.tree.map(lambda p, g: (p - RATE * g).astype(p.dtype), params, grads), loss

    start = time.perf_counter()
    tokens, targets = rows(case, 0, np)
    compiled = step.lower(params, tokens, targets).compile()
    print(json.dumps({"cold_compile_s": time.perf_counter() - start,
                      "device": jax.devices()[0].device_kind}), flush=True)
    first = 0
    for line in sys.stdin:
        times, losses = [], []
        for _ in range(int(line)):
            tokens, targets = rows(case, first, np)
            first += case["batch"]
            start = time.perf_counter()
            params, loss = compiled(params, tokens, targets)
            losses.append(float(loss))
            times.append(time.perf_counter() - start)
        print(json.dumps({"steps_s": times, "losses": losses}), flush=True)


class Program:
    """A child that serves steps."""

    def __init__(self, label, command):
        self.label = label
        self.child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                      text=True)
        self.about = self.answer()

    def answer(self):
        line = self.child.stdout.readline()
        if not line:
            raise SystemExit(f"{self.label} ended: see its message above")
        return json.loads(line)

    def run(self, steps):
        self.child.stdin.write(f"{steps}\n")
        self.child.stdin.flush()
        answer = self.answer()
        return answer["steps_s"], answer["losses"]

    def close(self):
        self.child.stdin.close()
        self.child.wait()


def ours(bench, case, weights, extra):
    keys = {"model.preset": "debug", "model.vocab_size": case["vocab"], "model.dim": case["width"],
            "model.n_layers": case["layers"], "model.n_heads": case["heads"],
            "model.n_kv_heads": case["key_heads"], "model.hidden_dim": case["inner"],
            "model.max_seq_len": case["length"], "data.seq_len": case["length"],
            "data.batch_size": case["batch"], "mesh.axes": "{}", "sharding.params": "{}",
            "optimizer.learning_rate": RATE, "train.dtype": case["dtype"],
            "train.param_dtype": case["dtype"], "runtime.plugin": case["plugin"]}
    return Program("llama_bench", [
        bench, "--serve", "--recipe", RECIPES / "llama3-8b-scan-fsdp.toml",
        *(["--weights", weights] if weights else []),
        *(f"{k}={v}" for k, v in keys.items()), *extra])


def jax_peer(name, weights):
    return Program("JAX", [sys.executable, __file__, "--serve", name,
                           *(["--weights", weights] if weights else [])])


def spread(values):
    return (f"{statistics.median(values) * 1e3:.1f} ms "
            f"({min(values) * 1e3:.1f} to {max(values) * 1e3:.1f})")


def report(case, label, times, losses, about):
    flops = model_flops(case) / statistics.median(times)
    tokens = case["batch"] * case["length"] / statistics.median(times)
    peak = next((v for k, v in PEAKS.items() if k in about.get("device", "")), None)
    mfu = f", MFU {100 * flops / peak:.1f}%" if peak else ""
    print(f"  {label:9} step {spread(times)}, {tokens:.0f} tokens/s, {flops / 1e12:.2f} TFLOP/s{mfu}, "
          f"loss {losses[0]:.5f} to {losses[-1]:.5f}")


def compare(name, bench, rounds, extra):
    case = CASES[name]
    rounds = rounds or case["rounds"]
    print(f"{name}: {case['layers']} layers, width {case['width']}, batch {case['batch']} x "
          f"{case['length']}, {case['dtype']}, {rounds} rounds of {case['steps']} steps")
    times, medians, losses = {}, {}, {}
    about = {}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(rounds):
            shared = folder if name == "small" else None
            makers = {"jax": lambda: jax_peer(name, shared)}
            if bench:
                makers["espalier"] = lambda: ours(bench, case, shared, extra)
            for label, make in makers.items():
                program = make()
                about = about | program.about
                warm = program.run(2)[1]
                seconds, now = program.run(case["steps"])
                program.close()
                times.setdefault(label, []).extend(seconds)
                medians.setdefault(label, []).append(statistics.median(seconds))
                losses[label] = warm + now
    for label in times:
        report(case, label, times[label], losses[label], about)
    if not bench:
        return
    ratio = statistics.median(a / b for a, b in zip(medians["espalier"], medians["jax"]))
    print(f"  ratio of step times {ratio:.3f}, of the fastest "
          f"{min(times['espalier']) / min(times['jax']):.3f}")
    if name == "small":
        for step, (a, b) in enumerate(zip(losses["espalier"], losses["jax"])):
            if not math.isclose(a, b, rel_tol=LOSS_TOLERANCE):
                raise SystemExit(f"{name}: the loss of step {step} is {a} here, {b} in JAX")
    sys.stdout.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bench", nargs="?")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=DEFAULT_CASES)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--set", nargs="+", default=[], help="keys for llama_bench")
    parser.add_argument("--serve", choices=CASES, help=argparse.SUPPRESS)
    parser.add_argument("--weights", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve_jax(CASES[arguments.serve], arguments.weights)
        return
    for name in arguments.cases:
        compare(name, arguments.bench, arguments.rounds, arguments.set)


if __name__ == "__main__":
    main()
