#!/usr/bin/env python3
"""Prints the README's table of GPU figures from result files in entropy_sweep's JSON form.

    python3 perf_tests/results_table.py perf_tests/results/h100-2026-11-28.json perf_tests/results/h100-2026-11-28-torch.json
"""
import json
import sys


def main():
    results, cards = [], set()
    for name in sys.argv[1:]:
        with open(name) as file:
            content = json.load(file)
        cards.add(f"{content['context']['card']}, {content['context']['date'][:10]}")
        results += content["results"]
    rows = [r for r in results if r["rows"] == 4096 and r["status"] == "ok" and r["pass"] == "forward_backward"]

    def best(loss, vocab, path):
        found = [r for r in rows if (r["loss"], r["vocab"], r["path"]) == (loss, vocab, path)]
        return min(found, key=lambda r: r["ms"]["median"]) if found else None

    def cell(result):
        if result is None:
            return "-"
        share = result.get("share_of_stream")
        return f"{result['ms']['median']:.3f}" + (f" ({share:.2f})" if share else "")

    print("; ".join(sorted(cards)) + ": 4096 rows, forward + backward, median ms (share of stream)\n")
    paths = ["cluster", "team", "naive", "torch_compile"]
    print("| loss | vocab | " + " | ".join(paths) + " | torch_compile / cluster |")
    print("|---|---|" + "---|" * (len(paths) + 1))
    for loss in dict.fromkeys(r["loss"] for r in rows):
        for vocab in sorted({r["vocab"] for r in rows if r["loss"] == loss}):
            found = [best(loss, vocab, path) for path in paths]
            ours, torch = found[0], found[3]
            ratio = f"{torch['ms']['median'] / ours['ms']['median']:.1f}x" if ours and torch else "-"
            print(f"| {loss} | {vocab} | " + " | ".join(map(cell, found)) + f" | {ratio} |")


if __name__ == "__main__":
    main()
