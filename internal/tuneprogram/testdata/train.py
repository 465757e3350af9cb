"""A training for the stand-in of PyTorch: python train.py [KEY=VALUE...]. What it saw goes to told.json."""

import atexit
import gc
import json
import os
import sys

import torch
from torch.utils.data import DataLoader

options = dict(word.split("=", 1) for word in sys.argv[1:])


class Data(list):
    pass


class Net(torch.nn.Module):
    def forward(self, x):
        return torch.Tensor(sum(x) + 1.0)


def told():
    with open("told.json", "w") as f:
        json.dump({"threads": torch.get_num_threads(), "used": optimizer.used, "workers": loader.num_workers, "collected": collected, "ended": ended, "states": states, "began": began}, f)


def state():
    """The flags that differ from those of this program with all its options."""
    return {
        "threads": torch.get_num_threads() == 1, "anomaly": not torch.is_anomaly_enabled(),
        "deterministic": not torch.are_deterministic_algorithms_enabled(),
        "mkldnn": torch._C._get_mkldnn_enabled(), "benchmark": torch.backends.cudnn.benchmark,
    }


def collects():
    """Whether a call of gc.collect() collects."""
    ran = []
    gc.callbacks.append(lambda phase, info: ran.append(phase))
    gc.collect()
    gc.callbacks.pop()
    return len(ran) > 0


def has_begun():
    """Whether the hook, whose folder is the first of PYTHONPATH, has noted the begin of the measured steps."""
    with open(os.path.join(os.environ["PYTHONPATH"].split(os.pathsep)[0], "config.json")) as f:
        return os.path.exists(json.load(f)["out"] + ".began")


collected, ended, states, began = [], False, [], []
if options.get("threads"):
    torch.set_num_threads(int(options["threads"]))
if options.get("anomaly"):
    torch.set_anomaly_enabled(True)
if options.get("mkldnn"):
    torch._C._set_mkldnn_enabled(options["mkldnn"] == "1")
if options.get("deterministic"):
    torch.use_deterministic_algorithms(True)
data = Data(range(int(options.get("samples", "4000"))))
data.cannot_be_sent = options.get("cannot_be_sent") == "1"
loader = DataLoader(data, 4)
net, optimizer = Net(), torch.optim.Adam([torch.Tensor() for _ in range(8)], foreach=False)
if options.get("late") != "1":
    atexit.register(told)
with open("started.txt", "a") as f:
    f.write("run\n")
try:
    for _ in range(int(options.get("epochs", "1"))):
        for batch in loader:
            net.zero_grad(set_to_none=options.get("keep") != "1")
            loss = net(batch)
            loss.value += float(options.get("noise", "0"))
            loss.backward()
            optimizer.step()
            if options.get("collect") == "1":
                collected.append(collects())
            if options.get("fail") == "1":
                raise RuntimeError("the loss is not finite")
            states.append(state())
            began.append(has_begun())
            told()
    ended = True
finally:
    open("final.pt", "w").close()
