#!/usr/bin/env python3
"""Builds the npm package nagi-server with a program in it: build.py NAGI FOLDER. Prints the package's path.

npm itself packs it, without network. The package names the processor and the C library without which npm does not
install it.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
import elf  # noqa: E402
import notices  # noqa: E402

CPUS = {"x86_64": "x64", "aarch64": "arm64"}


def main(program, folder):
    with open(os.path.join(HERE, "package.json"), encoding="utf-8") as f:
        package = json.load(f)
    package.update(os=["linux"], cpu=[CPUS[elf.machine(program)]], libc=["glibc"])
    os.makedirs(folder, exist_ok=True)
    with tempfile.TemporaryDirectory() as stage:
        for name in ["index.js", "index.d.ts", "cli.js", "README.md"]:
            shutil.copy(os.path.join(HERE, name), stage)
        for name, data in notices.files().items():
            with open(os.path.join(stage, name), "wb") as f:
                f.write(data)
        os.mkdir(os.path.join(stage, "bin"))
        subprocess.run(["strip", "-s", "-o", os.path.join(stage, "bin", "nagi"), program], check=True)
        os.chmod(os.path.join(stage, "bin", "nagi"), 0o755)
        with open(os.path.join(stage, "package.json"), "w", encoding="utf-8") as f:
            json.dump(package, f, indent=2)
        command = ["npm", "pack", "--offline", "--silent", "--pack-destination", os.path.abspath(folder)]
        packed = subprocess.run(command, cwd=stage, check=True, capture_output=True, text=True).stdout.split()[-1]
    print(os.path.join(folder, packed))


if __name__ == "__main__":
    main(*sys.argv[1:])
