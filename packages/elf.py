"""What a package has to know of the program in it: the machine, and the libraries without which it does not start."""
import re
import subprocess

# The libraries that manylinux allows, and the newest symbols of libstdc++ that each of its versions has (PEP 600;
# auditwheel's policies): minor version of glibc, then of GLIBCXX_3.4, CXXABI_1.3.
ALLOWED = re.compile(r"(libc|libm|libdl|librt|libpthread|libgcc_s|libstdc\+\+|ld-linux-[\w-]+)\.so\.\d+$")
LIBSTDCXX = [(17, 19, 7), (24, 22, 10), (27, 24, 11), (31, 28, 12), (34, 29, 13), (35, 30, 13), (39, 33, 15)]
MACHINES = {"Advanced Micro Devices X86-64": "x86_64", "AArch64": "aarch64"}


def _readelf(option, program):
    return subprocess.run(["readelf", "-W", option, program], check=True, capture_output=True, text=True).stdout


def machine(program):
    """The name of the program's processor, as `uname -m` has it."""
    name = re.search(r"Machine:\s+(.*)", _readelf("-h", program)).group(1).strip()
    return MACHINES[name]


def needs(program):
    """The newest minor version of each symbol set, {"GLIBC_2": 34, ...}, and the other libraries."""
    newest = {}
    for name, minor in re.findall(r"Name: (GLIBC_2|GLIBCXX_3\.4|CXXABI_1\.3)(?:\.(\d+))?", _readelf("-V", program)):
        newest[name] = max(newest.get(name, 0), int(minor or 0))
    libraries = re.findall(r"\(NEEDED\).*\[(.*)\]", _readelf("-d", program))
    return newest, [name for name in libraries if not ALLOWED.match(name)]


def wheel_platform(program):
    """The platform tag of a wheel: the oldest manylinux on which the program starts, or else only "linux"."""
    newest, foreign = needs(program)
    glibc, cxx, abi = (newest.get(name, 0) for name in ("GLIBC_2", "GLIBCXX_3.4", "CXXABI_1.3"))
    fitting = [minor for minor, has_cxx, has_abi in LIBSTDCXX if has_cxx >= cxx and has_abi >= abi]
    if foreign or not fitting:
        return "linux_" + machine(program)
    return "manylinux_2_%d_%s" % (max(glibc, fitting[0]), machine(program))
