#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# SPDX-FileCopyrightText: VocabLoss contributors
"""Times the same losses in PyTorch and Triton on this GPU and writes them in entropy_sweep's JSON form.

Forward and backward with respect to the logits, 16-bit logits, upstream gradient 1 a row. Variants:
  torch_eager      framework calls, as a user writes them
  torch_compile    the same under torch.compile's defaults
  torch_autotune   the formula in float32 under torch.compile(mode="max-autotune-no-cudagraphs"): its strongest form
  fast_llm         Fast-LLM's Triton kernels; needs --fast-llm DIR, a folder that holds its package fast_llm
  fast_llm_cap32k  the same with blocks of up to 32768 columns, as before they were capped
  liger            Liger's cross-entropy, in place, and its JSD of log-probabilities; needs the package liger-kernel
A variant with "_graph" behind its name is captured into a CUDA graph, so that launches cost nothing.

A time is the median over events around one call each, after a warm-up; before each the L2 cache is overwritten.
"""
import argparse
import datetime
import json
import statistics
import sys

import torch
import torch.nn.functional as F


def reverse_kl(x, t, y):
    return F.kl_div(t.log_softmax(-1), x.softmax(-1), reduction="sum")


def forward_kl(x, t, y):
    return F.kl_div(x.log_softmax(-1), t.softmax(-1), reduction="sum")


def soft_cross_entropy(x, t, y):
    return F.cross_entropy(x, t.softmax(-1), reduction="sum")


def cross_entropy(x, t, y):
    return F.cross_entropy(x, y, reduction="sum")


def z_loss(x, t, y):
    return (torch.logsumexp(x.float(), -1) ** 2).sum()


def jsd(x, t, y):
    p, q = x.log_softmax(-1), t.log_softmax(-1)
    m = torch.logaddexp(p, q) - 0.6931471805599453
    return 0.5 * ((q.exp() * (q - m)).sum() + (p.exp() * (p - m)).sum())


def log_prob_entropy(x, t, y):
    p = x.log_softmax(-1)
    return p.gather(-1, y[:, None]).sum() - (p.exp() * p).sum()


FORMULAS = {f.__name__: f for f in
            (reverse_kl, forward_kl, soft_cross_entropy, cross_entropy, z_loss, jsd, log_prob_entropy)}
TWO_STREAMS = {"reverse_kl", "forward_kl", "soft_cross_entropy", "jsd"}


def reverse_kl_in_float(x, t, y):
    p, q = x.float().log_softmax(-1), t.float().log_softmax(-1)
    return (p.exp() * (p - q)).sum()


def with_autograd(formula):
    def call(x, t, y):
        x.grad = None
        formula(x, t, y).backward()
    return call


def autotuned(loss):
    formula = reverse_kl_in_float if loss == "reverse_kl" else lambda x, t, y: FORMULAS[loss](x.float(), t.float(), y)
    return with_autograd(torch.compile(formula, mode="max-autotune-no-cudagraphs"))


def fast_llm(loss, **options):
    from fast_llm.functional.config import EntropyLossType, TargetFormat
    from fast_llm.functional.triton.entropy_loss import triton_entropy_loss_forward_backward as kernel
    from fast_llm.functional.triton.z_loss import triton_z_loss_forward_backward as z_kernel
    same = {"loss_mask": None, "grad_output": 1.0, **options}
    if loss == "z_loss":
        return lambda x, t, y: z_kernel(x.detach(), **same)
    if loss == "cross_entropy":
        return lambda x, t, y: kernel(x.detach(), y, **same)
    types = {"reverse_kl": EntropyLossType.reverse_kl, "forward_kl": EntropyLossType.forward_kl,
             "soft_cross_entropy": EntropyLossType.cross_entropy}
    return lambda x, t, y: kernel(x.detach(), t, target_format=TargetFormat.logits, entropy_loss_type=types[loss],
                                  **same)


def liger(loss):
    from liger_kernel.transformers.functional import liger_cross_entropy, liger_jsd
    if loss == "jsd":  # a mean over the rows
        return with_autograd(lambda x, t, y: liger_jsd(x.log_softmax(-1), t.log_softmax(-1)) * x.shape[0])
    if loss != "cross_entropy":
        raise KeyError(loss)

    def call(x, t, y):
        x.grad = None
        liger_cross_entropy(x.detach().requires_grad_(), y).backward()  # in place: what x holds is no matter here
    return call


VARIANTS = {
    "torch_eager": lambda loss: with_autograd(FORMULAS[loss]),
    "torch_compile": lambda loss: with_autograd(torch.compile(FORMULAS[loss])),
    "torch_autotune": autotuned,
    "fast_llm": fast_llm,
    "fast_llm_cap32k": lambda loss: fast_llm(loss, block_size=32768),
    "liger": liger,
}


def captured(call, inputs):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            call(*inputs)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call(*inputs)
    return lambda *_: graph.replay()


def measure(call, inputs, repeat, flush):
    for _ in range(3):
        call(*inputs)
    torch.cuda.synchronize()
    held = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    times = []
    for _ in range(repeat):
        flush.zero_()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        call(*inputs)
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
    return times, torch.cuda.max_memory_allocated() - held


def run(options, loss, variant, inputs, flush):
    x = inputs[0]
    rows, vocab = x.shape
    row = {"loss": loss, "path": variant, "exchange": None, "comm": "self", "pass": "forward_backward", "rows": rows,
           "vocab": vocab, "columns": vocab, "ranks": 1, "type": "bf16", "status": "ok"}
    row["bytes"] = (3 if loss in TWO_STREAMS else 2) * 2 * rows * vocab
    torch._dynamo.reset()
    try:
        call = VARIANTS[variant.removesuffix("_graph")](loss)
        if variant.endswith("_graph"):
            call = captured(call, inputs)
        times, peak = measure(call, inputs, options.repeat, flush)
        median = statistics.median(times)
        row["ms"] = {"median": median, "min": min(times), "max": max(times)}
        row["gb_per_s"] = row["bytes"] / median / 1e6
        row["peak_extra_bytes"] = peak
    except torch.OutOfMemoryError as error:
        row["status"] = f"oom: {str(error)[:120]}"
    except KeyError:
        return None  # this variant knows no such loss
    except Exception as error:  # a peer that fails is a row of the record, not the end of it
        row["status"] = f"failed: {type(error).__name__}: {str(error)[:160]}"
    x.grad = None
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loss", default="reverse_kl,soft_cross_entropy,cross_entropy")
    parser.add_argument("--vocab", default="32768,65536,131072")
    parser.add_argument("--rows", default="4096", help="one number or more")
    parser.add_argument("--variant", default="torch_compile")
    parser.add_argument("--repeat", type=int, default=20)
    parser.add_argument("--fast-llm", metavar="DIR", help="a folder that holds the package fast_llm")
    parser.add_argument("--json", required=True)
    options = parser.parse_args()
    if options.fast_llm:
        sys.path.insert(0, options.fast_llm)
    flush = torch.empty(256 << 20, dtype=torch.int8, device="cuda")
    results = []
    for vocab in map(int, options.vocab.split(",")):
        for rows in map(int, options.rows.split(",")):
            torch.manual_seed(0)
            x = torch.randn(rows, vocab, dtype=torch.bfloat16, device="cuda", requires_grad=True)
            t = torch.randn(rows, vocab, dtype=torch.bfloat16, device="cuda")
            y = torch.randint(0, vocab, (rows,), device="cuda")
            for loss in options.loss.split(","):
                for variant in options.variant.split(","):
                    result = run(options, loss, variant, (x, t, y), flush)
                    if result is None:
                        continue
                    results.append(result)
                    print(f"{loss} {rows} x {vocab} {variant}: {result.get('ms', result['status'])}", flush=True)
            del x, t, y
            torch.cuda.empty_cache()
    context = {"card": torch.cuda.get_device_name(), "date": datetime.datetime.now().isoformat(timespec="seconds"),
               "torch": torch.__version__, "driver": str(torch.version.cuda)}
    with open(options.json, "w") as file:
        json.dump({"context": context, "results": results}, file, indent=1)


if __name__ == "__main__":
    main()
