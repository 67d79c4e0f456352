#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# SPDX-FileCopyrightText: VocabLoss contributors
"""VocabLoss beside JAX on this machine's CPU: loss and gradient of the same batches, alternately, in one run.

JAX computes the plain formula, jitted `value_and_grad`, accumulated in float32; VocabLoss runs through entropy_sweep.
Both use all cores, so leave the machine idle. Prints a table and exits 1 where the median of JAX over ours is below the
wanted ratio (7 in fp32, 5 in bf16), 2 where something is missing.

    python3 -m venv /tmp/jax && /tmp/jax/bin/pip install jax
    /tmp/jax/bin/python perf_tests/compare_jax.py
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

WANTED = {"fp32": 7.0, "bf16": 5.0}
SHAPES = [(256, 32768), (64, 131072)]
LOSSES = ["reverse_kl", "cross_entropy"]


def options():
    here = os.path.dirname(os.path.abspath(__file__))
    program = os.path.join(here, "..", "build", "host", "apps", "entropy_sweep", "entropy_sweep")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=os.path.normpath(program), help="entropy_sweep (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="alternations of the two a case (default: %(default)s)")
    parser.add_argument("--repeat", type=int, default=7, help="timed calls a round (default: %(default)s)")
    parser.add_argument("--wanted-fp32", type=float, default=WANTED["fp32"], help="default: %(default)s")
    parser.add_argument("--wanted-bf16", type=float, default=WANTED["bf16"], help="default: %(default)s")
    shapes = ",".join(f"{rows}x{vocab}" for rows, vocab in SHAPES)
    parser.add_argument("--shapes", default=shapes, help="rows x vocab (default: %(default)s)")
    return parser.parse_args()


def import_jax():
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    try:
        import jax
        import jax.numpy as jnp
    except ImportError:
        print("compare_jax: this Python has no jax. Make one that has: python3 -m venv /tmp/jax && "
              "/tmp/jax/bin/pip install jax, then run this script with /tmp/jax/bin/python", file=sys.stderr)
        sys.exit(2)
    return jax, jnp


class JaxCase:
    """One batch of random normal logits; `time_calls` gives milliseconds a call."""

    def __init__(self, jax, jnp, loss, rows, vocab, kind):
        dtype = {"fp32": jnp.float32, "bf16": jnp.bfloat16}[kind]
        keys = jax.random.split(jax.random.PRNGKey(0), 3)
        logits = jax.random.normal(keys[0], (rows, vocab), jnp.float32).astype(dtype)
        if loss == "reverse_kl":
            other = jax.random.normal(keys[1], (rows, vocab), jnp.float32).astype(dtype)

            def total(x, t):
                log_p = jax.nn.log_softmax(x.astype(jnp.float32))
                log_q = jax.nn.log_softmax(t.astype(jnp.float32))
                return jnp.sum(jnp.exp(log_p) * (log_p - log_q))
        else:
            other = jax.random.randint(keys[2], (rows,), 0, vocab)

            def total(x, y):
                log_p = jax.nn.log_softmax(x.astype(jnp.float32))
                return -jnp.sum(jnp.take_along_axis(log_p, y[:, None], axis=1))

        self.jax, self.function, self.arguments = jax, jax.jit(jax.value_and_grad(total)), (logits, other)
        self.time_calls(2)  # compiles

    def time_calls(self, repeat):
        times = []
        for _ in range(repeat):
            start = time.perf_counter()
            self.jax.block_until_ready(self.function(*self.arguments))
            times.append(1e3 * (time.perf_counter() - start))
        return times


def sweep(program, loss, rows, vocab, kind, repeat):
    """The medians, minimum and maximum that entropy_sweep reports for one case, in milliseconds."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "result.json")
        command = [program, "--loss", loss, "--rows", str(rows), "--vocab", str(vocab), "--type", kind]
        command += ["--path", "team", "--repeat", str(repeat), "--json", path, "--quiet"]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if done.returncode != 0:
            print(f"compare_jax: '{' '.join(command)}' ended with {done.returncode}: {done.stderr}", file=sys.stderr)
            sys.exit(2)
        with open(path, encoding="utf-8") as file:
            result = json.load(file)["results"][0]
    return result["ms"]


def main():
    chosen = options()
    wanted = {"fp32": chosen.wanted_fp32, "bf16": chosen.wanted_bf16}
    shapes = [tuple(int(n) for n in shape.split("x")) for shape in chosen.shapes.split(",")]
    if not os.access(chosen.program, os.X_OK):
        print(f"compare_jax: no program at {chosen.program}: build it (cmake --build --preset host) or name one with "
              "--program", file=sys.stderr)
        return 2
    jax, jnp = import_jax()
    print(f"jax {jax.__version__} on {os.cpu_count()} cores, loss and gradient, ms: median (min - max)")
    head = ("loss", "rows x vocab", "type", "JAX", "VocabLoss", "GB/s", "ratio")
    print("{:14} {:>14} {:>5} {:>26} {:>26} {:>6} {:>6} wanted".format(*head))
    below = 0
    for rows, vocab in shapes:
        for kind in ("fp32", "bf16"):
            for loss in LOSSES:
                case = JaxCase(jax, jnp, loss, rows, vocab, kind)
                theirs, ours = [], []
                for _ in range(chosen.rounds):
                    theirs += case.time_calls(chosen.repeat)
                    ours.append(sweep(chosen.program, loss, rows, vocab, kind, chosen.repeat))
                their_median = statistics.median(theirs)
                median = statistics.median(round_["median"] for round_ in ours)
                low, high = min(round_["min"] for round_ in ours), max(round_["max"] for round_ in ours)
                streams = 3 if loss == "reverse_kl" else 2
                rate = streams * rows * vocab * (4 if kind == "fp32" else 2) / median * 1e-6
                ratio = their_median / median
                below += ratio < wanted[kind]
                spread = f"{their_median:.2f} ({min(theirs):.2f} - {max(theirs):.2f})"
                our_spread = f"{median:.2f} ({low:.2f} - {high:.2f})"
                verdict = "  BELOW" if ratio < wanted[kind] else ""
                print(f"{loss:14} {rows:>5} x {vocab:>6} {kind:>5} {spread:>26} {our_spread:>26} "
                      f"{rate:6.1f} {ratio:6.1f} {wanted[kind]:.0f}{verdict}", flush=True)
    if below:
        print(f"{below} of {len(shapes) * 2 * len(LOSSES)} cases below the wanted ratio")
    return 1 if below else 0


if __name__ == "__main__":
    sys.exit(main())
