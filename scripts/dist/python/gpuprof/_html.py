"""Documents as HTML for notebooks: self-contained, small, without a script; light, or dark as the page is."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, List

if TYPE_CHECKING:
    from ._documents import Document, Finding

MOST_FINDINGS = 5

# Colours are for both schemes: the browser's, and the one of a JupyterLab page, which may be another.
STYLE = """
.gpuprof-doc{--fg:#1f2328;--mute:#57606a;--bg:#fff;--line:#d0d7de;--high:#b42318;--medium:#8a5a00;--low:#0a5c9c;
font:14px/1.45 system-ui,sans-serif;color:var(--fg);background:var(--bg);border:1px solid var(--line);border-radius:6px;padding:12px 16px;max-width:60em}
@media (prefers-color-scheme:dark){.gpuprof-doc{--fg:#e6edf3;--mute:#9da7b3;--bg:#161b22;--line:#3d444d;--high:#ff9a8f;--medium:#e3b341;--low:#79c0ff}}
[data-jp-theme-light=true] .gpuprof-doc{--fg:#1f2328;--mute:#57606a;--bg:#fff;--line:#d0d7de;--high:#b42318;--medium:#8a5a00;--low:#0a5c9c}
[data-jp-theme-light=false] .gpuprof-doc{--fg:#e6edf3;--mute:#9da7b3;--bg:#161b22;--line:#3d444d;--high:#ff9a8f;--medium:#e3b341;--low:#79c0ff}
.gpuprof-doc .answer{font-weight:600;margin:0 0 8px}
.gpuprof-doc ol{margin:0 0 8px;padding-left:1.4em}.gpuprof-doc li{margin:0 0 8px}
.gpuprof-doc .mute{color:var(--mute)}
.gpuprof-doc .high{color:var(--high)}.gpuprof-doc .medium{color:var(--medium)}.gpuprof-doc .low{color:var(--low)}
.gpuprof-doc code{font:12px ui-monospace,monospace;color:var(--fg);background:none;white-space:pre-wrap;overflow-wrap:anywhere}
.gpuprof-doc table{border-collapse:collapse;margin:4px 0 0;color:var(--fg);background:var(--bg)}
.gpuprof-doc th,.gpuprof-doc td{text-align:right;padding:2px 12px 2px 0;border:0;border-bottom:1px solid var(--line);background:var(--bg);color:var(--fg)}
.gpuprof-doc th:first-child,.gpuprof-doc td:first-child{text-align:left}
""".replace("\n", "")


def page(document: "Document") -> str:
    parts = ['<div class="gpuprof-doc"><style>%s</style>' % STYLE, '<p class="answer">%s</p>' % escape(document.answer)]
    findings: List["Finding"] = list(getattr(document, "findings", ()))
    if findings:
        parts.append("<ol>%s</ol>" % "".join(map(finding, findings[:MOST_FINDINGS])))
    if len(findings) > MOST_FINDINGS:
        parts.append('<p class="mute">%d more findings: .findings</p>' % (len(findings) - MOST_FINDINGS))
    head, rows = document.rows()
    if rows:
        parts.append("<table><thead>%s</thead><tbody>%s</tbody></table>" % (row("th", head), "".join(row("td", r) for r in rows)))
    for w in document.warnings[:3]:
        parts.append('<p class="mute">%s</p>' % escape(str(w.get("message") or w.get("text") or w.get("code") or "")))
    return "".join(parts) + "</div>"


def finding(f: "Finding") -> str:
    from ._documents import amount

    severity = f.severity if f.severity in ("high", "medium", "low") else "mute"
    out = '<li><span class="%s">%s</span> <b>%s</b>: %s' % (severity, escape(f.severity), escape(f.id), escape(f.title))
    if f.claim is not None:
        share = " (%.3g %%)" % (100 * f.share) if f.share is not None else ""
        out += '<br><span class="mute">at most</span> %s%s' % (escape(amount(f.claim, f.unit)), share)
    if f.rare is not None:
        out += '<br><span class="mute">in some steps only:</span> %s of the mean step after the recorded ones' % escape(amount(f.rare, "s"))
    for label, text in (("change", f.change), ("measure", f.verify)):
        if text:
            out += '<br><span class="mute">%s</span> <code>%s</code>' % (label, escape(text))
    return out + "</li>"


def row(cell: str, values: List[str]) -> str:
    return "<tr>%s</tr>" % "".join("<%s>%s</%s>" % (cell, escape(str(v)), cell) for v in values)
