"""Writes a checkpoint as the model bundle that the program reads.

    python export_segmenter.py --weights checkpoint.safetensors --threshold 0.85 --summary summary.json --name NAME --out BUNDLE

`summary.json` holds the `training` part of `model.json`: a description, the data with licences, and the scores.
The weights are stored with 16 bits, the statistics of the batch norms with 32.
"""

import argparse
import hashlib
import json
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from page_preparation import TILE
from segmentation_net import SegmentationNet

WEIGHTS = "weights.safetensors"
LAYOUT_THRESHOLD = 0.5


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", required=True)
    parser.add_argument("--threshold", type=float, required=True)
    parser.add_argument("--summary", required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--out", required=True)
    arguments = parser.parse_args()
    out = Path(arguments.out)
    out.mkdir(parents=True, exist_ok=True)
    is_norm = lambda key: ".bn" in key
    state = {k: v.float() if is_norm(k) else v.to(torch.float16) for k, v in load_file(arguments.weights).items()}
    save_file({k: v.contiguous() for k, v in state.items()}, out / WEIGHTS)
    architecture = {"name": "patch-segmenter", "channels": [24, 48, 96], "blocks": [2, 2, 4]}
    has_layout = "layout_head.weight" in state
    if has_layout:
        architecture["layout_blocks"] = SegmentationNet.LAYOUT_BLOCKS
    description = {
        "version": 1,
        "name": arguments.name,
        "kind": "segmentation",
        "architecture": architecture,
        "tile_size": TILE,
        "threshold": arguments.threshold,
        "classes": "layout" if has_layout else "line",
        **({"layout_threshold": LAYOUT_THRESHOLD} if has_layout else {}),
        "weights": {"file": WEIGHTS, "sha256": hashlib.sha256((out / WEIGHTS).read_bytes()).hexdigest()},
        "training": json.loads(Path(arguments.summary).read_text(encoding="utf8")),
    }
    text = json.dumps(description, ensure_ascii=False, indent=2)
    (out / "model.json").write_text(text + "\n", encoding="utf8")


if __name__ == "__main__":
    main()
