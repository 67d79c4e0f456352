#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# SPDX-FileCopyrightText: VocabLoss contributors
"""Prints the README's tables of figures on one GPU from result files in entropy_sweep's JSON form.

    python3 perf_tests/results_table.py perf_tests/results/h100-*.json
"""
import json
import sys

PEERS = ["torch_compile", "torch_autotune", "fast_llm", "fast_llm_cap32k", "liger"]


class Results:
    def __init__(self, names):
        self.rows, self.cards = [], set()
        for name in names:
            with open(name) as file:
                content = json.load(file)
            self.cards.add(f"{content['context']['card']}, {content['context']['date'][:10]}")
            self.rows += [{**r, "input": r.get("input")} for r in content["results"]
                          if r.get("input") in (None, "synthetic:peaked") and r["ranks"] == 1]

    def best(self, **wanted):
        """The fastest result with these values; None if there is none that is ok."""
        wanted = {"pass": "forward_backward", "type": "bf16", "rows": 4096, "in_place": False, "input": None, **wanted}
        found = [r for r in self.rows if r["status"] == "ok" and all(r.get(k, v) == v for k, v in wanted.items())]
        return min(found, key=lambda r: r["ms"]["median"], default=None)

    def values(self, key, **wanted):
        return sorted({r[key] for r in self.rows if all(r.get(k) == v for k, v in wanted.items())})


def time_of(result, digits=3):
    return "-" if result is None else f"{result['ms']['median']:.{digits}f}"


def cell(result):
    if result is None:
        return "-"
    share = result.get("share_of_stream")
    return time_of(result) + (f" ({share:.2f})" if share else "")


def ratio(peer, ours):
    return f"{peer['ms']['median'] / ours['ms']['median']:.1f}x" if peer and ours else "-"


def table(title, head, lines):
    lines = [line for line in lines if any(value != "-" for value in line[2:])]
    if not lines:
        return
    print(f"\n{title}\n\n| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for line in lines:
        print("| " + " | ".join(line) + " |")


def main():
    results = Results(sys.argv[1:])
    losses = list(dict.fromkeys(r["loss"] for r in results.rows))
    print("; ".join(sorted(results.cards)))

    vocabs = results.values("vocab", path="cluster", rows=4096)
    table("Path cluster, share of a streaming kernel by vocabulary", ["loss", "", *map(str, vocabs)],
          [[loss, "", *(f"{r['share_of_stream']:.2f}" if (r := results.best(loss=loss, vocab=v, path="cluster")) else "-"
                        for v in vocabs)] for loss in losses])
    table("The same of peaked rows, like a language model's", ["loss", "", *map(str, vocabs)],
          [[loss, "", *(f"{r['share_of_stream']:.2f}"
                        if (r := results.best(loss=loss, vocab=v, path="cluster", input="synthetic:peaked")) else "-"
                        for v in vocabs)] for loss in losses])
    lines = []
    for loss in losses:
        for vocab in vocabs:
            ours = results.best(loss=loss, vocab=vocab, path="cluster")
            peers = [results.best(loss=loss, vocab=vocab, path=p) for p in PEERS]
            if any(peers):
                lines.append([loss, str(vocab), cell(ours), cell(results.best(loss=loss, vocab=vocab, path="team")),
                              cell(results.best(loss=loss, vocab=vocab, path="naive")),
                              *(f"{time_of(p)} ({ratio(p, ours)})" if p else "-" for p in peers)])
    table("Median ms (share of the streaming kernel); of peers in brackets: their time over that of path cluster",
          ["loss", "vocab", "cluster", "team, best cap", "naive", *PEERS], lines)

    caps = [c for c in results.values("block_cap", path="team", rows=4096) if c]
    table("Path team by block cap, ms", ["loss", "vocab", *map(str, caps)],
          [[loss, str(v), *(time_of(results.best(loss=loss, vocab=v, path="team", block_cap=c)) for c in caps)]
           for loss in losses for v in vocabs])
    few = [r for r in (1, 8, 64, 131)]
    lines = []
    for loss in losses:
        for vocab in results.values("vocab"):
            for rows in few:
                found = [results.best(loss=loss, vocab=vocab, rows=rows, path=p)
                         for p in ("auto", "cluster", "split", "team", "torch_compile", "torch_compile_graph")]
                lines.append([f"{loss} {rows} rows", str(vocab),
                              *("-" if r is None else f"{1000 * r['ms']['median']:.1f}" for r in found)])
    table("Few rows, microseconds", ["", "vocab", "auto", "cluster", "split", "team", "torch_compile",
                                     "torch_compile in a graph"], lines)
    kinds = [("forward only", {"pass": "forward"}), ("fp16", {"type": "fp16"}), ("fp32", {"type": "fp32"}),
             ("in place", {"in_place": True})]
    table("Path cluster otherwise, ms (share)", ["loss", "vocab", *(name for name, _ in kinds)],
          [[loss, str(v), *(cell(results.best(loss=loss, vocab=v, path="cluster", **k)) for _, k in kinds)]
           for loss in losses for v in vocabs])


if __name__ == "__main__":
    main()
