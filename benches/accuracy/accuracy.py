#!/usr/bin/env python3
"""Errors of burn-fused and of PyTorch's kernels on the same inputs, against float64.

  accuracy.py prepare DIR [--small]   writes the inputs, and the cases to DIR/manifest.txt
  accuracy.py compare DIR             runs PyTorch on them, and prints the errors as Markdown;
                                      burn-fused's outputs must be there (cargo bench --bench accuracy)

Files are raw little-endian elements. docs/accuracy.md says how errors are measured. Needs PyTorch;
Liger Kernel's ops are compared too where they can be imported.
"""

import argparse
import zlib
from pathlib import Path

import torch

from kernels import by_liger, by_torch, versions
from reference import NORMS, reference, units

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
SHAPES = [(4096, 4096), (8192, 1000), (32768, 256), (512, 16384), (64, 65536)]
EPSILON = 1e-5
# Larger by less than this is a tie.
TOLERANCE = 0.02

# x and dy of standard normal values, both rounded to the element type afterwards.
INPUTS = {
    "normal": (lambda x: x, lambda dy: dy),
    "mean100": (lambda x: 100 + x, lambda dy: dy),
    # f32's values are 0.001 apart there.
    "mean10000": (lambda x: 10_000 + 0.01 * x, lambda dy: dy),
    "logits": (lambda x: 10 * x, lambda dy: dy),
    # Terms of one sign in the sums of the parameters' gradients.
    "coherent": (torch.abs, torch.abs),
}
SOFTMAXES = ("softmax", "log_softmax")
SUITE = [
    ("normal", NORMS + SOFTMAXES, DTYPES, SHAPES),
    ("coherent", NORMS, DTYPES, [(32768, 256)]),
    ("mean100", ("layer_norm",), DTYPES, [(4096, 4096)]),
    ("mean10000", ("layer_norm",), ("f32",), [(4096, 4096)]),
    ("logits", SOFTMAXES, DTYPES, [(8192, 1000)]),
]


def read(path, dtype, shape, device):
    count = torch.Size(shape).numel()
    return torch.from_file(str(path), size=count, dtype=dtype).reshape(shape).to(device)


def write(path, tensor):
    # What is mapped beyond an old file's end would not be written.
    path.unlink(missing_ok=True)
    mapped = torch.from_file(str(path), shared=True, size=tensor.numel(), dtype=tensor.dtype)
    mapped.copy_(tensor.flatten())


def prepare(directory, small):
    directory.mkdir(parents=True, exist_ok=True)
    lines = []
    for inputs, ops, dtypes, shapes in SUITE:
        for rows, columns in shapes:
            rows = max(rows // 64, 2) if small else rows
            for dtype in dtypes:
                stem = f"{inputs}-{dtype}-{rows}x{columns}"
                lines += [f"{op} {dtype} {rows} {columns} {EPSILON} {stem}" for op in ops]
                write_inputs(directory, stem, inputs, DTYPES[dtype], rows, columns)
    (directory / "manifest.txt").write_text("\n".join(lines) + "\n")
    print(f"{len(lines)} cases")


def write_inputs(directory, stem, inputs, dtype, rows, columns):
    generator = torch.Generator().manual_seed(zlib.crc32(stem.encode()))
    normal = lambda *shape: torch.randn(shape, dtype=torch.float64, generator=generator)
    x, dy = INPUTS[inputs]
    tensors = {
        "x": x(normal(rows, columns)),
        "dy": dy(normal(rows, columns)),
        "gamma": 1 + 0.5 * normal(columns),
        "beta": 0.5 * normal(columns),
    }
    for name, tensor in tensors.items():
        write(directory / f"{stem}.{name}", tensor.to(dtype))


def compare(directory):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    outputs = directory / "burn_fused"
    cases = [line.split() for line in (directory / "manifest.txt").read_text().splitlines()]
    print(f"burn-fused on {(outputs / 'device.txt').read_text().strip()}; {versions(device)}.\n")
    rows = []
    for op, dtype, m, n, epsilon, stem in cases:
        shape, epsilon = (int(m), int(n)), float(epsilon)
        load = lambda path, shape: read(path, DTYPES[dtype], shape, device)
        x, dy = (load(directory / f"{stem}.{name}", shape) for name in ("x", "dy"))
        gamma, beta = (load(directory / f"{stem}.{name}", shape[1:]) for name in ("gamma", "beta"))
        if not (outputs / f"{op}-{stem}.y").exists():
            continue
        exact = reference(op, x, gamma, beta, dy, epsilon)
        found = [
            {name: load(outputs / f"{op}-{stem}.{name}", exact[name][0].shape) for name in exact},
            by_torch(op, x, gamma, beta, dy, epsilon),
            by_liger(op, x, gamma, beta, dy, epsilon),
        ]
        for name, (value, scale) in exact.items():
            unit = units(scale, DTYPES[dtype])
            errors = [error(tensors and tensors[name], value, unit) for tensors in found]
            rows.append((op, dtype, f"{m}×{n}", stem.split("-")[0], name, errors))
    rows.sort(key=lambda row: list(DTYPES).index(row[1]))
    print(summary(rows))
    for op in NORMS + SOFTMAXES:
        print(table(op, [row for row in rows if row[0] == op]))


def error(found, exact, unit):
    """The largest error in units, and the root of their mean square."""
    if found is None:
        return None
    errors = (found.double() - exact).abs() / unit
    return errors.max().item(), errors.square().mean().sqrt().item()


def not_larger(errors, measure):
    ours, torch_ = errors[0][measure], errors[1][measure]
    return ours <= torch_ * (1 + TOLERANCE)


def summary(rows):
    lines = [
        "| op | type | largest error not larger | root mean square not larger |",
        "| --- | --- | ---: | ---: |",
    ]
    for op, dtype in dict.fromkeys(row[:2] for row in rows):
        errors = [row[-1] for row in rows if row[:2] == (op, dtype)]
        counts = [sum(not_larger(e, measure) for e in errors) for measure in (0, 1)]
        cells = " | ".join(f"{count} of {len(errors)}" for count in counts)
        lines.append(f"| {op} | {dtype} | {cells} |")
    return "\n".join(lines) + "\n"


def table(op, rows):
    lines = [
        f"### {op}\n",
        "| type | shape | inputs | of | largest: burn-fused | PyTorch | Liger "
        "| RMS: burn-fused | PyTorch | Liger | not larger |",
        "| --- | --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |",
    ]
    symbols = {"dgamma": "dγ", "dbeta": "dβ"}
    for _, dtype, shape, inputs, name, errors in rows:
        form = "{:.1e}" if dtype == "f32" else "{:.3f}"
        cell = lambda e, measure: "–" if e is None else form.format(e[measure])
        cells = [cell(e, measure) for measure in (0, 1) for e in errors]
        verdicts = [not_larger(errors, measure) for measure in (0, 1)]
        verdict = {(True, True): "yes", (False, True): "no: largest", (True, False): "no: RMS"}
        cells.append(verdict.get(tuple(verdicts), "no"))
        row = [dtype, shape, inputs, symbols.get(name, name), *cells]
        lines.append("| " + " | ".join(row) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for command in ("prepare", "compare"):
        commands.add_parser(command).add_argument("directory", type=Path)
    commands.choices["prepare"].add_argument(
        "--small", action="store_true", help="a 64th of the rows, for a try on a CPU"
    )
    arguments = parser.parse_args()
    if arguments.command == "prepare":
        prepare(arguments.directory, arguments.small)
    else:
        compare(arguments.directory)
