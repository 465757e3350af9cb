"""Switches settings on and off between the steps of one process, and times both sides.

A block of one setting is off, on twice as long, off again; every second block begins with on. Blocks of all
settings take turns, so that a program that ends early has as many of each. The first step behind a switch
belongs to neither side: it makes the gradients, the garbage or the state that the other side left.
"""

import time


class Blocks:
    def __init__(self, hook, config):
        self.hook = hook
        self.names = [one["name"] for one in config["settings"]]
        self.settings = [one["hook"] for one in config["settings"]]
        self.off = dict(hook.set)  # of both sides
        self.steps = config["steps"]
        self.cells = self.order(config["count"])
        self.cell = None
        self.made = 0  # steps of the cell
        self.began = 0.0
        self.times = {}  # (block, setting) -> seconds off, on
        self.held = {name: 0 for name in self.names}

    def order(self, count):
        for block in range(count):
            for which in range(len(self.names)):
                for on, times in ((0, 1), (1, 2), (0, 1)):
                    yield block, which, on ^ (block % 2), times * self.steps

    def advance(self):
        """To the next cell; False behind the last one."""
        self.cell = next(self.cells, None)
        if self.cell is None:
            self.hook.settings.switch(self.off)
            return False
        _, which, on, _ = self.cell
        self.made, self.taken = 0, sum(self.hook.applied.values())
        self.hook.settings.switch(self.settings[which] if on else self.off)
        return True

    def border(self):
        """Behind a step; False once the last block is over."""
        block, which, on, length = self.cell
        self.made += 1
        if self.made == 1:
            self.hook.synchronize()
            self.began = time.perf_counter()
        if self.made <= length:
            return True
        self.hook.synchronize()
        spent = self.times.setdefault((block, which), [0.0, 0.0])
        spent[on] += time.perf_counter() - self.began
        if on:
            self.held[self.names[which]] += sum(self.hook.applied.values()) - self.taken
        return self.advance()

    def result(self):
        """By setting the seconds off and on of each block that is whole, and how often the setting took hold."""
        whole = [k for k in self.times if self.cell is None or k != (self.cell[0], self.cell[1])]
        return [
            {"name": name, "took": self.held[name], "seconds": [self.times[k] for k in sorted(whole) if k[1] == i]}
            for i, name in enumerate(self.names)
        ]
