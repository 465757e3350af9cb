"""The lower profiler: one at a time, as in PyTorch."""

from .. import _events

_owner = []


def _profiler_enabled():
    return bool(_owner)


def begin(who):
    if _owner:
        raise RuntimeError("Can't enable Kineto profiler when another profiler is already enabled")
    _owner.append(who)
    _events.recording = []


def end(who):
    if _owner != [who]:
        raise RuntimeError("this profiler is not running")
    _owner.clear()
    events, _events.recording = _events.recording, None
    return events


class profile:
    def __enter__(self):
        begin(self)
        return self

    def __exit__(self, *_):
        self.events = end(self)
