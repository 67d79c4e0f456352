#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# SPDX-FileCopyrightText: VocabLoss contributors
"""Draws GB/s over the vocabulary, ours by path, the streaming kernel and the peers, as an SVG. No package is needed.

    python3 perf_tests/results_plot.py perf_tests/results/h100.svg perf_tests/results/h100-*.json
"""
import json
import math
import sys
from xml.sax.saxutils import escape

LOSSES = ["reverse_kl", "soft_cross_entropy", "cross_entropy"]
# path: colour, dash
STYLES = {"stream": ("#888888", "5 3"), "cluster": ("#0b5fa5", ""), "team": ("#3a9d5d", ""),
          "torch_compile": ("#d1652b", ""), "torch_autotune": ("#d1652b", "3 2"), "fast_llm": ("#8a4fb0", ""),
          "liger": ("#b03a5b", "")}
WIDTH, HEIGHT, LEFT, TOP = 300, 220, 56, 44


def points_of(rows, loss, path):
    """{vocab: GB/s of the fastest}; the streaming kernel's from the share of it that path cluster reached."""
    found = {}
    for r in rows:
        if r["loss"] != loss or r["path"] != ("cluster" if path == "stream" else path):
            continue
        speed = r["gb_per_s"] / r["share_of_stream"] if path == "stream" else r["gb_per_s"]
        found[r["vocab"]] = max(speed, found.get(r["vocab"], 0))
    return sorted(found.items())


def main():
    target, names = sys.argv[1], sys.argv[2:]
    rows, cards = [], set()
    for name in names:
        with open(name) as file:
            content = json.load(file)
        cards.add(f"{content['context']['card']}, {content['context']['date'][:10]}")
        rows += [r for r in content["results"]
                 if r["status"] == "ok" and not r.get("input") and r["rows"] == 4096 and r["type"] == "bf16"
                 and r["pass"] == "forward_backward" and not r.get("in_place") and r["ranks"] == 1]
    lowest, highest = math.log2(8192), math.log2(262144)
    # GB/s, the next round number above all that is drawn.
    speeds = [s for loss in LOSSES for path in STYLES for _, s in points_of(rows, loss, path)]
    most = math.ceil(max(speeds, default=1) / 500) * 500

    def x_of(vocab):
        return (math.log2(vocab) - lowest) / (highest - lowest) * WIDTH

    def y_of(speed):
        return HEIGHT - speed / most * HEIGHT

    step = WIDTH + LEFT + 14
    whole = step * len(LOSSES)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{whole}" height="{HEIGHT + TOP + 62}" '
             'font-family="sans-serif" font-size="11">', '<rect width="100%" height="100%" fill="white"/>',
             f'<text x="8" y="16" font-size="12">{escape("; ".join(sorted(cards)))}: 4096 rows of bf16, forward + '
             'backward, GB/s over the vocabulary</text>']
    for k, loss in enumerate(LOSSES):
        parts.append(f'<g transform="translate({k * step + LEFT},{TOP})">')
        parts.append(f'<text x="{WIDTH / 2}" y="-8" text-anchor="middle">{loss}</text>')
        for speed in range(0, most + 1, 500):
            y = y_of(speed)
            parts.append(f'<path d="M0 {y:.1f}H{WIDTH}" stroke="#dddddd"/>')
            parts.append(f'<text x="-6" y="{y + 4:.1f}" text-anchor="end">{speed}</text>')
        for vocab in (8192, 32768, 65536, 131072, 262144):
            parts.append(f'<text x="{x_of(vocab):.1f}" y="{HEIGHT + 16}" text-anchor="middle">{vocab // 1024}K</text>')
        for path, (colour, dash) in STYLES.items():
            points = points_of(rows, loss, path)
            line = " ".join(f"{x_of(v):.1f},{y_of(s):.1f}" for v, s in points)
            dashes = f' stroke-dasharray="{dash}"' if dash else ""
            parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.8"{dashes}/>')
            parts += [f'<circle cx="{x_of(v):.1f}" cy="{y_of(s):.1f}" r="2.4" fill="{colour}"/>' for v, s in points]
        parts.append("</g>")
    for k, (path, (colour, dash)) in enumerate(STYLES.items()):
        x, y = LEFT + k * 130, HEIGHT + TOP + 44
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        parts.append(f'<path d="M{x} {y}h22" stroke="{colour}" stroke-width="2"{dashes}/>')
        parts.append(f'<text x="{x + 27}" y="{y + 4}">{path}</text>')
    parts.append("</svg>")
    with open(target, "w") as file:
        file.write("\n".join(parts) + "\n")


if __name__ == "__main__":
    main()
