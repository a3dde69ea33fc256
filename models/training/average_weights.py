"""The mean of the weights of a recogniser before and after more training, which keeps what either reads well.

    python average_weights.py --before first.safetensors --after better.safetensors --share 0.6 \
        --charset charset.json --out model.safetensors

`--share` is that of the weights after training. Classes that the weights before did not have are taken from those after.
"""

import argparse

from safetensors.torch import load_file

from train_recogniser import load_net, save


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", required=True)
    parser.add_argument("--after", required=True)
    parser.add_argument("--share", type=float, default=0.5)
    parser.add_argument("--charset", required=True)
    parser.add_argument("--out", required=True)
    arguments = parser.parse_args()
    before, _ = load_net(arguments.charset, arguments.before)
    after, _ = load_net(arguments.charset, arguments.after)
    known = len(load_file(arguments.before)["hst.bias"])
    mean = {}
    for (name, old), new in zip(before.state_dict().items(), after.state_dict().values()):
        mean[name] = old.lerp(new, arguments.share) if new.is_floating_point() else new.clone()
        if name.startswith("hst."):
            mean[name][known:] = new[known:]
    after.load_state_dict(mean)
    save(after, arguments.out)


if __name__ == "__main__":
    main()
