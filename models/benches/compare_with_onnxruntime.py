"""Compares the time of the networks with that of onnxruntime on the same networks, one thread each.

    pip install torch==2.9.1 onnx onnxruntime onnxscript safetensors
    cargo bench --workspace --bench on_command --no-run
    python compare_with_onnxruntime.py ON_COMMAND FOLDER [--rounds 7] [--only NAME ...]

ON_COMMAND is the program that the second command names. FOLDER keeps the networks: the shipped ones as ONNX, and networks of
BDRC's kinds and sizes with random weights. What this program computes int8-quantised (`-int8`), onnxruntime computes with
floats. Both sides take turns; the least processor time of each counts, so the ratio
holds on a machine that others use as well.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnxruntime
import torch
from safetensors.torch import load_file
from torch import nn

MODELS = Path(__file__).resolve().parent.parent
sys.path += [str(MODELS / "training"), str(MODELS / "tests/fixtures/bdrc")]

from networks import CRNN, DeepLabV3Plus, Easter2, randomise  # noqa: E402
from recognition_net import RecognitionNet  # noqa: E402
from segmentation_net import SegmentationNet  # noqa: E402

LINE, BDRC_LINE, TILE = (64, 1600), (100, 3200), 512
CHARSET = [chr(0x0F40 + symbol) for symbol in range(83)]


class Head(nn.Module):
    """One of the heads of the recogniser, as the program computes it."""

    def __init__(self, network, head):
        super().__init__()
        self.network, self.head = network, head

    def forward(self, lines):
        network = self.network
        sequence = network.body(network.proj(network.stem(lines).flatten(1, 2)))
        return self.head(sequence).transpose(1, 2)


class Probabilities(nn.Module):
    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, tiles):
        return torch.sigmoid(self.network(tiles))


def shipped_recogniser(head):
    state = {name: tensor.float() for name, tensor in load_file(MODELS / "weights/recogniser/model.safetensors").items()}
    description = json.loads((MODELS / "weights/recogniser/model.json").read_text())["architecture"]
    network = RecognitionNet(
        state["hcp.weight"].shape[0],
        state["hst.weight"].shape[0],
        description["height"],
        tuple(description["stem"]),
        description["channels"],
        description["blocks"],
    )
    network.load_state_dict(state, strict=False)
    return Head(network, getattr(network, head))


def shipped_segmenter():
    state = load_file(MODELS / "weights/line-segmenter/weights.safetensors")
    description = json.loads((MODELS / "weights/line-segmenter/model.json").read_text())["architecture"]
    network = SegmentationNet(tuple(description["channels"]), tuple(description["blocks"]))
    network.load_state_dict({name: tensor.float() for name, tensor in state.items()}, strict=False)
    return Probabilities(network)


def recogniser_description(architecture):
    return {
        "checkpoint": "",
        "onnx-model": "model.onnx",
        "architecture": architecture,
        "version": "1.0",
        "input_width": BDRC_LINE[1],
        "input_height": BDRC_LINE[0],
        "input_layer": "input",
        "output_layer": "output",
        "encoder": "stack",
        "charset": CHARSET,
        "squeeze_channel_dim": "yes" if architecture == "Easter2" else "no",
        "swap_hw": "no" if architecture == "Easter2" else "yes",
        "add_blank": "yes",
    }


def deeplab_description():
    return {"architecture": "DeepLabV3Plus", "patch_size": TILE, "onnx-model": "model.onnx", "classes": ["line"]}


NETWORKS = {
    "recogniser-codepoints": (lambda: shipped_recogniser("hcp"), (1, 1, *LINE), None),
    "recogniser-stacks": (lambda: shipped_recogniser("hst"), (1, 1, *LINE), None),
    "recogniser-stacks-int8": (lambda: shipped_recogniser("hst"), (1, 1, *LINE), None),
    "segmenter": (shipped_segmenter, (1, 1, TILE, TILE), None),
    "segmenter-int8": (shipped_segmenter, (1, 1, TILE, TILE), None),
    "easter2": (lambda: randomise(Easter2(), 1), (1, *BDRC_LINE), recogniser_description("Easter2")),
    "crnn": (lambda: randomise(CRNN(), 2), (1, 1, *BDRC_LINE), recogniser_description("CRNN")),
    "deeplab": (lambda: randomise(DeepLabV3Plus(), 3), (1, 3, TILE, TILE), deeplab_description()),
}


def exported(folder, name):
    """The network as ONNX, made if it is not there."""
    make, shape, description = NETWORKS[name]
    path = folder / name / "model.onnx"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        names = dict(input_names=["input"], output_names=["output"])
        torch.onnx.export(make().eval(), (torch.zeros(shape),), path, opset_version=17, dynamo=False, **names)
        if description:
            config = "config.json" if name == "deeplab" else "model_config.json"
            (path.parent / config).write_text(json.dumps(description))
    return path


class Onnxruntime:
    def __init__(self, path, shape):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(str(path), options, ["CPUExecutionProvider"])
        count = int(np.prod(shape))
        self.input = (np.arange(count) % 7 == 0).astype(np.float32).reshape(shape)

    def seconds(self, times):
        before = time.process_time()
        for _ in range(times):
            self.session.run(None, {"input": self.input})
        return (time.process_time() - before) / times


class Ours:
    def __init__(self, program, folder):
        environment = {**os.environ, "NETWORKS": str(folder)}
        pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.process = subprocess.Popen([program], env=environment, **pipes)

    def processor_seconds(self):
        tasks = Path(f"/proc/{self.process.pid}/task").iterdir()
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9

    def seconds(self, name, times):
        before = self.processor_seconds()
        self.process.stdin.write(f"{name} {times}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline().strip() == name, "the program ended"
        return (self.processor_seconds() - before) / times


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", nargs="*", choices=list(NETWORKS), default=list(NETWORKS))
    arguments = parser.parse_args()
    torch.manual_seed(0)
    paths = {name: exported(arguments.folder, name) for name in NETWORKS}
    ours = Ours(arguments.program, arguments.folder)
    print(f"{'network':24} {'ours, ms':>9} {'onnxruntime, ms':>16} {'ratio':>6}")
    for name in arguments.only:
        theirs = Onnxruntime(paths[name], NETWORKS[name][1])
        # About a quarter of a second each time.
        ours.seconds(name, 1)
        times = max(1, round(0.25 / theirs.seconds(2)))
        rounds = [(ours.seconds(name, times), theirs.seconds(times)) for _ in range(arguments.rounds)]
        mine, other = (1e3 * min(side) for side in zip(*rounds))
        print(f"{name:24} {mine:9.2f} {other:16.2f} {mine / other:6.2f}", flush=True)
    ours.process.stdin.close()
    ours.process.wait()


if __name__ == "__main__":
    main()
