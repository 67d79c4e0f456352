#!/usr/bin/env python3
"""Times the same losses in PyTorch on this GPU and writes them in entropy_sweep's JSON form.

Forward and backward with respect to the logits, 16-bit logits, upstream gradient 1 a row. Three ways to write each loss:
  torch_eager     framework calls, as a user writes them
  torch_compile   the same under torch.compile's defaults
  torch_autotune  the formula written out in float32 under torch.compile(mode="max-autotune-no-cudagraphs"): its strongest form
A time is the median over events around one call each, after a warm-up; inputs are far larger than the L2 cache.
"""
import argparse
import datetime
import json
import statistics

import torch
import torch.nn.functional as F


def reverse_kl(x, t, y):
    return F.kl_div(t.log_softmax(-1), x.log_softmax(-1), log_target=True, reduction="none").sum()


def forward_kl(x, t, y):
    return F.kl_div(x.log_softmax(-1), t.log_softmax(-1), log_target=True, reduction="none").sum()


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


def in_float(formula):
    return lambda x, t, y: formula(x.float(), t.float(), y)


def forward_backward(formula):
    def call(x, t, y):
        x.grad = None
        formula(x, t, y).backward()
    return call


def measure(call, inputs, repeat):
    for _ in range(3):
        call(*inputs)
    torch.cuda.synchronize()
    held = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    times = []
    for _ in range(repeat):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        call(*inputs)
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
    return times, torch.cuda.max_memory_allocated() - held


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loss", default="reverse_kl,soft_cross_entropy,cross_entropy")
    parser.add_argument("--vocab", default="32768,65536,131072")
    parser.add_argument("--rows", type=int, default=4096)
    parser.add_argument("--variant", default="torch_compile,torch_autotune")
    parser.add_argument("--repeat", type=int, default=20)
    parser.add_argument("--json", required=True)
    options = parser.parse_args()
    variants = {
        "torch_eager": lambda f: f,
        "torch_compile": torch.compile,
        "torch_autotune": lambda f: torch.compile(in_float(f), mode="max-autotune-no-cudagraphs"),
    }
    results = []
    for vocab in map(int, options.vocab.split(",")):
        torch.manual_seed(0)
        x = torch.randn(options.rows, vocab, dtype=torch.bfloat16, device="cuda", requires_grad=True)
        t = torch.randn(options.rows, vocab, dtype=torch.bfloat16, device="cuda")
        y = torch.randint(0, vocab, (options.rows,), device="cuda")
        for loss in options.loss.split(","):
            for name in options.variant.split(","):
                torch._dynamo.reset()
                row = {"loss": loss, "path": name, "pass": "forward_backward", "rows": options.rows, "vocab": vocab,
                       "columns": vocab, "ranks": 1, "type": "bf16", "status": "ok"}
                row["bytes"] = (3 if loss in TWO_STREAMS else 2) * 2 * options.rows * vocab
                try:
                    times, peak = measure(forward_backward(variants[name](FORMULAS[loss])), (x, t, y), options.repeat)
                    median = statistics.median(times)
                    row["ms"] = {"median": median, "min": min(times), "max": max(times)}
                    row["gb_per_s"] = row["bytes"] / median / 1e6
                    row["peak_extra_bytes"] = peak
                except torch.OutOfMemoryError as error:
                    row["status"] = f"oom: {str(error)[:120]}"
                results.append(row)
                print(f"{loss} {vocab} {name}: {row.get('ms', row['status'])}", flush=True)
                x.grad = None
        del x, t, y
        torch.cuda.empty_cache()
    context = {"card": torch.cuda.get_device_name(), "date": datetime.datetime.now().isoformat(timespec="seconds"),
               "torch": torch.__version__, "driver": str(torch.version.cuda)}
    with open(options.json, "w") as file:
        json.dump({"context": context, "results": results}, file, indent=1)


if __name__ == "__main__":
    main()
