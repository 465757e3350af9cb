"""The manual page of gpuprof, from what the program itself prints as its help."""

import os
import re
import subprocess
import time

HEADING = re.compile(r"^([A-Z][^:]*):$")
OPTION = re.compile(r"^ {2,6}(\S.*?)(?: {2,}(\S.*))?$")


def ask(program, *args):
    """What the program prints; HOME and the like do not show in it."""
    env = {"PATH": os.environ.get("PATH", ""), "NO_COLOR": "1", "COLUMNS": "80"}
    done = subprocess.run([program, *args], env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else ""


def verbs(program):
    """The verbs and their verbs, as completion lists them, with what prints their help."""
    found = [("run --", ("run", "--help", "--"))]
    for name in words(program):
        found.append((name, (name, "--help")))
        for inner in words(program, name):
            if ask(program, name, inner, "--help").startswith(f"Usage: gpuprof {name} {inner}"):
                found.append((f"{name} {inner}", (name, inner, "--help")))
    return found


def words(program, *before):
    lines = ask(program, "__complete", "--", *before, "").splitlines()
    names = [line.split("\t")[0] for line in lines]
    return [n for n in names if re.fullmatch(r"[a-z]+", n)]


def escape(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    text = "".join(c if c < "\x80" else f"\\[u{ord(c):04X}]" for c in text)
    return "\\&" + text if text.startswith((".", "'")) else text


def blocks(text):
    """Paragraphs: the runs of lines between empty ones."""
    return [b.split("\n") for b in re.split(r"\n\s*\n", text.strip("\n")) if b.strip()]


def options(lines):
    """The flags or arguments of a list: what is typed, and what it does."""
    indent = min(len(line) - len(line.lstrip()) for line in lines)
    out = []
    for line in lines:
        begins = len(line) - len(line.lstrip()) == indent or line.lstrip().startswith("--")
        match = OPTION.match(line) if begins else None
        if match:
            out.append([match[1], match[2] or ""])
        elif out:
            out[-1][1] = (out[-1][1] + " " + line.strip()).strip()
    return out


def render(text):
    """One help text as roff."""
    out, heading = [], ""
    for lines in blocks(text):
        match = HEADING.match(lines[0])
        if match:
            heading, lines = match[1], lines[1:]
            if heading not in ("Flags", "Arguments", "Commands"):
                out += [".PP", f".B {escape(heading)}:"]
        elif not lines[0].startswith(" "):
            heading = ""
        if not lines:
            continue
        if heading in ("Flags", "Arguments", "Commands"):
            for typed, does in options(lines):
                out += [".TP", f".B {escape(typed)}", escape(does) or "\\&"]
        elif all(line.startswith("    ") for line in lines):
            out += [".PP", ".EX", *[escape(line) for line in lines], ".EE"]
        else:
            out += [".PP", *[escape(line.strip()) for line in lines]]
    return out


def page(program, version, epoch):
    """The manual page as text."""
    top = ask(program, "--help")
    usage, _, rest = top.partition("\n")
    first = blocks(rest)[0][0]
    date = time.strftime("%Y-%m-%d", time.gmtime(epoch))
    out = [f'.TH GPUPROF 1 "{date}" "gpuprof {version}" "User Commands"', ".SH NAME",
           "gpuprof \\- " + escape(first[0].lower() + first[1:].rstrip(".")), ".SH SYNOPSIS",
           ".B " + escape(usage.removeprefix("Usage: ")), ".SH DESCRIPTION", *render(rest), ".SH VERBS"]
    known = verbs(program)
    for name, call in known:
        usage, _, rest = ask(program, *call).partition("\n")
        if not usage.startswith("Usage: "):
            raise SystemExit(f"dist: making the manual page: gpuprof {' '.join(call)} printed no help; run it to see why")
        out += [f".SS gpuprof {escape(name)}", ".PP", ".B " + escape(usage.removeprefix("Usage: ")), *render(rest)]
    if len(known) < 10:
        raise SystemExit(f"dist: making the manual page: completion lists only {len(known)} verbs; see gpuprof __complete")
    return "\n".join(out) + "\n"
