"""Training steps of miniGPT beside JAX's: the same sizes on the same machine, in turns.

    python benchmarks/step_peer.py BENCH_BINARY [--cases NAME...] [--rounds 3] [--set KEY=VALUE...]

BENCH_BINARY is the built step_bench. The model is written as JAX's users write it: einsum attention
with jax.nn.softmax, optax's cross-entropy and Adam, blocks in a Python loop or under lax.scan,
jit with donation, NamedSharding on parameters and batch. Each JAX variant is timed; the ratio is to
the faster one. Rounds alternate between the programs (A B A B); each waits for every step. Needs
jax and optax.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import time

TUTORIAL = dict(vocab=50257, length=256, width=256, heads=8, ff=256, blocks=8, batch=8)
SMALL = dict(vocab=65, length=256, width=128, heads=8, ff=128, blocks=4, batch=32)
# name: sizes, dropout, mesh, steps a round
CASES = {
    "tutorial": (TUTORIAL, 0.0, None, 2),
    "tutorial-dropout": (TUTORIAL, 0.1, None, 2),
    "tutorial-mesh": (TUTORIAL, 0.0, (4, 2), 2),
    "small": (SMALL, 0.0, None, 4),
    "small-dropout": (SMALL, 0.1, None, 4),
}
KEYS = dict(
    vocab="model.vocab_size",
    length="model.maxlen",
    width="model.embed_dim",
    heads="model.num_heads",
    ff="model.feed_forward_dim",
    blocks="model.num_transformer_blocks",
    batch="data.batch_size",
)


class Ours:
    """A step_bench that serves."""

    def __init__(self, bench, sizes, dropout, mesh, extra):
        keys = [f"{KEYS[k]}={v}" for k, v in sizes.items()]
        keys += [f"data.seq_len={sizes['length']}", f"model.dropout={dropout}"]
        if mesh:
            keys.append(f"mesh.axes={{batch={mesh[0]},model={mesh[1]}}}")
        self.process = subprocess.Popen(
            [bench, "--serve", *keys, *extra],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.compile_s = self.answer()["cold_compile_s"]

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("step_bench ended: see its message above")
        return json.loads(line)

    def run(self, steps):
        self.process.stdin.write(f"{steps}\n")
        self.process.stdin.flush()
        return self.answer()["steps_s"]

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Jax:
    """The same step in JAX, layers scanned or unrolled."""

    def __init__(self, sizes, dropout, mesh_shape, scanned):
        import jax
        import jax.numpy as jnp
        import numpy as np
        import optax
        from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

        vocab, length, width = sizes["vocab"], sizes["length"], sizes["width"]
        heads, ff, blocks, batch = sizes["heads"], sizes["ff"], sizes["blocks"], sizes["batch"]
        head = width // heads
        mesh = None
        if mesh_shape:
            count = math.prod(mesh_shape)
            mesh = Mesh(np.array(jax.devices()[:count]).reshape(mesh_shape), ("batch", "model"))

        def constrain(x, *axes):
            return x if mesh is None else jax.lax.with_sharding_constraint(
                x, NamedSharding(mesh, P(*axes)))

        def xavier(key, shape, fan_in, fan_out):
            bound = math.sqrt(6 / (fan_in + fan_out))
            return jax.random.uniform(key, shape, minval=-bound, maxval=bound)

        def block_params(key):
            k = jax.random.split(key, 6)
            p = {"ln1": (jnp.ones(width), jnp.zeros(width)),
                 "ln2": (jnp.ones(width), jnp.zeros(width)),
                 "out": (xavier(k[3], (heads, head, width), width, width), jnp.zeros(width)),
                 "l1": (xavier(k[4], (width, ff), width, ff), jnp.zeros(ff)),
                 "l2": (xavier(k[5], (ff, width), ff, width), jnp.zeros(width))}
            for name, own in zip(("query", "key", "value"), k):
                p[name] = (xavier(own, (width, heads, head), width, width),
                           jnp.zeros((heads, head)))
            return p

        def init(key):
            k = jax.random.split(key, 4)
            keys = jax.random.split(k[0], blocks)
            stack = (jax.vmap(block_params)(keys) if scanned
                     else [block_params(keys[i]) for i in range(blocks)])
            return {"tok": jax.random.normal(k[1], (vocab, width)) / math.sqrt(width),
                    "pos": jax.random.normal(k[2], (length, width)) / math.sqrt(width),
                    "blocks": stack,
                    "out": (xavier(k[3], (width, vocab), width, vocab), jnp.zeros(vocab))}

        def param_spec(path, x):
            names = [getattr(p, "key", getattr(p, "idx", None)) for p in path]
            lead = [None] if names[0] == "blocks" and scanned else []
            name = names[-2] if names[0] == "blocks" else names[0]
            bias = names[-1] == 1
            axes = {"tok": ["model", None], "query": [None, "model", None],
                    "key": [None, "model", None], "value": [None, "model", None],
                    "l1": [None, "model"], "out": ["model", None, None],
                    "l2": ["model", None]}.get(name, [])
            if names[0] == "out":
                axes = [None, "model"]
            if bias:
                axes = {"query": ["model", None], "key": ["model", None],
                        "value": ["model", None], "l1": ["model"]}.get(name, [])
                if names[0] == "out":
                    axes = ["model"]
            spec = lead + axes
            # JAX splits evenly or not at all.
            count = dict(zip(("batch", "model"), mesh_shape))
            return NamedSharding(mesh, P(*(a if a and x.shape[i] % count[a] == 0 else None
                                           for i, a in enumerate(spec))))

        def layer_norm(x, p):
            mean = x.mean(-1, keepdims=True)
            var = x.var(-1, keepdims=True)
            return (x - mean) * jax.lax.rsqrt(var + 1e-6) * p[0] + p[1]

        def drop(x, key):
            if dropout == 0:
                return x
            keep = jax.random.bernoulli(key, 1 - dropout, x.shape)
            return jnp.where(keep, x / (1 - dropout), 0)

        def block(x, p, key):
            key1, key2 = jax.random.split(key)
            q, k, v = (jnp.einsum("btd,dhk->bthk", x, p[n][0]) + p[n][1]
                       for n in ("query", "key", "value"))
            scores = jnp.einsum("bthk,bshk->bhts", q, k) / math.sqrt(head)
            seen = jnp.tril(jnp.ones((length, length), bool))
            weights = jax.nn.softmax(jnp.where(seen, scores, -jnp.inf), axis=-1)
            o = jnp.einsum("bhts,bshk->bthk", weights, v)
            o = jnp.einsum("bthk,hkd->btd", o, p["out"][0]) + p["out"][1]
            h = layer_norm(x + drop(o, key1), p["ln1"])
            f = jax.nn.relu(h @ p["l1"][0] + p["l1"][1])
            f = f @ p["l2"][0] + p["l2"][1]
            return constrain(layer_norm(h + drop(f, key2), p["ln2"]), "batch", None, None)

        def loss_of(params, tokens, targets, key):
            x = constrain(params["tok"][tokens] + params["pos"], "batch", None, None)
            keys = jax.random.split(key, blocks)
            if scanned:
                x, _ = jax.lax.scan(lambda x, pk: (block(x, *pk), None), x,
                                    (params["blocks"], keys))
            else:
                for i, p in enumerate(params["blocks"]):
                    x = block(x, p, keys[i])
            logits = x @ params["out"][0] + params["out"][1]
            return optax.softmax_cross_entropy_with_integer_labels(logits, targets).mean()

        adam = optax.adam(1e-3)

        def step(params, state, count, tokens, targets):
            key = jax.random.fold_in(jax.random.key(0), count)
            loss, grads = jax.value_and_grad(loss_of)(params, tokens, targets, key)
            updates, state = adam.update(grads, state, params)
            return optax.apply_updates(params, updates), state, count + 1, loss

        key = jax.random.key(0)
        if mesh:
            shardings = jax.tree_util.tree_map_with_path(param_spec, jax.eval_shape(init, key))
            self.params = jax.jit(init, out_shardings=shardings)(key)
            self.sharding = NamedSharding(mesh, P("batch", None))
        else:
            self.params = jax.jit(init)(key)
            self.sharding = None
        self.state = jax.jit(adam.init)(self.params)
        self.count = jnp.int32(0)
        self.random = np.random.default_rng(0)
        self.sizes, self.jax = sizes, jax
        start = time.perf_counter()
        self.step = jax.jit(step, donate_argnums=(0, 1, 2)).lower(
            self.params, self.state, self.count, *self.batch()).compile()
        self.compile_s = time.perf_counter() - start

    def batch(self):
        rows = self.random.integers(
            0, self.sizes["vocab"], (self.sizes["batch"], self.sizes["length"] + 1), dtype="int32")
        return [self.jax.device_put(x, self.sharding) for x in (rows[:, :-1], rows[:, 1:])]

    def run(self, steps):
        times = []
        for _ in range(steps):
            start = time.perf_counter()
            self.params, self.state, self.count, loss = self.step(
                self.params, self.state, self.count, *self.batch())
            float(loss)
            times.append(time.perf_counter() - start)
        return times

    def close(self):
        pass


def spread(values):
    return f"{statistics.median(values):.3f} s ({min(values):.3f} to {max(values):.3f})"


def compare(name, bench, rounds, extra):
    sizes, dropout, mesh, steps = CASES[name]
    programs = {"espalier": Ours(bench, sizes, dropout, mesh, extra)}
    programs["jax scanned"] = Jax(sizes, dropout, mesh, True)
    programs["jax unrolled"] = Jax(sizes, dropout, mesh, False)
    medians = {label: [] for label in programs}
    for program in programs.values():
        program.run(1)
    for _ in range(rounds):
        for label, program in programs.items():
            medians[label].append(statistics.median(program.run(steps)))
    print(f"{name}: mesh {mesh or 1}, dropout {dropout}, {rounds} rounds of {steps} steps")
    for label, program in programs.items():
        print(f"  {label:13} step {spread(medians[label])}, compiled in {program.compile_s:.1f} s")
        program.close()
    peers = [label for label in programs if label != "espalier"]
    best = min(peers, key=lambda label: statistics.median(medians[label]))
    for label in peers:
        ratio = statistics.median(a / b for a, b in zip(medians["espalier"], medians[label]))
        print(f"  ratio to {label}: {ratio:.3f}{' (the faster)' if label == best else ''}")
    sys.stdout.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bench")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--set", nargs="+", default=[], help="keys for step_bench")
    parser.add_argument("--in-process", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.in_process:
        for name in arguments.cases:
            compare(name, arguments.bench, arguments.rounds, arguments.set)
        return
    # A process for each case: how many devices JAX makes is fixed when it starts.
    for name in arguments.cases:
        environment = dict(os.environ, JAX_PLATFORMS="cpu")
        if CASES[name][2]:
            environment["PJRT_NPROC"] = "32"
            environment["XLA_FLAGS"] = (
                f"--xla_force_host_platform_device_count={math.prod(CASES[name][2])}")
        command = [sys.executable, __file__, arguments.bench, "--in-process", "--cases", name,
                   "--rounds", str(arguments.rounds)]
        if arguments.set:
            command += ["--set", *arguments.set]
        subprocess.run(command, env=environment, check=True)


if __name__ == "__main__":
    main()
