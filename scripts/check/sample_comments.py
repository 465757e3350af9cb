#!/usr/bin/env python3
"""sample_comments.py SEED [N]: prints N (100) comment blocks of production Go, drawn by the seed, each with the line below it.

A reader who did not write them marks the blocks that need a second reading. Run it in the repository's root.
"""
import os
import random
import sys


def blocks(root):
    """Yields file, line, text and the next line of every block of // comments outside of tests and generated files."""
    for folder, names, files in os.walk(root):
        names[:] = sorted(n for n in names if not n.startswith(".") and n not in ("testdata", "testkit", "node_modules"))
        for name in sorted(files):
            if not name.endswith(".go") or name.endswith("_test.go"):
                continue
            path = os.path.join(folder, name)
            text = open(path, encoding="utf8").read()
            if "Code generated" in text[:400]:
                continue
            block, first = [], 0
            for n, line in enumerate(text.split("\n"), 1):
                if line.strip().startswith("// "):
                    first = first if block else n
                    block.append(line.strip()[3:])
                elif block:
                    yield path, first, " ".join(block), line.strip()
                    block = []


def main(argv):
    if not argv or not argv[0].isdigit():
        sys.exit(__doc__)
    found = list(blocks("."))
    for path, line, text, below in random.Random(int(argv[0])).sample(found, int(argv[1]) if len(argv) > 1 else 100):
        print("%s:%d %s\n    > %s" % (path, line, text, below[:120]))


main(sys.argv[1:])
