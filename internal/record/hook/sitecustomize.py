"""Loaded by every Python program that `gpuprof run` starts, before its first line.

It leaves a waiter for `import torch` behind and hands over to the
sitecustomize that would have been loaded without it. A program without torch is
sampled for a few seconds.
"""

import os
import sys

_here = os.path.dirname(os.path.abspath(__file__))


def _note(text):
    """One line of JSON into the status file, in one write."""
    try:
        with open(os.path.join(_here, "status"), encoding="utf-8") as f:
            path = f.read()
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(fd, text.encode("ascii", "replace"))
        finally:
            os.close(fd)
    except Exception:
        pass


class _Waiter:
    """Finder that finds nothing itself: it wraps the loader of the modules it waits for."""

    def __init__(self):
        self.then = {}
        self.busy = False

    def find_spec(self, name, path=None, target=None):
        if self.busy or name not in self.then:
            return None
        self.busy = True
        try:
            spec = None
            for finder in sys.meta_path:
                find = getattr(finder, "find_spec", None)
                if finder is not self and find is not None:
                    spec = find(name, path, target)
                    if spec is not None:
                        break
        finally:
            self.busy = False
        if spec is not None and spec.loader is not None:
            self._wrap(name, spec.loader)
        return spec

    def _wrap(self, name, loader):
        try:
            load = loader.exec_module

            def exec_module(module):
                del loader.exec_module
                load(module)
                then = self.then.pop(name, None)
                if not self.then and self in sys.meta_path:
                    sys.meta_path.remove(self)
                if then is not None:
                    then(module)

            loader.exec_module = exec_module
        except Exception:
            self.then.pop(name, None)


_parts = {}


def _part(name):
    """A module of the hook, by its file, as in gpuprof_hook."""
    from importlib.util import module_from_spec, spec_from_file_location

    if name not in _parts:
        spec = spec_from_file_location("_" + name, os.path.join(_here, name + ".py"))
        _parts[name] = module_from_spec(spec)
        _parts[name].part = _part
        spec.loader.exec_module(_parts[name])
    return _parts[name]


def _loaded(torch):
    if _plain is not None:
        _plain.end()
    try:
        sys.modules["_gpuprof_hook"] = hook = _part("gpuprof_hook")
        hook.install(torch, _here, _waiter)
    except Exception as e:
        _note('{"event": "error", "pid": %d, "where": "install", "text": "%s"}\n' % (os.getpid(), type(e).__name__))


def _sample():
    """Sample the program if it does not import torch; None where that is not asked for."""
    try:
        import json

        with open(os.path.join(_here, "config.json"), encoding="utf-8") as f:
            config = json.load(f)
        if not config.get("plain"):
            return None
        return _part("gpuprof_plain").install(config)
    except Exception as e:
        _note('{"event": "error", "pid": %d, "where": "samples", "text": "%s"}\n' % (os.getpid(), type(e).__name__))
        return None


_waiter = _Waiter()
_waiter.then["torch"] = _loaded
sys.meta_path.insert(0, _waiter)
_plain = _sample()
_note('{"event": "loaded", "pid": %d, "ppid": %d, "python": "%d.%d.%d"}\n' % ((os.getpid(), os.getppid()) + sys.version_info[:3]))


def _chain():
    """Run the next sitecustomize on the path under its own name.

    What it raises is raised to the interpreter, which reports it as it would
    have done.
    """
    sys.path[:] = [p for p in sys.path if os.path.abspath(p or ".") != _here or p == ""]
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    spec = PathFinder.find_spec("sitecustomize", sys.path)
    if spec is None or spec.loader is None:
        return
    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


_chain()
