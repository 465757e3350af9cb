"""A program to record, in one of several ways of being one: program.py WAY [NUMBER]."""

import os
import signal
import sys
import tempfile
import time


def steps_of(n, after=lambda i: None, optimizers=1, loader_workers=0, context="fork"):
    """A training loop of n steps."""
    import torch
    from torch.utils.data import DataLoader

    model = torch.nn.Sequential(torch.nn.Linear(), torch.nn.Linear())
    opts = [torch.optim.SGD(model.parameters()) for _ in range(optimizers)]
    for i, batch in enumerate(DataLoader(list(range(2 * n)), 2, loader_workers, context)):
        for opt in opts:
            opt.zero_grad()
            model(batch)
            opt.step()
        after(i + 1)
    print(f"trained {n}\n", end="", flush=True)  # one write: two threads print at once


def wgan(n):
    """Five steps of the critic for each of the generator."""
    import torch

    class Adam(torch.optim.SGD):
        pass

    critic, generator = torch.optim.SGD([]), Adam([])
    for _ in range(n):
        for _ in range(5):
            critic.zero_grad()
            torch.op("aten::mm")
            critic.step()
        generator.zero_grad()
        torch.op("aten::mm")
        generator.step()
    print("trained", n)


def backward_optimizers(n):
    """An optimizer for each layer, which steps while the gradients are computed."""
    import torch

    model = torch.nn.Sequential(torch.nn.Linear(), torch.nn.Linear())
    optimizers = [torch.optim.SGD([]) for _ in range(2)]
    for i in range(n):
        model(i)
        torch._C.graph_task = i
        for opt in optimizers:
            opt.step()
            opt.zero_grad()
        torch._C.graph_task = -1
    print("trained", n)


def two_stages(n):
    """A few steps of one optimizer, which stays, then n of another."""
    import torch

    first = torch.optim.SGD([])
    for _ in range(6):
        first.step()
    bare_steps(n)
    return first


def long_step():
    """The first recorded step goes on until the recording has ended."""
    import torch

    def after(i):
        for _ in range(20000 if i == 11 else 0):  # an end, where the recording has none
            if torch.profiler.profile.exported:
                break
            torch.op("aten::mm", 0.001)

    steps_of(30, after)


def prefetch(n):
    """A thread waits in the data loader all the while that the model is called."""
    import threading

    from torch.utils.data import DataLoader

    done, fetching = threading.Event(), threading.Event()

    class Slow(list):
        def __getitem__(self, i):
            fetching.set()
            done.wait()
            return super().__getitem__(i)

    t = threading.Thread(target=lambda: next(iter(DataLoader(Slow([1]), 1))))
    t.start()
    fetching.wait()
    infer(n)
    done.set()
    t.join()


def infer(n, compiled=False):
    import torch

    model = torch.nn.Sequential(torch.nn.Linear(), torch.nn.Linear()).eval()
    preprocess = torch.nn.Linear()
    preprocess(0)
    if compiled:
        model = torch.compile(model)
    with torch.no_grad():
        for i in range(n):
            model(i)
    print("inferred", n)


def bad_model(n):
    """Every call fails inside the model, and the program copes."""
    import torch

    class Bad(torch.nn.Module):
        def forward(self, x):
            torch.op("aten::mm")
            raise ValueError("bad")

    model = torch.nn.Sequential(Bad()).eval()
    with torch.no_grad():
        for i in range(n):
            try:
                model(i)
            except ValueError:
                pass
    print("coped", n)


def loader_only(n):
    import torch
    from torch.utils.data import DataLoader

    for _ in DataLoader(list(range(n)), 1):
        torch.op("aten::mm")


def window():
    """No steps, until somebody has recorded that: a slow machine takes longer."""
    import torch

    made = []  # more and more tensors: the hook sees that the program uses them
    while not torch.profiler.profile.exported:
        made.append(torch.op("aten::mm", 0.001))
    return made


def window_then_train(n):
    window()
    steps_of(n, after=lambda i: time.sleep(0.01))


def window_cut_short():
    """The first step comes while a window of time is recorded."""
    import torch

    made = []
    while not torch.autograd._profiler_enabled():
        made.append(torch.op("aten::mm", 0.001))
    steps_of(30)
    return made


def own_profiler(n):
    import torch

    with torch.profiler.profile() as p:
        steps_of(n)
    with tempfile.TemporaryDirectory() as d:
        p.export_chrome_trace(os.path.join(d, "own.json"))


def own_late(n):
    """The program's own profiler begins while gpuprof records."""
    import torch

    p = torch.profiler.profile()

    def after(i):
        if i == 14:
            p.start()
        if i == 16:
            p.stop()

    steps_of(n, after)
    print("own events", len(p.events))


def own_lower(n):
    import torch

    with torch.autograd.profiler.profile():
        steps_of(n)


def fail_at(at):
    def after(i):
        if i == at:
            raise RuntimeError("planted")

    steps_of(at + 10, after)


def exit_hard(at):
    steps_of(at + 10, lambda i: os._exit(42) if i == at else None)


def exit_code(code):
    steps_of(30)
    sys.exit(code)


def endless(at):
    """Tells when it has made `at` steps, then goes on until it is ended."""

    def after(i):
        time.sleep(0.05)
        if i == at:
            with open("ready", "w"):
                pass

    steps_of(1000000, after)


def handler(at):
    """Counts the signals it gets and ends by itself."""
    got = []
    for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(s, lambda number, _: got.append(number))

    def after(i):
        time.sleep(0.002)
        if i == at:
            with open("ready", "w"):
                pass
        if i > at and got:
            time.sleep(0.3)
            print("got", got, flush=True)
            sys.exit(7)

    steps_of(1000000, after)


def launch(ranks):
    """As torchrun does: one process a rank, told by its environment."""
    import subprocess

    children = [
        subprocess.Popen([sys.executable, __file__, "train", "30"], env=dict(os.environ, RANK=str(r), LOCAL_RANK=str(r), WORLD_SIZE=str(ranks)))
        for r in range(ranks)
    ]
    sys.exit(max(c.wait() for c in children))


def rank_main(rank):
    os.environ["RANK"] = str(rank)
    steps_of(30)


def rank_short(rank):
    os.environ["RANK"] = str(rank)
    steps_of(13)


def processes(context, target=rank_main):
    """Ranks as processes of multiprocessing; the parent has torch, and no steps."""
    import multiprocessing

    import torch  # noqa: F401

    c = multiprocessing.get_context(context)
    ranks = [c.Process(target=target, args=(r,)) for r in range(2)]
    for p in ranks:
        p.start()
    for p in ranks:
        p.join()
    sys.exit(max(p.exitcode for p in ranks))


def fork_while_recorded(n, of_child=3):
    def after(i):
        if i == 13:
            pid = os.fork()
            if pid == 0:
                steps_of(of_child)
                os._exit(0)
            os.waitpid(pid, 0)

    steps_of(n, after)


def bare_steps(n):
    """Steps of an optimizer and nothing else."""
    import torch

    opt = torch.optim.SGD([])
    for _ in range(n):
        torch.op("aten::mm", 0.001)
        opt.step()


def late_end(n):
    """Much is done between the last step and the end."""
    bare_steps(n)
    time.sleep(1)


def two_threads(n):
    """Two loops at once, each in a thread of its own."""
    import threading

    threads = [threading.Thread(target=steps_of, args=(n, lambda i: time.sleep(0.001))) for _ in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()


def nothing_changed(n):
    """What gpuprof must leave as it was, seen from inside, once it has recorded."""
    import random

    random.seed(1)
    steps_of(n)
    import torch
    from torch.utils.data import dataloader

    print(random.random())
    print([p for p in sys.path if "gpuprof" in p])
    print([type(f).__name__ for f in sys.meta_path if isinstance(f, object) and type(f).__name__ == "_Waiter"])
    module = sys.modules["torch.nn.modules.module"]
    print(len(module._global_forward_hooks), len(module._global_forward_pre_hooks))
    for f in (torch.optim.Optimizer.zero_grad, torch.optim.Optimizer.__init__, torch.compile, torch.profiler.profile.start,
              torch.autograd.profiler.profile.__enter__, dataloader._BaseDataLoaderIter.__next__):
        print(f.__qualname__, hasattr(f, "__wrapped__"))
    print(signal.getsignal(signal.SIGTERM) == signal.SIG_DFL, signal.getsignal(signal.SIGHUP) == signal.SIG_DFL)


def on_device(n, oom=0, end=None, own=False, touch=True):
    """Trains on a device; `oom` is the step at which a request fails, which the program copes with or ends by."""
    import torch
    from torch import _cuda

    if own:
        torch.cuda.memory._record_memory_history()
    if touch:
        _cuda.use()

    def after(i):
        if i == oom:
            try:
                _cuda.fail()
            except _cuda.OutOfMemoryError:
                if end is None:
                    raise
                end()

    try:
        steps_of(n, after)
    finally:
        wrapped = [hasattr(f, "__wrapped__") for f in (torch.cuda._lazy_init, torch.cuda.memory._record_memory_history)]
        print("history", _cuda.state["calls"], wrapped)


def no_torch():
    print("plain")
    sys.stderr.write("plain error\n")


def sampled():
    """Computes until gpuprof has a few samples of it."""
    import asyncio
    import gc

    (plain,) = (o for o in gc.get_objects() if type(o).__name__ == "Plain")

    async def wait():
        while plain.host is None or plain.host.taken < 5:
            await asyncio.sleep(0.001)

    asyncio.run(wait())
    print("sampled")


def main():
    way, number = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 30
    ways = {
        "train": lambda: steps_of(number),
        "gan": lambda: steps_of(number, optimizers=2),
        "wgan": lambda: wgan(number),
        "backward-optimizers": lambda: backward_optimizers(number),
        "two-stages": lambda: two_stages(number),
        "long-step": long_step,
        "long-steps": lambda: steps_of(number),
        "prefetch": lambda: prefetch(number),
        "workers": lambda: steps_of(number, loader_workers=2),
        "spawn-workers": lambda: steps_of(number, loader_workers=1, context="spawn"),
        "infer": lambda: infer(number),
        "compiled": lambda: infer(number, compiled=True),
        "bad-model": lambda: bad_model(number),
        "loader": lambda: loader_only(number),
        "window": window,
        "window-cut-short": window_cut_short,
        "window-then-train": lambda: window_then_train(number),
        "own-profiler": lambda: own_profiler(number),
        "own-late": lambda: own_late(number),
        "own-lower": lambda: own_lower(number),
        "raise": lambda: fail_at(number),
        "exit-hard": lambda: exit_hard(number),
        "exit-code": lambda: exit_code(number),
        "endless": lambda: endless(number),
        "handler": lambda: handler(number),
        "launch": lambda: launch(number),
        "fork-ranks": lambda: processes("fork"),
        "fork-short": lambda: processes("fork", rank_short),
        "spawn-ranks": lambda: processes("spawn"),
        "fork-while-recorded": lambda: fork_while_recorded(number),
        "fork-and-train": lambda: fork_while_recorded(number, number),
        "late-end": lambda: late_end(number),
        "two-threads": lambda: two_threads(number),
        "unchanged": lambda: nothing_changed(number),
        "device": lambda: on_device(number),
        "device-oom": lambda: on_device(number + 10, number),
        "device-oom-copes": lambda: on_device(30, number, lambda: None),
        "device-oom-exits": lambda: on_device(30, number, lambda: os._exit(9)),
        "device-own": lambda: on_device(number, own=True),
        "device-none": lambda: on_device(number, touch=False),
        "no-torch": no_torch,
        "sampled": sampled,
    }
    ways[way]()


if __name__ == "__main__":
    main()
