"""A trainer over a table with strings, with the habits that its guide warns of.

python tabular.py [--source row] [--encode apply] [--replace regex] [--batch 64]

Each sample is a query to a database; each batch of names is cleaned by a pattern and encoded row by row. The names are
columns of pandas where it is installed, otherwise lists, and standard error names that.
"""

import argparse
import re
import sqlite3
import sys
import tempfile

import torch
from torch.utils.data import DataLoader, Dataset

try:
    import pandas
except ImportError:
    pandas = None
    print("tabular.py: pandas is not installed: names are lists", file=sys.stderr)

ROWS, LETTERS = 8192, 27


def parse(words=None):
    flags = argparse.ArgumentParser()
    flags.add_argument("--source", choices=["row", "batch", "memory"], default="row")
    flags.add_argument("--encode", choices=["apply", "vector"], default="apply")
    flags.add_argument("--replace", choices=["regex", "literal"], default="regex")
    flags.add_argument("--batch", type=int, default=64)
    return flags.parse_args(words)


def rows():
    for i in range(ROWS):
        drug = "".join(chr(97 + (i * k) % 26) for k in (3, 7, 11, 17, 19, 23)) + " (oral)"
        yield i, drug, (i * 37 % 101) / 101, (i * 61 % 89) / 89, (i * 13 % 7) / 7


class Table(Dataset):
    def __init__(self, path, source):
        self.path, self.source, self.connection = path, source, None
        self.memory = list(rows()) if source == "memory" else None

    def __len__(self):
        return ROWS

    def query(self, text, values):
        if self.connection is None:  # each worker opens its own
            self.connection = sqlite3.connect(self.path)
        return self.connection.execute(text, values).fetchall()

    def __getitem__(self, i):
        return self.memory[i] if self.memory else self.query("SELECT * FROM doses WHERE id = ?", [i])[0]

    def __getitems__(self, ids):
        if self.source != "batch":
            return [self[i] for i in ids]
        marks = ",".join("?" * len(ids))
        found = {r[0]: r for r in self.query("SELECT * FROM doses WHERE id IN (%s)" % marks, ids)}
        return [found[i] for i in ids]


def clean(names, how):
    if pandas is None:
        return [re.sub(r" \(oral\)", "", n) if how == "regex" else n.replace(" (oral)", "") for n in names]
    column = pandas.Series(names)
    if how == "regex":
        return column.str.replace(r" \(oral\)", "", regex=True).tolist()
    return column.str.replace(" (oral)", "", regex=False).tolist()


def encode(names, how):
    if how == "vector":
        letters = torch.frombuffer(bytearray("".join(names).encode()), dtype=torch.uint8)
        return torch.nn.functional.one_hot(letters.reshape(len(names), 6).long() - 97, LETTERS).flatten(1).float()
    out = torch.zeros(len(names), 6 * LETTERS)
    for row, name in enumerate(names):
        for place, letter in enumerate(name):
            out[row, place * LETTERS + ord(letter) - 97] = 1.0
    return out


class Collator:
    def __init__(self, options):
        self.options = options

    def __call__(self, batch):
        names = encode(clean([r[1] for r in batch], self.options.replace), self.options.encode)
        return torch.cat([names, torch.tensor([r[2:4] for r in batch])], 1), torch.tensor([r[4] for r in batch])


def steps(options):
    """Trains, and yields the loss of each step."""
    torch.manual_seed(4)
    file = tempfile.NamedTemporaryFile(suffix=".db")
    with sqlite3.connect(file.name) as made:
        made.execute("CREATE TABLE doses (id INTEGER PRIMARY KEY, drug TEXT, dose REAL, age REAL, answer REAL)")
        made.executemany("INSERT INTO doses VALUES (?, ?, ?, ?, ?)", rows())
    model = torch.nn.Sequential(torch.nn.Linear(6 * LETTERS + 2, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    table = Table(file.name, options.source)
    while True:
        for x, y in DataLoader(table, batch_size=options.batch, shuffle=True, collate_fn=Collator(options)):
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(x)[:, 0], y)
            loss.backward()
            optimizer.step()
            yield loss


if __name__ == "__main__":
    for _ in steps(parse()):
        pass
