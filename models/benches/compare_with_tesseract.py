"""Compares the processor time of reading a folder of scans with that of Tesseract on the same pages.

    apt install tesseract-ocr tesseract-ocr-bod
    cargo build --release --package parkhang-node
    python compare_with_tesseract.py NODE PAGES [--rounds 3] [--devices cpu cpu-f32]

NODE is the program, PAGES a folder of images. Tesseract reads one page per process and thread, as many at a time as there are processors.
All take turns; the least processor time of each counts, so the ratio holds on a machine that others use as well.
"""

import argparse
import os
import resource
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

IMAGES = {".jpg", ".jpeg", ".png", ".tif", ".tiff"}


def processor_seconds(work) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    work()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def read_with_node(node: Path, pages: Path, device: str):
    with tempfile.TemporaryDirectory() as out:
        # Tesseract keeps no pictures of lines either.
        command = [node, "ocr", pages, "--out", out, "--export", "text", "--config", "artifacts=tables", "--device", device]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def read_with_tesseract(images: list[Path]):
    def read(image: Path):
        environment = {**os.environ, "OMP_THREAD_LIMIT": "1"}
        command = ["tesseract", image, "-", "-l", "bod"]
        subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(read, images))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("node", type=Path)
    parser.add_argument("pages", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--devices", nargs="+", default=["cpu", "cpu-f32"])
    arguments = parser.parse_args()
    images = sorted(path for path in arguments.pages.iterdir() if path.suffix.lower() in IMAGES)
    readers = {device: lambda device=device: read_with_node(arguments.node, arguments.pages, device) for device in arguments.devices}
    readers["tesseract"] = lambda: read_with_tesseract(images)
    seconds = {name: [] for name in readers}
    for number in range(arguments.rounds):
        for name, read in readers.items():
            seconds[name].append(processor_seconds(read))
            print(f"round {number + 1} of {arguments.rounds}: {name} {seconds[name][-1]:.1f} CPU s", flush=True)
    tesseract = min(seconds["tesseract"])
    print(f"\n{'':12}{'CPU s a page':>14}{'ratio':>8}")
    for name, taken in seconds.items():
        print(f"{name:12}{min(taken) / len(images):14.3f}{tesseract / min(taken):8.2f}")


if __name__ == "__main__":
    main()
