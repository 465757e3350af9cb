"""How the hook tells where a step of the program ends: marks that come back, or the clock; and whether a data
loader's workers have batches in stock, in which case the steps do not show the loader's pace."""

import _thread
import sys
import weakref
from collections import deque

# The clock for a program without steps starts when it touches a tensor, a
# module or a device, and after so many seconds in any case.
PATIENCE = 120
MAX_WAIT_S = 600  # between two tries of a window
# An optimizer has ended its part of the program when others have made twice its
# longest gap of steps, and so many, without it.
SILENCE = 10
# How many fetches tell whether a loader's stock falls, and fewest of them.
LEVELS = 10
FEWEST_LEVELS = 4
FALL = 2  # batches
# A stock is used up after so many steps for each batch of it; a program that waits more
# than a third of its steps for the loader is quicker.
STEPS_OF_STOCK = 3

get_ident = _thread.get_ident


class Mark:
    """Stands for a function that marks steps."""


class Source:
    """One way to see a step's border: the mark that comes back once per step."""

    def __init__(self, name, repeats, ends):
        self.name = name
        self.repeats = repeats
        self.ends = ends  # the mark ends a step; else it begins one
        self.seen = {}
        self.anchor = None
        self.count = 0  # of the anchor
        self.total = 0  # of anything
        self.last = None
        self.before = deque(maxlen=200)

    def hit(self, obj, _free=True):
        """Count a mark; true when it is the one that steps are counted by."""
        self.total += 1
        if self.anchor is not None:
            held = self.anchor()
            if held is obj:
                self.count += 1
                return True
            if held is not None:
                return False
            self.reset()
        key = id(obj)
        ref, n = self.seen.get(key, (None, 0))
        if ref is None or ref() is not obj:
            ref, n = reference(obj), 0
        n += 1
        self.seen[key] = (ref, n)
        if n < self.repeats:
            return False
        self.anchor, self.count, self.seen = ref, n, {}
        return True

    def reset(self):
        self.anchor, self.count, self.seen, self.last = None, 0, {}, None
        self.before.clear()

    def completed(self):
        return self.count if self.ends else self.count - 1

    def most(self):
        """How often the mark came back that did so most."""
        return max(self.count, max((n for _, n in self.seen.values()), default=0))


class Stepper:
    """One optimizer: how often it has stepped, where, and among how many steps of others."""

    def __init__(self, ref, place):
        self.ref, self.place = ref, place  # 1 is the first that stepped
        self.count, self.thread = 0, None
        self.last, self.gap = 0, 0  # its last step, and the longest way to one, in steps of all
        self.beside = (None, 0)  # the anchor at its last step, and the anchor's count


class Optimizers(Source):
    """Optimizer steps. Where several optimizers take turns, the rarest one ends a step: a
    GAN's critic steps five times for each step of the generator, and both are one iteration."""

    def __init__(self, repeats):
        super().__init__("optimizer", repeats, True)
        self.chosen = None  # the anchor's stepper

    def hit(self, obj, free=True):
        """`free` says that the anchor may still change."""
        self.total += 1
        s = self.stepper(obj)
        s.count, s.thread = s.count + 1, get_ident()
        if s.count > 1:
            s.gap = max(s.gap, self.total - s.last)
        s.last = self.total
        if self.anchor is not None and self.anchor() is None:
            self.anchor, self.chosen = None, None
            self.before.clear()
        anchor, (beside, n) = self.chosen, s.beside
        if anchor is not None:
            s.beside = (anchor, anchor.count)
        if anchor is s:
            self.count = s.count
            return True
        if s.count < self.repeats:
            return False
        if anchor is not None:
            rarer = beside is anchor and s.thread == anchor.thread and anchor.count - n > 1
            silent = self.total - anchor.last > 2 * anchor.gap + SILENCE
            if not free or not (rarer or silent):
                return False
        self.anchor, self.chosen, self.count, self.last = s.ref, s, s.count, None
        self.before.clear()
        return True

    def stepper(self, obj):
        key = id(obj)
        s = self.seen.get(key)
        if s is None or s.ref() is not obj:
            s = self.seen[key] = Stepper(reference(obj), len(self.seen) + 1)
        return s

    def expects(self):
        """Whether an optimizer that has stepped once may be about to come back, and be the rarest."""
        thread = self.chosen and self.chosen.thread
        return any(s.count < self.repeats and s.thread == thread and self.total <= 2 * s.last + 1 and s.ref() is not None for s in self.seen.values())

    def joined(self):
        """How many optimizers step in the thread of the one that counts."""
        return sum(s.thread == self.chosen.thread for s in self.seen.values()) if self.chosen else 0

    def name_of(self):
        """The class of the optimizer that ends a step."""
        held = self.anchor() if self.anchor is not None else None
        return "" if held is None else type(held).__name__

    def reset(self):
        super().reset()
        self.chosen = None

    def most(self):
        return max(self.count, max((s.count for s in self.seen.values()), default=0))


class Quiet:
    """When a program that shows no step is recorded by the clock.

    `wait` seconds after its first touch of a tensor, a module or a device, or
    after PATIENCE, if no module was imported meanwhile.
    """

    def __init__(self, wait, now, modules):
        self.wait, self.start, self.modules = wait, now, modules
        self.since = None  # the clock runs from here
        self.imported = now  # when the last module came

    def look(self, now, modules, touched):
        """Whether it is time; modules is how many there are."""
        if modules != self.modules:
            self.modules, self.imported = modules, now
        if self.since is None and (touched or now - self.start >= PATIENCE):
            self.since = now
        return self.since is not None and now - max(self.since, self.imported) >= self.wait

    def may_import(self, now):
        """Whether an import that is on the stack is the program itself, run by one, and none of many."""
        return now - self.imported >= PATIENCE

    def again(self, now):
        """A try was in vain, or a mark was seen: the clock starts afresh."""
        self.since = now

    def longer(self, now):
        self.wait = min(2 * self.wait, max(self.wait, MAX_WAIT_S))
        self.again(now)


class Touch:
    """Whether the program has made a tensor or a parameter, read off the reference
    counts of their types: each object holds one, and so does what imports them."""

    def __init__(self, torch, modules):
        self.types = [t for t in (getattr(torch, "Tensor", None), getattr(torch.nn, "Parameter", None)) if t is not None]
        self.modules, self.counts = modules, self.count()

    def count(self):
        return [sys.getrefcount(t) for t in self.types]

    def seen(self, modules):
        counts = self.count()
        if modules != self.modules:
            self.modules, self.counts = modules, counts
        return counts != self.counts


def reference(obj):
    try:
        return weakref.ref(obj)
    except TypeError:  # a list as data set, say
        return lambda: obj


class Stock:
    """How many batches a data loader's workers hold ready, whenever the program fetches one.

    A program that stood still (in its first step, while the profiler starts, while a trace is written)
    finds the stock full, and has the pace of its device until it is used up. Those steps show nothing
    of a loader that is slower than the device.
    """

    def __init__(self):
        self.iterator = lambda: None
        self.levels = deque(maxlen=LEVELS)
        self.most = 0  # that there can be
        self.left = None  # batches until the end of the epoch, None unknown
        self.usual = None  # the level before the program stood still, None unknown
        self.spare = 0  # steps to wait at most until it is there again

    def look(self, it):
        """The program asks `it` for a batch."""
        if self.iterator() is not it:
            self.iterator = reference(it)
            self.levels.clear()
            self.usual = None
        try:
            self.most = getattr(it, "_num_workers", 0) * (getattr(it, "_prefetch_factor", 0) or 0)
            if self.most > 0 and it._num_yielded > 0:  # before that the workers have only begun
                self.levels.append(self.ready(it))
        except Exception:  # macOS counts no queue; a loader of another make has none; one may be closed
            self.most = 0
            self.levels.clear()
        try:
            self.left = len(it) - it._num_yielded
        except Exception:  # a stream of data has no length
            self.left = None

    @staticmethod
    def ready(it):
        """Batches in the workers' queue, in that of the thread that pins them, and those that came out of order."""
        queues = {id(q): q for q in (it._worker_result_queue, it._data_queue)}
        return sum(q.qsize() for q in queues.values()) + sum(len(info) > 1 for info in getattr(it, "_task_info", {}).values())

    def falling(self):
        """Whether the stock is being used up."""
        return len(self.levels) >= FEWEST_LEVELS and self.levels[-1] > 0 and max(self.levels) - self.levels[-1] >= FALL

    def lasts(self, steps):
        """Whether the epoch has batches for more than so many steps."""
        return self.left is None or self.left > steps

    def pause(self):
        """The program is about to stand still."""
        self.usual = min(self.levels) if len(self.levels) >= FEWEST_LEVELS else None
        self.spare = STEPS_OF_STOCK * self.most

    def over(self):
        """Whether a step was made from the stock that grew meanwhile. Once that is used up it stays
        so: workers that began together end together, and their batches come in bursts."""
        if self.usual is None or self.spare <= 0 or not self.levels:
            return False
        used = self.levels[-1] <= (self.usual + 1 if self.usual else 0)
        self.spare = 0 if used else self.spare - 1
        return not used
