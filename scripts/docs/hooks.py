"""Hooks of mkdocs: README.md is the first page, and links out of docs/ lead to the repository."""

import pathlib
import re

from mkdocs.structure.files import File

ROOT = pathlib.Path(__file__).resolve().parents[2]


def repository(config, path):
    kind = "tree" if (ROOT / path).is_dir() else "blob"
    return f"{config['repo_url']}/{kind}/main/{path}"


def on_files(files, config):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    text = re.sub(r"\]\(docs/", "](", text)
    text = re.sub(r"\]\((?!https?:|#)([A-Z]+(?:\.md)?)\)", lambda m: f"]({repository(config, m[1])})", text)
    files.append(File.generated(config, "README.md", content=text))
    return files


def on_page_markdown(markdown, page, config, files):
    def outside(m):
        path = (ROOT / "docs" / m[1]).resolve().relative_to(ROOT).as_posix()
        if not (ROOT / path).exists():
            raise SystemExit(f"docs/{page.file.src_uri} links to {m[1]}, which does not exist; mend the link")
        return f"]({repository(config, path)}{m[2] or ''})"

    return re.sub(r"\]\((\.\./[^)#]+|kubernetes)(#[^)]*)?\)", outside, markdown)
