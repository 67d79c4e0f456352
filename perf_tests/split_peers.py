#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# SPDX-FileCopyrightText: VocabLoss contributors
"""Small batches under torch.compile, the peer of path `split`: reverse KL and cross-entropy, forward + backward, bf16.

Two times a shape, in microseconds: as users call it (events round one step, L2 overwritten before), and a step within a
CUDA graph of steps over rotated inputs, which is how unit_tests/gpu/split_check times ours.
usage: split_peers.py [rows ...]      default: 1 8 64
"""
import sys
import warnings

import torch
import torch.nn.functional as F

COLUMNS = 131072


def reverse_kl(x, t):
    log_p = F.log_softmax(x.float(), -1)
    log_q = F.log_softmax(t.float(), -1)
    return (log_p.exp() * (log_p - log_q)).sum(-1)


def cross_entropy(x, y):
    return F.cross_entropy(x.float(), y, reduction="none")


def timed(call, repeats, before=None):
    times = []
    for _ in range(repeats):
        if before is not None:
            before()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        call()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) * 1000)
    return sorted(times)[len(times) // 2]


def main():
    warnings.simplefilter("ignore")
    rows_list = [int(a) for a in sys.argv[1:]] or [1, 8, 64]
    flush = torch.empty(256 << 20, dtype=torch.int8, device="cuda")
    print(torch.cuda.get_device_name(), "torch", torch.__version__)
    for formula in (reverse_kl, cross_entropy):
        for rows in rows_list:
            streams = 2 if formula is reverse_kl else 1
            sets = max(2, min(64, (300 << 20) // (rows * COLUMNS * 2 * (streams + 1))))
            make = lambda: torch.randn(rows, COLUMNS, device="cuda", dtype=torch.bfloat16)
            xs = [make().requires_grad_() for _ in range(sets)]
            ts = [make() if streams == 2 else torch.randint(COLUMNS, (rows,), device="cuda") for _ in range(sets)]
            upstream = torch.ones(rows, device="cuda")
            compiled = torch.compile(formula, dynamic=False)

            def step(k=0):
                xs[k].grad = None
                torch.autograd.backward(compiled(xs[k], ts[k]), upstream)

            side = torch.cuda.Stream()
            with torch.cuda.stream(side):
                for k in range(sets):
                    step(k)
            torch.cuda.synchronize()
            called = timed(step, 25, flush.zero_)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=side):
                for k in range(sets):
                    step(k)
            graph.replay()
            replayed = timed(graph.replay, 9) / sets
            print(f"torch.compile {formula.__name__} {rows} x {COLUMNS}: {called:.1f} us as called, "
                  f"{replayed:.2f} us a step in a CUDA graph", flush=True)


if __name__ == "__main__":
    main()
