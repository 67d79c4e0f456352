#!/usr/bin/env python3
"""What exchange in_kernel costs beside the shard alone, as a formula fitted to result files, and what it says of other sizes.

    mpirun -n 4 build/cuda-h100-nccl/perf_tests/exchange_cost --json x4.json 32768 65536 131072
    python3 perf_tests/exchange_model.py x2.json x4.json [--ranks 8] [--vocab 131072,262144] [--rows 4096,8192] [--multiprocessors 132]

Without files: the exchange_cost files of perf_tests/results. Other result files serve too: there the results of exchange in_kernel are
set beside those of one rank alone with the same loss, rows, columns and commit. For every loss

    t = alone(columns, rows) + unit * (a + b * (ranks - 1))

is fitted by least squares of the relative error, with three units: the launch (1); the wave (rows that a cluster works through one after
the other: rows * width / (multiprocessors * blocks)); the share (the time alone). `alone` between measured columns is a straight line, and
grows as the rows do. With files of one number of ranks only, a and b cannot be told apart: then b is taken as 0 and a as 0 in turn, and
a prediction is the range between the two.
"""
import argparse
import json
import math
import pathlib
import re
import sys

UNITS = ("launch", "wave", "share")
MOST_RANKS, MOST_STATES = 8, 32  # impl/cuda/peer_exchange.cuh: max_peer_ranks, max_peer_states


def shape_of(plan):
    """Blocks a row is cut over, and blocks that share a multiprocessor."""
    found = [re.search(name + r"=(\d+)", plan) for name in ("width", "blocks")]
    if None in found:
        sys.exit(f"exchange_model.py: the plan '{plan}' tells no width and blocks: only path cluster's can be read")
    return tuple(int(one.group(1)) for one in found)


def read(names):
    """Points with loss, rows, columns, ranks, shape, t and alone (ms), in the order of the files."""
    points = []
    for name in names:
        try:
            content = json.loads(pathlib.Path(name).read_text())
            results = content["results"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            sys.exit(f"exchange_model.py: '{name}' is no result file: {error!r}")

        def place(result):
            context = result.get("context", content.get("context", {}))
            return result["loss"], result["rows"], result["columns"], result["type"], context.get("git")

        times = [result for result in results if (result.get("ms") or {}).get("median") is not None and result.get("status", "ok") == "ok"]
        alone = {place(result): result["ms"]["median"] for result in times if result["ranks"] == 1}
        for result in times:
            if result.get("exchange") != "in_kernel":
                continue
            ms_alone = result["ms_alone"]["median"] if "ms_alone" in result else alone.get(place(result))
            if ms_alone is None:
                print(f"left out: {name}: {result['loss']} {result['vocab']} over {result['ranks']}: no time of the shard alone")
                continue
            points.append({"loss": result["loss"], "rows": result["rows"], "columns": result["columns"], "ranks": result["ranks"],
                           "shape": shape_of(result["plan"]), "t": result["ms"]["median"], "alone": ms_alone,
                           "git": place(result)[-1]})
    return points


def unit_of(unit, rows, shape, alone, multiprocessors):
    width, blocks = shape
    return {"launch": 1.0, "wave": rows * width / (multiprocessors * blocks), "share": alone}[unit]


def fit(points, unit, multiprocessors):
    """Candidates for (a, b): one where the numbers of ranks differ, else the two extremes."""
    rows = []  # u * a + u * (ranks - 1) * b = t - alone, each divided by t
    for p in points:
        u = unit_of(unit, p["rows"], p["shape"], p["alone"], multiprocessors) / p["t"]
        rows.append((u, u * (p["ranks"] - 1), (p["t"] - p["alone"]) / p["t"]))

    def dot(i, j):
        return sum(row[i] * row[j] for row in rows)

    determinant = dot(0, 0) * dot(1, 1) - dot(0, 1) ** 2
    if len({p["ranks"] for p in points}) > 1 and determinant > 1e-12 * dot(0, 0) * dot(1, 1):
        a = (dot(0, 2) * dot(1, 1) - dot(1, 2) * dot(0, 1)) / determinant
        b = (dot(1, 2) * dot(0, 0) - dot(0, 2) * dot(0, 1)) / determinant
        return [(a, b)]
    return [(dot(0, 2) / dot(0, 0), 0.0), (0.0, dot(1, 2) / dot(1, 1))]


def model(p, unit, coefficients, multiprocessors):
    a, b = coefficients
    return p["alone"] + unit_of(unit, p["rows"], p["shape"], p["alone"], multiprocessors) * (a + b * (p["ranks"] - 1))


def error_of(points, unit, coefficients, multiprocessors):
    return math.sqrt(sum((model(p, unit, coefficients, multiprocessors) / p["t"] - 1) ** 2 for p in points) / len(points))


def alone_at(points, columns, rows):
    """On the line between the nearest measured columns; times a row."""
    measured = {}
    for p in points:
        measured.setdefault(p["columns"], []).append(p["alone"] / p["rows"])
    known = sorted((c, sum(times) / len(times)) for c, times in measured.items())
    if len(known) == 1:
        return known[0][1] * columns / known[0][0] * rows
    k = max(i for i in range(len(known) - 1) if i == 0 or known[i][0] <= columns)
    (c0, t0), (c1, t1) = known[k], known[k + 1]
    return (t0 + (t1 - t0) * (columns - c0) / (c1 - c0)) * rows


def predictions(points, fits, options):
    for ranks in options.ranks:
        for vocab in options.vocab:
            for rows in options.rows:
                columns = -(-vocab // ranks)
                nearest = min(points, key=lambda p: abs(math.log(p["columns"] / columns)))
                alone = alone_at(points, columns, rows)
                p = {"rows": rows, "columns": columns, "ranks": ranks, "shape": nearest["shape"], "alone": alone}
                refused = ranks > MOST_RANKS or ranks * nearest["shape"][0] > MOST_STATES
                cells = []
                for unit in UNITS:
                    times = sorted(model(p, unit, coefficients, options.multiprocessors) for coefficients in fits[unit])
                    cells.append("refused" if refused else " - ".join(f"{t:.4f}" for t in dict.fromkeys(times)))
                yield [nearest["loss"], vocab, ranks, columns, rows, f"{alone:.4f}"] + cells


def table(title, head, lines):
    print(f"\n{title}\n\n| " + " | ".join(head) + " |\n" + "|---" * len(head) + "|")
    for one in lines:
        print("| " + " | ".join(str(cell) for cell in one) + " |")


def numbers(text):
    return [int(part) for part in text.split(",")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*")
    parser.add_argument("--ranks", type=numbers, default=[8])
    parser.add_argument("--vocab", type=numbers, default=[131072, 262144])
    parser.add_argument("--rows", type=numbers, default=[4096, 8192])
    parser.add_argument("--multiprocessors", type=int, default=132)
    options = parser.parse_args()
    names = options.files or sorted((pathlib.Path(__file__).parent / "results").glob("*exchange_cost*.json"))
    points = read(names)
    if not points:
        sys.exit("exchange_model.py: no result of exchange in_kernel in " + (", ".join(map(str, names)) or "perf_tests/results"))
    losses = list(dict.fromkeys(p["loss"] for p in points))
    fitted, measured, predicted, negative = [], [], [], []
    for loss in losses:
        of_loss = [p for p in points if p["loss"] == loss]
        fits = {unit: fit(of_loss, unit, options.multiprocessors) for unit in UNITS}
        for unit in UNITS:
            for a, b in fits[unit]:
                error = error_of(of_loss, unit, (a, b), options.multiprocessors)
                if b < 0:
                    negative.append(f"{loss} by {unit}")
                scale, name = (1, "") if unit == "share" else (1e3, " us")
                fitted.append([loss, unit, f"{a * scale:.3f}{name}", f"{b * scale:.3f}{name}", f"{100 * error:.1f} %"])
        for p in sorted(of_loss, key=lambda p: (p["ranks"], p["columns"], p["rows"])):
            cells = [f"{model(p, unit, fits[unit][0], options.multiprocessors):.4f}" for unit in UNITS]
            measured.append([loss, p["columns"] * p["ranks"], p["ranks"], p["columns"], p["rows"], f"{p['alone']:.4f}", f"{p['t']:.4f}"]
                            + cells)
        predicted += predictions(of_loss, fits, options)
    counts = sorted({p["ranks"] for p in points})
    print(f"{len(points)} results over {', '.join(map(str, counts))} ranks"
          + ("" if len(counts) > 1 else ": one number of ranks, so a and b are shown as if the other were 0, and predictions as a range"))
    commits = sorted({str(p["git"]) for p in points})
    if len(commits) > 1:
        print(f"The files are of {len(commits)} commits ({', '.join(commits)}): one formula fits them only if the kernels were the same.")
    if negative:
        print(f"Less with more ranks ({', '.join(negative)}): these results are not of one kernel, or only noise lies between them. "
              "Do not predict from them.")
    table("Fits: t = alone + unit * (a + b * (ranks - 1))", ["loss", "unit", "a", "b", "rms error"], fitted)
    place = ["loss", "vocab", "ranks", "columns", "rows", "alone ms"]
    table("Measured against model (ms)", place + ["measured"] + list(UNITS), measured)
    table("Predicted (ms), not measured", place + list(UNITS), predicted)


if __name__ == "__main__":
    main()
