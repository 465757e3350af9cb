"""Archives that hold the same bytes whenever and wherever they are made from the same files."""

import base64
import gzip
import hashlib
import io
import os
import pathlib
import shutil
import subprocess
import tarfile
import time
import zipfile

LEVEL = 9  # of deflate for archives that have no limit; wheels are packed tighter by `squeeze`


def moment(epoch):
    """A time as zip holds it: nothing before 1980, even seconds."""
    return max(time.gmtime(epoch)[:6], (1980, 1, 1, 0, 0, 0))


def tar_gz(path, files, epoch):
    """files: archive name -> (bytes, mode)."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        folders = set()
        for name in sorted(files):
            for parent in reversed(list(pathlib.PurePosixPath(name).parents)[:-1]):
                if parent not in folders:
                    folders.add(parent)
                    tar.addfile(entry(str(parent), tarfile.DIRTYPE, 0o755, 0, epoch))
            content, mode = files[name]
            tar.addfile(entry(name, tarfile.REGTYPE, mode, len(content), epoch), io.BytesIO(content))
    with open(path, "wb") as out, gzip.GzipFile(filename="", fileobj=out, mode="wb", compresslevel=LEVEL, mtime=0) as gz:
        gz.write(raw.getvalue())


def entry(name, kind, mode, size, epoch):
    info = tarfile.TarInfo(name)
    info.type, info.mode, info.size, info.mtime = kind, mode, size, epoch
    return info


def zipped(path, files, epoch):
    """files: archive name -> (bytes, mode), written in the order given."""
    with zipfile.ZipFile(path, "w") as out:
        for name, (content, mode) in files.items():
            info = zipfile.ZipInfo(name, moment(epoch))
            info.compress_type, info.create_system = zipfile.ZIP_DEFLATED, 3
            info.external_attr = (0o100000 | mode) << 16
            out.writestr(info, content, compresslevel=1)
    squeeze(path)


def squeeze(path):
    """Compresses a zip file anew with libdeflate's best: 3.4 % less than zlib's, read by everything that reads zip.
    A wheel has no other compression to choose: pip and PyPI take deflate alone."""
    if not shutil.which("advzip"):
        raise SystemExit(f"dist: compressing {path}: advzip was not found; install the package advancecomp")
    subprocess.run(["advzip", "--recompress", "--shrink-normal", "--quiet", str(path)], check=True)


def wheel(folder, name, version, tags, scripts, shared, package, entry_points, documents, metadata, epoch):
    """A wheel of commands (scripts: name -> bytes), of what pip puts below the environment (shared:
    path -> bytes) and of a Python package (path -> bytes); its file name."""
    stem = f"{name.replace('-', '_')}-{version}"
    info = f"{stem}.dist-info"
    files = {f"{stem}.data/scripts/{script}": (content, 0o755) for script, content in scripts.items()}
    for path, text in shared.items():
        files[f"{stem}.data/data/{path}"] = (text, 0o644)
    for path, text in package.items():
        files[path] = (text, 0o644)
    for doc, text in documents.items():
        files[f"{info}/licenses/{doc}"] = (text, 0o644)
    files[f"{info}/entry_points.txt"] = (entry_points.encode(), 0o644)
    files[f"{info}/METADATA"] = (metadata.encode(), 0o644)
    each = "".join(f"Tag: py3-none-{tag}\n" for tag in sorted(tags.split(".")))
    files[f"{info}/WHEEL"] = (f"Wheel-Version: 1.0\nGenerator: gpuprof scripts/dist\nRoot-Is-Purelib: false\n{each}".encode(), 0o644)
    record = f"{info}/RECORD"
    lines = []
    for path, (data, _) in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"{path},sha256={digest},{len(data)}\n")
    files[record] = ("".join(lines) + f"{record},,\n").encode(), 0o644
    file = f"{stem}-py3-none-{tags}.whl"
    zipped(pathlib.Path(folder, file), files, epoch)
    return file


def deb(path, tree, control, epoch, scratch):
    """tree: path below / -> (bytes, mode). dpkg-deb packs it, in one thread for the same bytes."""
    if not shutil.which("dpkg-deb"):
        raise SystemExit("dist: making the Debian package: dpkg-deb was not found; install the package dpkg, or leave linux-amd64 and linux-arm64 out of TARGETS")
    root = pathlib.Path(scratch, path.stem)
    sums, size = "", 0
    for name in sorted(tree):
        content, mode = tree[name]
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        file.chmod(mode)
        sums += f"{hashlib.md5(content).hexdigest()}  {name}\n"
        size += -(-len(content) // 1024)
    (root / "DEBIAN").mkdir()
    (root / "DEBIAN/control").write_text(control + f"Installed-Size: {size}\n")
    (root / "DEBIAN/md5sums").write_text(sums)
    for file in [root, *root.rglob("*")]:
        if file.is_dir():
            file.chmod(0o755)
        elif "DEBIAN" in file.parts:
            file.chmod(0o644)
        os.utime(file, (epoch, epoch))
    env = dict(os.environ, SOURCE_DATE_EPOCH=str(epoch), DPKG_DEB_THREADS_MAX="1")
    subprocess.run(["dpkg-deb", "--root-owner-group", "-Zxz", "--build", str(root), str(path)], env=env, check=True, stdout=subprocess.DEVNULL)
