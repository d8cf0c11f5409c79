#!/usr/bin/env python3
"""Times norms, softmaxes and cross-entropy of PyTorch (2.9 or later), and of Liger and QuACK where they are
installed, on an NVIDIA GPU, and writes them as `cargo bench --bench ops` writes this crate's.

    python3 benches/peers/peers.py --out benches/results/h200-peers.json
"""

import argparse
import datetime
import importlib.metadata
import json
import subprocess
import sys

import torch

import timing
from torch_peers import Compiled, Eager

LARGE = [
    (65536, 256),
    (32768, 1024),
    (16384, 2048),
    (8192, 4096),
    (4096, 8192),
    (2048, 16384),
    (1024, 65536),
    (32768, 768),
    (4096, 5120),
    (8192, 4095),
]
SMALL = [(512, 768), (1024, 1024), (128, 4096)]
DIM1 = [(64 * 3136, 512)]
VOCABULARIES = [(4096, 32_000), (4096, 128_000), (1024, 256_000)]
# As `benches/ops/op.rs` says what they are.
OPS = ["rms", "ln", "add_rms", "add_ln", "softmax", "log_softmax", "attention", "ce", "softmax_dim1"]
DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}


class Case:
    """A shape and an element type."""

    def __init__(self, op, dtype, rows, columns):
        self.op, self.dtype, self.rows, self.columns = op, dtype, rows, columns
        self.dims = {
            "softmax_dim1": (rows // 3136, columns, 56, 56),
            "attention": (max(rows // columns, 1), min(rows, columns), columns),
        }.get(op, (rows, columns))

    def random(self, *dims):
        return torch.randn(*dims, device="cuda", dtype=self.dtype)

    def parameter(self):
        return self.random(self.columns)

    def targets(self):
        return torch.randint(self.columns, (self.rows,), device="cuda")

    def gradient(self):
        """Cross-entropy has a loss a row, in f32."""
        if self.op == "ce":
            return torch.randn(self.rows, device="cuda")
        return self.random(*self.dims)

    def inputs(self):
        """Pairs of `x` and `dy`, which exceed the cache many times over, where eight can."""
        size = self.rows * self.columns * self.dtype.itemsize
        count = min(max(400_000_000 // size + 1, 2), 8)
        return [(self.random(*self.dims), self.gradient()) for _ in range(count)]


def peers(chosen):
    """The peers that are installed, by name."""
    found = {"torch": Eager, "compile": Compiled}
    for name, module, kind in [("liger", "liger_peer", "Liger"), ("quack", "quack_peer", "Quack")]:
        try:
            found[name] = getattr(__import__(module), kind)
        except Exception as error:  # an import can fail in many ways; say which
            print(f"{name} is left out: {error!r}", file=sys.stderr)
    return {name: kind for name, kind in found.items() if not chosen or name in chosen}


def passes(peer, case):
    """Microseconds of the forward and of the backward pass, none where the peer refuses."""
    forward, backward = (getattr(peer, f"{case.op}_{name}") for name in ("fwd", "bwd"))
    sets = case.inputs()
    yield "fwd", attempt(lambda: timing.device_time(forward, sets))
    if getattr(peer, "tracks", False):
        sets = [(x.requires_grad_(), dy) for x, dy in sets]
    kept = attempt(lambda: [(x, dy, forward(x, dy)) for x, dy in sets])
    yield "bwd", kept and attempt(lambda: timing.device_time(backward, kept))


def attempt(measure):
    try:
        return measure()
    except Exception as error:  # a refused shape is a result too
        print(f"  refused: {type(error).__name__}: {str(error)[:150]!r}", file=sys.stderr)
        torch.cuda.synchronize()
        return None


def shape(text):
    rows, columns = text.split("x")
    return int(rows), int(columns)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--op", choices=OPS, action="append")
    parser.add_argument("--dtype", choices=DTYPES, action="append")
    parser.add_argument("--shape", type=shape, action="append", metavar="MxN")
    parser.add_argument("--peer", choices=["torch", "compile", "liger", "quack"], action="append")
    parser.add_argument("--out", default="peers.json")
    return parser.parse_args()


def about():
    versions = {}
    for package in ["torch", "triton", "liger-kernel", "quack-kernels"]:
        try:
            versions[package.replace("-", "_")] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            pass
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    driver = subprocess.run(query, capture_output=True, text=True).stdout.split("\n")[0]
    return {"device": torch.cuda.get_device_name(), "driver": driver, **versions}


def main():
    args = arguments()
    if not torch.cuda.is_available():
        print("skipped: no CUDA device")
        return
    with torch.cuda.stream(torch.cuda.Stream()):
        measure(args)


def measure(args):
    copy = timing.copy_bandwidth()
    print(f"{torch.cuda.get_device_name()}: copy {copy:.0f} GB/s")
    rows = []
    installed = peers(args.peer)
    for op in args.op or OPS:
        shapes = args.shape or {"softmax_dim1": DIM1, "ce": VOCABULARIES}.get(op, LARGE + SMALL)
        for dtype in args.dtype or ["bf16", "f32"]:
            for count, columns in shapes:
                case = Case(op, DTYPES[dtype], count, columns)
                for name, kind in installed.items():
                    if not hasattr(kind, f"{op}_fwd") and name != "compile":
                        continue
                    peer = attempt(lambda: kind(case))
                    for direction, time in passes(peer, case) if peer else []:
                        row = dict(op=f"{op}_{direction}", peer=name, dtype=dtype, rows=count)
                        row |= dict(cols=columns, us=time and round(time, 2))
                        rows.append(row)
                        shown = f"{time:9.2f} µs" if time else "  refused"
                        print(f"{row['op']:16} {name:8} {dtype:5} {count:>6}x{columns:<6} {shown}")
                    torch.cuda.empty_cache()
    results = about() | {
        "date": str(datetime.date.today()),
        "copy_gbps": round(copy),
        "method": "device time: median of nine replays of a graph of as many calls as take 5 ms; "
        "inputs rotate over sets larger than the cache. copy: bytes read and written",
        "rows": [],
    }
    text = json.dumps(results, indent=2, ensure_ascii=False)
    lines = ",\n    ".join(json.dumps(row) for row in rows)
    with open(args.out, "w") as file:
        file.write(text.replace('"rows": []', f'"rows": [\n    {lines}\n  ]') + "\n")
    print(f"wrote {args.out}")


if __name__ == "__main__":
    main()
