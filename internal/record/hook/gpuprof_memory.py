"""Records the history of PyTorch's allocator in place of a trace: gpuprof run --memory.

It begins with the program's first use of a device, so that every block has its line, and ends with the recorded
steps. PyTorch keeps the last MAX_ENTRIES events of each device.
"""

MAX_ENTRIES = 1_000_000


class Memory:
    """Stands where the profiler does in the hook, and writes a snapshot."""

    def __init__(self, hook):
        self.hook, self.torch = hook, hook.torch
        self.on = self.failed = False

    def install(self):
        cuda = self.torch.cuda
        self.hook.patch(cuda.memory, "_record_memory_history", lambda *_: self.hook.on_history())
        self.hook.patch(cuda, "_lazy_init", None, lambda *_: self.hook.on_device())
        if cuda.is_initialized():
            self.hook.on_device()

    def start(self):
        """Switch the history on; the program has just initialised the device."""
        self.on = True
        stacks = "all" if self.hook.config["stacks"] else "python"
        self.torch.cuda.memory._record_memory_history("all", context="all", stacks=stacks, max_entries=MAX_ENTRIES)
        self.torch._C._cuda_attach_out_of_memory_observer(self.out_of_memory)

    def out_of_memory(self, *_):
        """The allocator has given up. The program may be about to end without a word, so the
        first error is written at once. The end of the recording writes over it."""
        if self.on and not self.failed:
            self.failed = True
            self.hook.on_out_of_memory()

    def used(self):
        """Whether the program has ever taken memory of a device, or failed to."""
        cuda = self.torch.cuda
        return self.failed or any(cuda.max_memory_reserved(i) > 0 for i in range(cuda.device_count()))

    def step(self):
        pass

    def write(self, path):
        self.torch.cuda.memory._dump_snapshot(path)

    def stop(self):
        if self.on:
            self.on = False
            self.torch.cuda.memory._record_memory_history(None)
