"""Finds the gpuprof program and runs it."""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from typing import Any, Dict, Iterator, List, NoReturn, Optional, Sequence, Tuple

from ._errors import BinaryNotFound, GpuprofError
from ._name import ALWAYS, COMMAND, DISTRIBUTION

ENVIRONMENT = "GPUPROF_BINARY"  # names the program, before every other place
ANSWER_S = 30.0  # a program that does not answer `version` within this time is another one
NAMES = (ALWAYS, ALWAYS + ".exe")


def of_the_wheel() -> Iterator[str]:
    """The program that pip installed with this package, by the list of the wheel's files, then by the scheme."""
    from importlib import metadata

    try:
        for file in metadata.distribution(DISTRIBUTION).files or ():
            if file.name in NAMES:
                yield os.path.normpath(str(file.locate()))
    except metadata.PackageNotFoundError:
        pass
    for name in NAMES:
        yield os.path.join(sysconfig.get_path("scripts"), name)


def candidates() -> Iterator[str]:
    for path in of_the_wheel():
        if os.path.isfile(path):
            yield path
    for name in (ALWAYS, COMMAND):
        found = shutil.which(name)
        if found:
            yield found


@functools.lru_cache(maxsize=None)
def refused(path: str) -> str:
    """Why the program at path is not gpuprof, "" where it is."""
    try:
        done = subprocess.run([path, "version", "--format", "json"], stdin=subprocess.DEVNULL, capture_output=True, timeout=ANSWER_S, check=False)
        answer = json.loads(done.stdout)
        if answer["name"] == COMMAND and "run" in answer["schemas"]:
            return ""
    except OSError as e:
        return "it cannot be started (%s)" % (e.strerror or e)
    except subprocess.TimeoutExpired:
        return "it did not answer `version` within %g s" % ANSWER_S
    except (ValueError, KeyError, TypeError):
        pass
    return "it is another project's program with the same name"


def find() -> str:
    """The path of the gpuprof program.

    The order is GPUPROF_BINARY, the program of this package's own wheel, PATH. Another project's command gpuprof is
    refused. Raises BinaryNotFound, which names each program that was refused.
    """
    wanted = os.environ.get(ENVIRONMENT)
    if wanted:
        why = refused(wanted)
        if why:
            raise BinaryNotFound("finding gpuprof: %s names %s, and %s" % (ENVIRONMENT, wanted, why), "let it name a gpuprof program, or unset it")
        return wanted
    seen: List[str] = []
    for path in candidates():
        why = refused(path)
        if not why:
            return path
        text = "%s: %s" % (path, why)
        if text not in seen:
            seen.append(text)
    found = " (%s)" % "; ".join(seen) if seen else ""
    raise BinaryNotFound("finding gpuprof: neither this package's wheel nor PATH has the program" + found,
                         "pip install %s, or set %s to its path" % (DISTRIBUTION, ENVIRONMENT))


def flags(options: Dict[str, Any]) -> List[str]:
    """Keyword arguments as flags of the command line: what_if=["a", "b"] is --what-if=a --what-if=b."""
    out: List[str] = []
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        for v in value if isinstance(value, (list, tuple)) else [value]:
            if v is True:
                out.append(flag)
            elif v is not None and v is not False:
                out.append("%s=%s" % (flag, os.fspath(v) if isinstance(v, os.PathLike) else v))
    return out


def argument(path: Any) -> str:
    """A path as an argument, which never reads as a flag."""
    text = os.fspath(path)
    if isinstance(text, bytes):
        text = os.fsdecode(text)
    return os.path.join(".", text) if text.startswith("-") and text != "-" else text


class Job:
    """A running gpuprof whose document is read when it has ended."""

    def __init__(self, arguments: Sequence[str], accepted: Sequence[int] = (0,)) -> None:
        self.accepted = accepted
        command = [find(), *arguments, "--format", "json", "--quiet"]
        self.out, self.err = tempfile.TemporaryFile(), tempfile.TemporaryFile()
        try:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.out, stderr=self.err)
        except OSError as e:
            self.out.close()
            self.err.close()
            raise GpuprofError("starting %s: %s" % (command[0], e.strerror or e)) from e

    def ended(self) -> bool:
        return self.process.poll() is not None

    def result(self) -> Tuple[Dict[str, Any], int]:
        """The document and the exit code; raises GpuprofError with the program's sentence for a code that is not accepted."""
        try:
            try:
                code = self.process.wait()
            except BaseException:  # a second Ctrl-C
                self.process.kill()
                self.process.wait()
                raise
            self.out.seek(0)
            self.err.seek(0)
            out, err = self.out.read(), self.err.read()
        finally:
            self.out.close()
            self.err.close()
        if code not in self.accepted:
            raise failure(err, code)
        try:
            document = json.loads(out)
        except ValueError as e:
            raise GpuprofError("reading the answer of gpuprof: %s" % e, "run the same command in a shell", exit_code=4) from e
        return document, code


def failure(err: bytes, code: int) -> GpuprofError:
    text = err.decode("utf-8", "replace")
    for line in text.splitlines():
        if line.startswith('{"error"'):
            try:
                return GpuprofError.of(json.loads(line), code)
            except ValueError:
                continue
    told = text.strip().splitlines()
    return GpuprofError(told[-1] if told else "gpuprof ended with exit code %d and no word" % code, exit_code=code)


def document(*arguments: str, accepted: Sequence[int] = (0,)) -> Dict[str, Any]:
    """The JSON document that gpuprof prints for a command line."""
    return Job(arguments, accepted).result()[0]


def text(arguments: Sequence[str], given: Optional[Dict[str, Any]] = None) -> str:
    """What gpuprof prints; the document given is its standard input."""
    stdin = json.dumps(given).encode() if given is not None else b""
    done = subprocess.run([find(), *arguments], input=stdin, capture_output=True, check=False)
    if done.returncode != 0:
        raise failure(done.stderr, done.returncode)
    return done.stdout.decode("utf-8", "replace")


def main() -> NoReturn:
    """The command gpuprof where the wheel has no script for it (Windows): the program with the same arguments."""
    try:
        program = find()
    except GpuprofError as e:
        print("gpuprof: %s" % e, file=sys.stderr)
        sys.exit(e.exit_code)
    if os.name == "nt":
        sys.exit(subprocess.call([program, *sys.argv[1:]]))
    os.execv(program, [program, *sys.argv[1:]])
