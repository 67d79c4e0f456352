#!/usr/bin/env python3
"""Prints the table of exchanges over ranks from what ranks_table.sh wrote.

    perf_tests/ranks_table.sh build/cuda-h100-nccl/apps/entropy_sweep/entropy_sweep 4 results 32768 65536 131072
    python3 perf_tests/ranks_table.py results

Files are VOCAB-RANKS-VARIANT.json; the variant `alone` is one rank's shard by itself, which the others are compared with.
"""
import json
import pathlib
import sys

VARIANTS = ["alone", "in_kernel", "allgather_cluster_graph", "allgather_cluster", "two_allreduce_cluster", "allgather_graph", "allgather",
            "two_allreduce", "gather", "naive"]


def read(folder):
    """Results by (loss, vocab, ranks, variant), and the contexts they come from."""
    results, contexts = {}, []
    for name in sorted(pathlib.Path(folder).glob("*-*-*.json")):
        vocab, ranks, variant = name.stem.split("-", 2)
        with open(name) as file:
            content = json.load(file)
        contexts.append(content["context"])
        for result in content["results"]:
            results[result["loss"], int(vocab), int(ranks), variant] = result
    return results, contexts


def heading(results, contexts):
    def all_of(field):
        return ", ".join(sorted({str(context.get(field)) for context in contexts}))

    rows = ", ".join(sorted({str(result["rows"]) for result in results.values()}))
    dates = ", ".join(sorted({context["date"][:10] for context in contexts}))
    return (f"{all_of('card')}, {dates}, git {all_of('git')}: {rows} rows, bf16, forward + backward, median ms of the slowest rank, "
            f"{all_of('back_to_back')} call(s) a sample")


def line(key, result, alone):
    loss, vocab, ranks, variant = key
    spread, ratio = "-", "-"
    word = result["status"].split(":")[0]
    time = word if result["ms"]["median"] is None else f"{result['ms']['median']:.4f}"
    if result["ms"]["median"] is not None:
        spread = f"{result['ms']['min']:.4f} - {result['ms']['max']:.4f}"
        if word != "ok":
            time += f" ({word})"
        if alone and alone["ms"]["median"]:
            ratio = f"{result['ms']['median'] / alone['ms']['median']:.2f}"
    peak = result["peak_extra_bytes"]
    size = "-" if peak is None else f"{peak / 1e6:.1f}"
    return f"| {loss} | {vocab} | {ranks} | {variant} | {time} | {spread} | {ratio} | {size} |"


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    results, contexts = read(sys.argv[1])
    if not results:
        sys.exit(f"ranks_table.py: no VOCAB-RANKS-VARIANT.json in '{sys.argv[1]}': run ranks_table.sh first")
    print(heading(results, contexts) + "\n")
    print("| loss | vocab | ranks | variant | ms | min - max | x shard alone | peak MB a rank |")
    print("|---|---|---|---|---|---|---|---|")
    places = list(dict.fromkeys((loss, vocab, ranks) for loss, vocab, ranks, _ in results))
    notes = []
    for place in sorted(places, key=lambda p: (p[2], p[1], p[0])):
        for variant in VARIANTS + sorted({key[3] for key in results} - set(VARIANTS)):
            key = (*place, variant)
            if key not in results:
                continue
            print(line(key, results[key], results.get((*place, "alone"))))
            if results[key]["status"] != "ok":
                notes.append(f"- {place[0]}, {place[1]} over {place[2]}, {variant}: {results[key]['status']}")
    if notes:
        print("\n" + "\n".join(notes))


if __name__ == "__main__":
    main()
